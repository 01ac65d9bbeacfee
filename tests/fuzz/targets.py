"""The formats that are fuzzed; a new reader gets a line here."""

from __future__ import annotations

from tests.fuzz.crfsuite import CRFSUITE
from tests.fuzz.patterns import CRFPP, CRFPP_TEXT, WAPITI
from tests.fuzz.target import Target

__all__ = ["TARGETS"]

TARGETS: dict[str, Target] = {
    target.name: target for target in (CRFSUITE, CRFPP, CRFPP_TEXT, WAPITI)
}
