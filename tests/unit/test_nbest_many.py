"""The n best paths cost what there is, not what is asked for: n = 10⁹ at every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.cli.main import main
from fstcrf.lattices import Lattice, nbest
from fstcrf.machines.openfst import from_att
from fstcrf.training import Chain
from tests.support.memory import peak

MANY = 10**9
SENTENCE = {"word": ["a"] * 4}


def _tagger(tape: str) -> fstcrf.CRF:
    data = [{"word": ["a", "b", "c"], tape: ["A", "B", "A"]}, {"word": ["b"], tape: ["B"]}]
    return fstcrf.CRF.train(
        data, tape, "U:%x[0,word]\nB\n", structure=Chain(transitions="all"), max_iterations=5
    )


ONE, OTHER = _tagger("y"), _tagger("z")
BOTH = ONE @ OTHER
SMALL = fstcrf.Grammar.from_text('export x = at_most[1, "B"];')
LAZY = fstcrf.compose(ONE).constrained(SMALL, search="lazy")
CHAIN = fstcrf.compose(ONE, OTHER, normalize="chain")
ACYCLIC = from_att("0 1 A A\n0 1 B B\n1\n")
SPANS = Lattice.from_spans(3, [(0, 1, "A", 1.0), (1, 3, "A", 0.5)])
WORDS = fstcrf.Lexicon.from_words(["a", "b", "ab"])
SCORES = np.random.default_rng(0).normal(size=(4, 2))

DOORS: dict[str, tuple[Callable[[int], Any], int]] = {
    "nbest_all": (lambda n: ONE.nbest_all([SENTENCE], n)[0], 16),
    "decode": (lambda n: ONE.decode([SENTENCE, {"word": []}], n=n)[0], 16),
    "lattice": (lambda n: ONE.lattice(SENTENCE).nbest(n), 16),
    "lattices": (lambda n: nbest([ONE.lattice(SENTENCE)] * 2, n)[0], 16),
    "several tapes": (lambda n: BOTH.nbest_all([SENTENCE], n)[0], 256),
    "one of several": (lambda n: BOTH.decode([SENTENCE], n=n, tapes=["y"])[0], 16),
    "a grammar": (lambda n: (fstcrf.compose(ONE) & SMALL).nbest_all([SENTENCE], n)[0], 5),
    "a search": (lambda n: LAZY.nbest_all([SENTENCE], n)[0], 5),
    "relaxed": (
        lambda n: (fstcrf.compose(ONE) & SMALL).decode(
            [SENTENCE, SENTENCE], n=n, forced=[["B", "B", None, None], None], on_no_path="relax"
        )[0],
        4,
    ),
    "arrays": (lambda n: Lattice.from_arrays(["A", "B"], SCORES, np.zeros((2, 2))).nbest(n), 16),
    "acyclic": (lambda n: Lattice.from_machine(ACYCLIC, ["A", "B"]).nbest(n), 2),
    "segments": (SPANS.nbest, 4),
    "a chain": (lambda n: CHAIN.nbest_all([SENTENCE], n)[0], 256),
    "a chain's lattice": (lambda n: CHAIN.lattice(SENTENCE, n=n).nbest(n), 256),
    "words": (lambda n: WORDS.lattice("ab").nbest(n), 5),
    "CTC": (lambda n: Lattice.from_ctc(SCORES).nbest(n), 16),
}  # fmt: skip


@pytest.mark.parametrize(("door", "paths"), DOORS.values(), ids=DOORS)
def test_memory_is_for_the_paths_there_are(door: Callable[[int], Any], paths: int) -> None:
    door(paths)  # what is made once
    found: list[Any] = []
    assert peak(lambda: found.extend(door(MANY))) < 8 << 20
    assert len(found) == paths


def test_answers_that_were_relaxed_have_room_for_all_paths() -> None:
    tagger = fstcrf.compose(ONE) & SMALL
    few, many = ({"word": ["a"] * k} for k in (2, 11))
    answer = tagger.decode([few, many], n=MANY, forced=[["B", "B"], None], on_no_path="relax")
    assert answer.changed.tolist() == ["grammar", ""]
    assert list(map(len, answer.ranked())) == [1, 12]
    long = tagger.decode(
        [few, many], n=MANY, forced=[None, ["B", "B", *[None] * 9]], on_no_path="relax"
    )
    assert long.changed.tolist() == ["", "grammar"]
    assert list(map(len, long.ranked())) == [3, 2**9]


def test_the_shell_writes_the_paths_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = tmp_path / "m.fstcrf", tmp_path / "t.txt"
    ONE.save(model)
    text.write_text("a A\nb B\n\n")
    with pytest.raises(SystemExit) as ended:
        main(["tag", str(model), str(text), "--nbest", str(MANY)])
    assert ended.value.code == 0
    assert len(capsys.readouterr().out.strip().split("\n\n")) == 4
