"""What is fuzzed; a new reader gets a line here."""

from __future__ import annotations

from tests.fuzz.crfsuite import CRFSUITE
from tests.fuzz.kernel import KERNEL
from tests.fuzz.machines import MACHINES
from tests.fuzz.natives import OWN
from tests.fuzz.patterns import CRFPP, CRFPP_TEXT, WAPITI
from tests.fuzz.tables import TABLES
from tests.fuzz.target import Target
from tests.fuzz.texts import TEXTS

__all__ = ["TARGETS"]

FOREIGN = (CRFSUITE, CRFPP, CRFPP_TEXT, WAPITI)
TARGETS: dict[str, Target] = {
    target.name: target for target in (*FOREIGN, *OWN, *TEXTS, *MACHINES, *TABLES, *KERNEL)
}
