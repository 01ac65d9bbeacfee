"""What an installed fstcrf must do, wherever it is installed: ``python tests/wheel.py``.

It needs the package and nothing else: no checkout, no compiler, no pytest, no pynini.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from pathlib import Path

import fstcrf
from fstcrf import kernel
from fstcrf.demo import COLUMNS, corpus_path, template_path
from fstcrf.errors import MissingDependencyError

RULES = """
ONE = any* - (any* "[B-START]" any* "[B-START]" any*);
export BEGUN = ONE - (any* ("[O]" | label["[BI]-END"]) "[I-START]" any*);
"""


def main() -> None:
    """Train, save, load, compose, tag under a grammar; AssertionError where an answer is wrong."""
    train, test = (fstcrf.read_columns(corpus_path(part), COLUMNS) for part in ("train", "test"))
    tagger = fstcrf.CRF.train(train, "field", template_path("field"), scheme="iob2")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "field.fstcrf"
        tagger.save(path)
        loaded = fstcrf.load(path)
    sentence = [("Concert", "NOUN"), ("at", "PREP"), ("noon", "NOUN"), (".", "PUNCT")]
    assert loaded.tag(sentence) == ["O", "O", "B-START", "O"]
    found = fstcrf.evaluate_spans(test.column_lists("field"), loaded.tag_all(test)).f
    assert found > 0.9, found
    strict = tagger & fstcrf.Grammar.from_text(RULES)
    assert all(labels.count("B-START") < 2 for labels in strict.tag_all(test))
    exchange = "with pynini"
    try:
        tagger.lattice(sentence).to_fst()
    except MissingDependencyError:
        exchange = "without pynini"
    print(  # noqa: T201
        f"fstcrf {fstcrf.__version__}, Python {platform.python_version()}, {sys.platform} "
        f"{platform.machine()}, kernel {kernel.variant()} of {', '.join(kernel.variants())}, "
        f"{exchange}: F {found:.3f}, {Path(fstcrf.__file__).parent}"
    )


if __name__ == "__main__":
    main()
