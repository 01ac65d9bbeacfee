"""CoNLL-U as the package conllu sees it; a small file that has all that the format has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SMALL = Path(__file__).with_name("small.conllu").read_bytes()


def parsed(text: bytes) -> list[tuple[dict[str, str], list[dict[str, Any]]]]:
    conllu = pytest.importorskip("conllu")
    found = conllu.parse(text.decode("utf-8-sig").replace("\r\n", "\n"))
    return [(dict(s.metadata), [dict(token) for token in s]) for s in found]


def same_but(old: bytes, new: bytes, changed: Sequence[str], keys: Sequence[str] = ()) -> None:
    """Check that nothing else has changed, as the package conllu sees it."""
    before, after = parsed(old), parsed(new)
    assert len(before) == len(after)
    for (comments, tokens), (others, filled_tokens) in zip(before, after, strict=True):
        assert comments == others
        assert len(tokens) == len(filled_tokens)
        for token, other in zip(tokens, filled_tokens, strict=True):
            names = set(token) if isinstance(token["id"], tuple) else set(token) - set(changed)
            for name in names - set(["misc"] if keys else []):
                assert token[name] == other[name]
            left = {k: v for k, v in (other["misc"] or {}).items() if k not in keys}
            if "misc" not in changed:
                assert left == {k: v for k, v in (token["misc"] or {}).items() if k not in keys}
