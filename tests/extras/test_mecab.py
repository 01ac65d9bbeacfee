"""MeCab itself, through fugashi with unidic-lite: the same words, both ways."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.ext.lexicon import Entry, Lexicon
from fstcrf.ext.words import Annotation, LatticeCRF, Words
from tests.support.wordlists import random_lexicon

fugashi = pytest.importorskip("fugashi")
unidic_lite = pytest.importorskip("unidic_lite")

TEXTS = [
    "これはペンです。",
    "すもももももももものうち",
    "  空白 が　ある ",
    "ＡＢＣとabcと123、12億3,000万円！？",
    "𠮷野家で😀😀を食べるッッッッッッッッッッッッッッッッッッッッッッッッッッッッッッッ",
    "コンピューターーーーーーーーーーーーーーーーーーーーーーーーーーーーーーーーーー",
    "ﾊﾝｶｸ\tカナと\u00e9l\u00e8ve",
    "",
]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.load(unidic_lite.DICDIR)


def _mecab(folder: str | Path) -> Any:
    return fugashi.GenericTagger(f"-d {folder} -r {os.devnull}")


def _compare(lexicon: Lexicon, mecab: Any, texts: list[str]) -> None:
    for text, words in zip(texts, lexicon.tag_all(texts), strict=True):
        theirs = [(node.surface, node.feature_raw) for node in mecab.parseToNodeList(text)]
        assert [(word.surface, word.feature) for word in words] == theirs, text


def test_words_are_those_of_mecab(lexicon: Lexicon) -> None:
    _compare(lexicon, _mecab(unidic_lite.DICDIR), TEXTS)


@pytest.mark.skipif("FSTCRF_DATA" not in os.environ, reason="FSTCRF_DATA is not set")
@pytest.mark.parametrize("part", ["dev", "test"])
def test_words_of_a_treebank_are_those_of_mecab(lexicon: Lexicon, part: str) -> None:
    path = Path(os.environ["FSTCRF_DATA"]) / f"ud_japanese_gsd/ja_gsd-ud-{part}.conllu"
    mark = "# text = "
    lines = path.read_text().splitlines()
    texts = [line.removeprefix(mark) for line in lines if line.startswith(mark)]
    assert len(texts) > 500
    _compare(lexicon, _mecab(unidic_lite.DICDIR), texts)


def test_mecab_runs_what_we_write(lexicon: Lexicon, tmp_path: Path) -> None:
    """A small dictionary with words of the large one, its matrix and kinds of characters."""
    words = {w.number: w for text in TEXTS for w in lexicon.candidates(text)}
    known = [w for w in words.values() if w.number < lexicon.n_known]
    rows = lexicon.entries(np.asarray([w.number for w in known], dtype=np.int32))
    entries = [
        Entry(w.surface, int(row["left"]), int(row["right"]), int(row["cost"]), w.feature)
        for w, row in zip(known, rows, strict=True)
    ]
    unknown = list(lexicon.unknown.listed())
    own = Lexicon.from_entries(entries, lexicon.matrix, lexicon.characters, unknown)
    own.write(tmp_path)
    _compare(own, _mecab(tmp_path), TEXTS)
    _compare(Lexicon.load(tmp_path), _mecab(tmp_path), TEXTS)


_COMPILE = "import sys, fugashi; fugashi.build_dictionary(sys.argv[1])"


@pytest.mark.parametrize("costs", ["none", "scaled"])
def test_mecab_compiles_and_runs_what_was_trained(tmp_path: Path, costs: Any) -> None:
    """Sources go through MeCab's own compiler; it finds the words that we find with them."""
    generator = np.random.default_rng(5)
    lexicon = random_lexicon(generator, words=12)
    texts = ["".join(generator.choice(list("abc z"), size=15)) for _ in range(200)]
    data = []
    for text in texts[:20]:
        words = lexicon.candidates(text).chosen(lexicon.lattice(text).sample(1)[0].arcs)
        pairs = [(word.surface, word.feature.split(",")[0]) for word in words]
        data.append(Annotation.of_words(pairs, text))
    template = "UNIGRAM A:%F[0],%F?[2]\nUNIGRAM B:%w/%t\nBIGRAM C:%L[0]/%R[0],%R[1]\n"
    model = LatticeCRF.train(data, template, structure=Words(lexicon, costs=costs), l2=0.1)
    source, target = tmp_path / "source", tmp_path / "target"
    model.export(source)
    target.mkdir()
    arguments = f"mecab-dict-index -d {source} -o {target} -f utf-8 -t utf-8"
    subprocess.run([sys.executable, "-c", _COMPILE, arguments], check=True, capture_output=True)
    shutil.copy(source / "dicrc", target)
    _compare(Lexicon.load(target), _mecab(target), texts)
    _compare(model.compiled(), _mecab(target), texts)
    model.export(tmp_path / "own", compiled=True)
    _compare(model.compiled(), _mecab(tmp_path / "own"), texts)
