"""Batches of scores: what comes in, what is refused, what is read where."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Grammar, Lattice, Lattices, decode, kernel
from fstcrf.arrays import Ragged
from fstcrf.constraints import at_most, bio, bioes
from fstcrf.errors import (
    FstcrfError,
    GrammarError,
    KernelError,
    LabelError,
    NoPathError,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.lattices import batching
from fstcrf.lattices.emissions.batch import ArrayEngine, ArrayLattices, array_lattices
from fstcrf.lattices.emissions.reading import usual_names

LABELS = ["O", "B-X", "I-X"]


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def batch_of(
    scores: Any,
    lengths: Any = None,
    *,
    labels: Any = LABELS,
    grammar: Grammar | None = None,
    written_out: bool = True,
    **chain: Any,
) -> ArrayLattices:
    """Return a batch; all in float64, as lattices are, where arcs are not written out."""
    made = Lattices.from_arrays(labels, scores, lengths=lengths, **chain)
    assert isinstance(made, ArrayLattices)
    return ArrayLattices(made.scores, made.tape, made.chain, grammar, written_out=written_out)


def is_read(batch: ArrayLattices) -> bool:
    """Tell whether scores are read where they lie."""
    return all(isinstance(group.engine, ArrayEngine) for group in batch._groups())


class Exported:
    """An array of another package: what DLPack asks for, and nothing else."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self._array, self._device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0


# --- What comes in --------------------------------------------------------------------------------


def test_every_form_has_the_same_answer() -> None:
    scores = drawn(4, 6, 3)
    lengths = [6, 2, 0, 5]
    want = decode(scores, lengths, labels=LABELS, grammar=bio())
    mask = np.arange(6) < np.asarray(lengths)[:, None]
    wide = np.zeros((4, 9, 5), dtype=np.float32)
    wide[:, 1:7, 2:] = scores
    fortran = np.asfortranarray(scores)
    backwards = scores[:, ::-1].copy()[:, ::-1]
    for form in (scores, wide[:, 1:7, 2:], fortran, backwards, Exported(scores), scores.tolist()):
        for ends in ({"lengths": lengths}, {"mask": mask}, {"mask": mask.tolist()}):
            found = decode(form, **ends, labels=LABELS, grammar=bio())
            np.testing.assert_array_equal(found.ids, want.ids)
            np.testing.assert_allclose(found.scores, want.scores)
    ragged = [one[:n] for one, n in zip(scores, lengths, strict=True)]
    for listed in (ragged, tuple(ragged), [one.tolist() for one in ragged]):
        found = decode(listed, labels=LABELS, grammar=bio())
        np.testing.assert_array_equal(found.ids, want.ids)
    half = decode(scores.astype(np.float16), lengths, labels=LABELS)
    exact = decode(scores.astype(np.float16).astype(np.float64), lengths, labels=LABELS)
    np.testing.assert_array_equal(half.ids, exact.ids)
    whole = decode(np.array([[[1, 2, 3]]]), labels=LABELS)
    assert whole.labels() == [["I-X"]]


def test_the_width_of_ids_is_that_of_the_batch() -> None:
    answer = decode(drawn(3, 7, 3), [2, 1, 0], labels=LABELS)
    assert answer.ids.shape == (3, 7)
    assert answer.ids.dtype == np.int32
    assert answer.scores.dtype == np.float64
    assert (answer.ids[:, 2:] == -1).all()
    assert decode(drawn(3, 7, 3), [2, 1, 0], labels=LABELS, n=2).ids.shape == (3, 2, 7)


def test_scores_are_not_copied_where_they_are_decoded_at_once() -> None:
    scores = drawn(1, 100_000, 20)
    labels = [f"L{i}" for i in range(20)]
    decode(scores[:, :10], labels=labels)
    tracemalloc.start()
    batch: Any = array_lattices(labels, scores, (None, None, None), None, None, None)
    assert np.shares_memory(batch.scores.rows, scores)
    assert tracemalloc.get_traced_memory()[1] < scores.nbytes / 10
    tracemalloc.stop()
    assert not np.shares_memory(batch_of(scores, labels=labels).scores.rows, scores)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["O", "B_X-Y", "I_X-Y"], "B_PER"),
        (["O", "X-Y-B", "X-Y-I"], "PER-B"),
        (["O", "BX-Y", "IX-Y"], "BPER"),
        (["none", "B-X-Y", "I-X-Y"], {"none": "O"}),
        (["o", "b-X-Y", "i-X-Y"], lambda name: name[0].upper() + name[1:]),
    ],
)
def test_names_of_tools_become_the_usual_ones(labels: list[str], names: Any) -> None:
    assert usual_names(labels, names) == ("O", "B-X-Y", "I-X-Y")
    answer = decode(drawn(1, 5, 3), labels=labels, names=names, grammar=bio())
    assert set(answer.labels()[0]) <= {"O", "B-X-Y", "I-X-Y"}


def test_labels_by_number() -> None:
    scores = drawn(1, 4, 3)
    by_number = {2: "I-X", 0: "O", 1: "B-X"}
    assert decode(scores, labels=by_number).labels() == decode(scores, labels=LABELS).labels()


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 3), (0, 0, 3)])
def test_nothing_is_an_answer_to_nothing(shape: tuple[int, int, int]) -> None:
    batch = batch_of(np.zeros(shape, dtype=np.float32), grammar=bio())
    assert batch.decode().ids.shape == shape[:2]
    assert batch.decode(2).ids.shape == (shape[0], 2, shape[1])
    assert [table.shape for table in batch.marginals()] == [shape[1:]] * shape[0]
    assert batch.log_partition().tolist() == [0.0] * shape[0]
    assert batch.entropy().tolist() == [0.0] * shape[0]
    assert batch.sample(2) == [[()] * 2] * shape[0]
    assert [table.shape for table in batch.max_marginals()] == [shape[1:]] * shape[0]
    assert [len(s) for s in batch.probable_spans()] == [0] * shape[0]
    assert batch.decode().labels() == [[]] * shape[0]
    assert not batch.decode().dead.any()
    assert len(batch.decode().span_probabilities()) == shape[0]
    assert len(fstcrf.best(batch)) == len(batch.nbest(3)) == len(batch) == shape[0]
    assert decode([], labels=LABELS).ids.shape == (0, 0)


def test_one_label() -> None:
    batch = batch_of(drawn(2, 3, 1), [3, 1], labels=["O"])
    assert batch.decode().labels() == [["O"] * 3, ["O"]]
    np.testing.assert_allclose(batch.log_partition(), batch.decode().scores)


# --- What is refused ------------------------------------------------------------------------------


def spoilt(value: float) -> Any:
    scores = drawn(3, 4, 3)
    scores[1, 2, 0] = value
    return scores


BAD: list[tuple[dict[str, Any], type[FstcrfError], str]] = [
    (
        {"scores": spoilt(np.nan)},
        NumericError,
        r"^sentence 1, token 2: the score of label 'O' is nan",
    ),
    (
        {"scores": spoilt(np.inf)},
        NumericError,
        r"^sentence 1, token 2: the score of label 'O' is inf",
    ),
    ({"scores": spoilt(np.nan).astype(float)}, NumericError, "^sentence 1, token 2"),
    ({"scores": spoilt(np.nan), "n": 2}, NumericError, "^sentence 1, token 2"),
    (
        {"scores": drawn(3, 4)},
        ShapeError,
        r"scores are \[3, 4\], expected .*scores of one sentence",
    ),
    ({"scores": drawn(3, 4, 2)}, ShapeError, "expected .*3 labels"),
    ({"scores": [drawn(4, 3), drawn(4, 2)]}, ShapeError, "scores of sentence 1 are"),
    ({"scores": "text"}, ShapeError, "no array of numbers"),
    (
        {"scores": [drawn(4, 3), drawn(2, 3)], "lengths": [4, 2]},
        ShapeError,
        "so lengths= and mask= are not needed",
    ),
    ({"scores": drawn(3, 4, 3) * 1j}, ShapeError, "complex"),
    ({"scores": Exported(drawn(3, 4, 3), 2)}, OptionError, "move it to the CPU"),
    ({"lengths": [4, 5, 1]}, ShapeError, "^sentence 1: its length is 5, expected 0 to 4"),
    ({"lengths": [4, -1, 1]}, ShapeError, "^sentence 1: its length is -1"),
    ({"lengths": [4, 1]}, ShapeError, r"lengths are \[2\], expected \[3\]"),
    ({"lengths": [4, 1.5, 2]}, ShapeError, "whole numbers"),
    ({"mask": np.array([[1, 1, 1, 1], [1, 0, 1, 0], [1, 0, 0, 0]])}, ShapeError, "hole at token 1"),
    (
        {"mask": np.array([[1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 0, 0]])},
        ShapeError,
        "mask of sentence 1",
    ),
    ({"mask": np.full((3, 4), -1e4)}, ShapeError, "mask holds -10000.0, expected true and false"),
    ({"mask": np.ones((3, 3))}, ShapeError, r"mask is \[3, 3\]"),
    ({"lengths": [1, 1, 1], "mask": np.ones((3, 4))}, OptionError, "give only one of them"),
    ({"labels": {0: "O", 2: "B-X", 3: "I-X"}}, OptionError, "keys 0 to 2"),
    ({"labels": ["O", "B-X", "O"]}, OptionError, "label 'O' occurs twice, at 0 and 2"),
    (
        {"labels": ["O", "B_X", "B-X"], "names": "B_PER"},
        OptionError,
        "labels 'B_X' and 'B-X' get one name, 'B-X'",
    ),
    ({"names": "PER"}, OptionError, "expected how the labels write B-PER"),
    ({"names": {"Z": "O"}}, OptionError, "'Z', which is not one of the labels"),
    ({"labels": []}, OptionError, "at least one label"),
    ({"transitions": np.zeros((3, 2))}, ShapeError, "transitions is"),
    ({"initial": [0, 0, np.nan]}, NumericError, "initial has NaN"),
    ({"final": [0, 0]}, ShapeError, "final is"),
    ({"grammar": "bioes"}, OptionError, "expected a Grammar"),
    ({"grammar": bioes(), "labels": ["O", "B-X", "Q-X"]}, GrammarError, "bioes"),
    ({"n": 0}, OptionError, "n is 0"),
    ({"threads": 0}, OptionError, "threads is 0"),
]


@pytest.mark.parametrize(("change", "error", "says"), BAD)
def test_what_is_wrong_is_said_in_one_line(
    change: dict[str, Any], error: type[FstcrfError], says: str
) -> None:
    given: dict[str, Any] = {"scores": drawn(3, 4, 3), "labels": LABELS, **change}
    with pytest.raises(error, match=says) as caught:
        decode(**given)
    assert "\n" not in str(caught.value)


def test_given_labels_that_do_not_fit() -> None:
    batch = batch_of(drawn(2, 3, 3), [3, 2])
    with pytest.raises(LabelError, match="sentence 0: no label 'B-Y'"):
        batch.score([["O", "B-Y", "O"], ["O", "O"]])
    with pytest.raises(ShapeError, match="sentence 1: 1 labels for 2 tokens"):
        batch.score([["O", "B-X", "I-X"], ["O"]])
    with pytest.raises(ShapeError, match="labellings of 1 sentences for 2 lattices"):
        batch.score([["O", "B-X", "I-X"]])
    with pytest.raises(ShapeError, match=r"mask of sentence 1 is \[3, 3\], expected \[2, 3\]"):
        batch.restrict([np.ones((3, 3))] * 2)
    with pytest.raises(ShapeError, match="1 masks for 2 sentences"):
        batch.restrict([np.ones((3, 3))])
    with pytest.raises(ShapeError, match="2 lattices cannot be composed with 1"):
        batch @ [batch[0]]
    for wrong in (np.zeros((1, 2, 3, 3)), [np.zeros((2, 3, 3))]):
        with pytest.raises(ShapeError, match="transitions of 1 sentences, expected 2"):
            batch_of(drawn(2, 3, 3), transitions=wrong)
    with pytest.raises(ShapeError, match="transitions of sentence 1"):
        batch_of(drawn(2, 3, 3), transitions=[np.zeros((2, 3, 3)), np.zeros((1, 3, 3))])


# --- A batch is a sequence of lattices ------------------------------------------------------------


def batches() -> list[Lattices[Any]]:
    scores, steps = drawn(3, 4, 3).astype(float), drawn(3, 3, 3, 3, seed=1).astype(float)
    lengths = [4, 1, 3]
    chain = {"transitions": drawn(3, 3, seed=2), "initial": drawn(3, seed=3)}
    first = Lattices.from_arrays(LABELS, scores, **chain, lengths=lengths)
    moving = Lattices.from_arrays(LABELS, scores, steps, lengths=lengths)
    return [first, first & at_most(1, "X"), moving, moving & bio(), first.select(np.array([2, 0]))]


@pytest.mark.parametrize("batch", batches())
def test_a_batch_answers_as_its_rows_do(batch: Lattices[Any]) -> None:
    masks = [np.arange(3) < 2 for _ in batch]
    masks = [np.tile(mask, (len(row), 1)) for mask, row in zip(masks, batch, strict=True)]
    other = Lattices.from_arrays(["U", "V"], [drawn(len(row), 2) for row in batch], tape="z")
    changed = {
        "restrict": (
            batch.restrict(masks),
            [row.restrict(own) for row, own in zip(batch, masks, strict=True)],
        ),
        "scale": (batch.scale(0.5), [row.scale(0.5) for row in batch]),
        "weighted": (batch.weighted(2.0), [row.weighted(2.0) for row in batch]),
        "without_grammar": (batch.without_grammar(), [row.without_grammar() for row in batch]),
        "&": (batch & at_most(0, "X"), [row & at_most(0, "X") for row in batch]),
        "@": (batch @ other, [a @ b for a, b in zip(batch, other, strict=True)]),
        "select": (batch.select(np.array([1])), batch[1:2]),
    }
    for several, rows in changed.values():
        z = several.log_partition()
        np.testing.assert_allclose(z, [row.log_partition() for row in rows], rtol=1e-12)
        assert [p and p.labels for p in fstcrf.best(several)] == [row.best().labels for row in rows]
    shown = batch.nbest(2, tapes=["label"])
    assert shown == [row.nbest(2, tapes=["label"]) for row in batch]
    with pytest.raises(NoPathError, match="sentence 1"):
        batch.restrict([mask * (k != 1) for k, mask in enumerate(masks)]).marginals()


# --- How it is computed ---------------------------------------------------------------------------


def test_float32_finds_what_float64_finds_in_a_long_document(variant: str) -> None:
    """Labels differ only where the two best labels of a token are nearer than 1e-4."""
    assert variant
    tokens, size = 128_000 if variant == "v4" else 20_000, 9
    scores = drawn(1, tokens, size, seed=3) * 3
    moves = np.random.default_rng(4).normal(size=(size, size))
    labels = [f"L{i}" for i in range(size)]
    narrow = decode(scores, labels=labels, transitions=moves)
    exact = batch_of(scores.astype(np.float64), labels=labels, transitions=moves)
    wide = exact.decode()
    other = np.flatnonzero(narrow.ids[0] != wide.ids[0])
    assert len(other) < 20
    if len(other):
        rows = np.sort(exact.max_marginals()[0][other], axis=1)
        assert (rows[:, -1] - rows[:, -2] < 1e-4).all()
    assert narrow.scores[0] == pytest.approx(wide.scores[0], abs=1e-3)


@pytest.mark.parametrize("mask", [-1e4, -1e9])
def test_large_numbers_that_mean_never_cost_no_precision(mask: float) -> None:
    """At one token all labels are masked: what is left of the scores must not be rounded away."""
    scores = drawn(3, 12, 9, seed=1)
    scores[1, 5] = mask
    scores[2, 3:9, 2:] = mask
    moves = np.where(np.eye(9) > 0, -1e4, drawn(9, 9, seed=2).astype(float))
    labels = [f"L{i}" for i in range(9)]
    narrow = batch_of(scores, labels=labels, transitions=moves)
    wide = batch_of(scores, labels=labels, transitions=moves, written_out=False)
    np.testing.assert_array_equal(narrow.decode().ids, wide.decode().ids)
    np.testing.assert_allclose(narrow.decode().scores, wide.decode().scores)
    np.testing.assert_allclose(narrow.marginals(), wide.marginals(), atol=2e-5)
    np.testing.assert_allclose(narrow.log_partition(), wide.log_partition(), rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("grammar", [None, bioes(), at_most(1, "X") & bioes()])
def test_both_kernels_agree(
    variant: str, scale: float, dtype: type, grammar: Grammar | None
) -> None:
    """Arrays, and the machine of lattices, at easy and at extreme scores, with holes."""
    assert variant
    labels = ("O", *(f"{a}-{t}" for t in "XY" for a in "BIES"))
    rng = np.random.default_rng(7)
    scores: Any = (rng.normal(size=(6, 30, 9)) * scale).astype(dtype)
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    scores[0] = (rng.normal(size=(30, 9)) * scale).astype(dtype)
    lengths = [30, 30, 1, 17, 0, 29]
    moves = rng.normal(size=(9, 9))
    asked: dict[str, Any] = {"labels": labels, "transitions": moves, "grammar": grammar}
    fast, slow = (batch_of(scores, lengths, **asked, written_out=out) for out in (True, False))
    assert is_read(fast)
    assert not is_read(slow)
    close = 2e-5 if dtype is np.float32 else 1e-9
    one, two = fast.decode(), slow.decode()
    np.testing.assert_array_equal(one.dead, two.dead)
    np.testing.assert_allclose(one.scores, two.scores, rtol=1e-6 if close > 1e-6 else 1e-9)
    np.testing.assert_allclose(fast.log_partition(), slow.log_partition(), rtol=1e-6)
    for a, b in zip(one.marginals(), two.marginals(), strict=True):
        np.testing.assert_allclose(a, b, atol=close)
    mine, other = one.span_probabilities(), two.span_probabilities()
    if (one.ids == two.ids).all():
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, atol=close)


def test_a_grammar_with_many_states_is_not_written_out() -> None:
    labels = ("O", *(f"{a}-{t}" for t in "ABCDEFGH" for a in "BIES"))
    few = batch_of(drawn(1, 3, 33), labels=labels, grammar=bioes())
    many = batch_of(
        drawn(1, 3, 33),
        labels=labels,
        grammar=bioes() & at_most(1, "A") & at_most(2, "B") & at_most(3, "C") & at_most(4, "D"),
    )
    assert is_read(few)
    assert not is_read(many)
    assert many.decode().labels() == [list(many[0].best().labels)]


@pytest.mark.parametrize("low", [-1.1e300, -1e308, -1.7e308])
def test_scores_whose_sums_could_vanish_are_refused(low: float) -> None:
    """Three of them add up to −inf, which would say that there is no path."""
    flat = np.zeros((2, 3, 2))
    low_rows = flat.copy()
    low_rows[1] = low
    if low < -1e307:
        with pytest.raises(NumericError, match="sentence 1, token 0: the score of label 'a'"):
            decode(low_rows, labels=["a", "b"])
    with pytest.raises(NumericError, match="beyond 1e300"):
        decode(flat, labels=["a", "b"], transitions=np.full((2, 2), low))
    with pytest.raises(NumericError, match="beyond 1e300"):
        decode(flat, labels=["a", "b"], final=[0.0, low])
    never = np.where(flat == 0.0, -np.inf, flat)
    assert decode(never, labels=["a", "b"]).scores.tolist() == [-np.inf, -np.inf]


def test_a_chain_that_is_no_number_is_refused() -> None:
    none = np.zeros(2)
    chain = kernel.ExpandedChain(
        2, np.arange(2, dtype=np.int32), np.full((2, 2), np.nan), none, none
    )
    lengths = Ragged.from_lengths([3])
    with pytest.raises(NumericError, match="transitions"):
        kernel.EmissionRows(chain, drawn(1, 3, 2), lengths, 3)


@pytest.mark.parametrize("tokens", [511, 512, 513, 1024, 1300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_sentences_are_done_block_by_block(tokens: int, dtype: type) -> None:
    scores: Any = (drawn(1, tokens, 9, seed=tokens) * 2).astype(dtype)
    moves = drawn(9, 9, seed=1).astype(float)
    labels = [f"L{i}" for i in range(9)]
    fast = batch_of(scores, labels=labels, transitions=moves)
    slow = batch_of(scores, labels=labels, transitions=moves, written_out=False)
    np.testing.assert_array_equal(fast.decode().ids, slow.decode().ids)
    assert fast.decode().scores == pytest.approx(slow.decode().scores, rel=1e-12)
    spoilt_late = scores.copy()
    spoilt_late[0, 3] = np.nan
    with pytest.raises(NumericError, match="sentence 0, token 3"):
        decode(spoilt_late, labels=labels)
    spoilt_late[0, 3] = -np.inf
    assert decode(spoilt_late, labels=labels).dead.tolist() == [True]


def test_labels_that_are_none_are_refused_by_the_kernel() -> None:
    engine = batch_of(drawn(1, 3, 3))._groups()[0].engine
    assert isinstance(engine, ArrayEngine)
    flat = kernel.ExpandedChain(
        3, np.arange(3, dtype=np.int32), np.zeros((3, 3)), *np.zeros((2, 3))
    )
    rows = kernel.EmissionRows(flat, drawn(1, 3, 3), Ragged.from_lengths([3]), 3)
    for wrong in (3, -2):
        with pytest.raises(KernelError):
            engine.path_spans(np.array([0, wrong, 0], dtype=np.int32))
        with pytest.raises(KernelError):
            rows.score_labels(np.array([[0, wrong, 0]], dtype=np.int32), rows.sums())
    none, two = np.zeros(3), np.zeros(2)
    states = kernel.ExpandedChain(3, np.array([0, 3], dtype=np.int32), np.zeros((2, 2)), two, two)
    with pytest.raises(KernelError):
        kernel.EmissionRows(states, drawn(1, 3, 3), Ragged.from_lengths([3]), 3)
    beyond = kernel.ExpandedChain(3, np.arange(3, dtype=np.int32), np.zeros((3, 3)), none, none)
    with pytest.raises(KernelError):
        kernel.EmissionRows(beyond, drawn(1, 3, 3), Ragged.from_lengths([4]), 4)


def test_it_is_offered_at_the_top() -> None:
    assert fstcrf.decode is decode
    assert repr(batch_of(drawn(1, 2, 3))) == "<Lattices of 1 sentences>"


@pytest.mark.parametrize("types", [127, 128, 200])
def test_many_labels_decode_as_lattices(types: int) -> None:
    labels = ["O", *(f"{place}-{k}" for k in range(types) for place in "BI")]
    scores = np.random.default_rng(types).normal(size=(3, 9, len(labels))) * 3
    answer = fstcrf.decode(scores, labels=labels, grammar=bio())
    for k in range(3):
        best = (Lattice.from_arrays(labels, scores[k]) & bio()).best()
        assert answer.paths(k)[0].labels == best.labels
        assert answer.scores[k] == pytest.approx(best.score)


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("size", [3, 22, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sentence_has_the_same_bits_alone_and_in_a_batch(size: int, dtype: Any) -> None:
    rng = np.random.default_rng(size)
    lengths = rng.integers(0, 12, 70)
    scores = (2 * rng.normal(size=(70, 11, size))).round(1).astype(dtype)  # with ties
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    scores[40] += 3000 * rng.random((11, size)).astype(dtype)  # float32 does not suffice
    own: Any = {"labels": [f"L{k}" for k in range(size)], "final": rng.normal(size=size)}
    own["transitions"] = rng.normal(size=(size, size)).round(1)
    batch = batch_of(scores, lengths, **own)
    whole, log_z = batch.decode(), batch.log_partition()
    ((_, rows),) = batching.answered(batch, lambda group: group.engine.marginals([0]), 1)
    for b, row in enumerate(batch.rows.split(rows[0])):
        one = batch_of(scores[b : b + 1], lengths[b : b + 1], **own)
        assert one.decode().labels() == whole.labels()[b : b + 1], b
        assert one.decode().scores == whole.scores[b], b
        assert one.log_partition() == log_z[b], b
        ((_, alone),) = batching.answered(one, lambda group: group.engine.marginals([0]), 1)
        assert np.array_equal(alone[0], row), b
