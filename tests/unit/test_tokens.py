"""Decoders of word pieces: windows, words, files, bad input."""

from __future__ import annotations

import itertools
import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fstcrf
from fstcrf.constraints import at_most, contiguous, exactly, tagging_scheme
from fstcrf.errors import (
    DataError,
    GrammarError,
    LabelError,
    LabelWarning,
    MissingDependencyError,
    ModelFileError,
    NoPathError,
    NumericError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.evaluate import SpanScore
from fstcrf.ext.calibration import (
    Calibration,
    Events,
    Isotonic,
    fit_temperature,
    precision_thresholds,
    reliability,
    uncertainty,
)
from fstcrf.ext.tokens import Pieces, TokenDecoder, TransitionBiases
from fstcrf.ext.tokens.tuning import Goal, best_thresholds
from tests.support.command import done, failure

BIOES = ["O", *(f"{a}-{kind}" for kind in ("X", "Y") for a in "BIES")]


def document(seed: int, n: int = 30, sharp: float = 3.0) -> tuple[Any, list[Any], list[int]]:
    rng = np.random.default_rng(seed)
    words = np.cumsum(rng.random(n) < 0.6).tolist()
    offsets = [(2 * i, 2 * i + 2) for i in range(n)]
    return sharp * rng.normal(size=(n, len(BIOES))), offsets, words


def windows(
    logits: Any, offsets: list[Any], words: list[int], size: int, stride: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """Cut a document into windows that share `stride` pieces, special tokens at their ends."""
    rows, places, ids = [], [], []
    special = np.full((1, logits.shape[1]), np.nan)  # what is left out is not looked at
    step = size - stride
    for first in range(0, max(1, len(words) - stride), step):
        here = slice(first, first + size)
        rows.append(np.concatenate([special, logits[here], special]))
        places.append([(0, 0), *offsets[here], (0, 0)])
        ids.append([None, *words[here], None])
    return rows, places, ids


# --- Windows --------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(0, 40), st.integers(1, 12), st.integers(0, 11))
def test_windows_that_agree_are_the_document(seed: int, n: int, size: int, stride: int) -> None:
    logits, offsets, words = document(seed, n)
    decoder = TokenDecoder(BIOES)
    cut = windows(logits, offsets, words, size, min(stride, size - 1))
    whole, parts = (
        decoder.lattices([Pieces(*given)])[0] for given in ((logits, offsets, words), cut)
    )
    assert np.allclose(whole.dense.values[0], parts.dense.values[0])
    found, want = decoder.decode(*cut), decoder.decode(logits, offsets, words)
    assert [one[:3] for one in found] == [one[:3] for one in want]
    assert [one[3] for one in found] == pytest.approx([one[3] for one in want])


def test_scores_of_overlapping_pieces_cross_fade() -> None:
    labels = ["O", "B-X", "I-X"]
    sure, not_sure = np.log([0.9, 0.05, 0.05]), np.log([0.2, 0.4, 0.4])
    offsets = [(i, i + 1) for i in range(7)]
    rows = [np.tile(sure, (5, 1)), np.tile(not_sure, (5, 1))]
    decoder = TokenDecoder(labels, "bio")
    (lattice,) = decoder.lattices([Pieces(rows, [offsets[:5], offsets[2:]])])
    weights = np.asarray([[1, 0], [1, 0], [3, 1], [2, 2], [1, 3], [0, 1], [0, 1]], dtype=float)
    want = weights / weights.sum(axis=1, keepdims=True) @ np.stack([sure, not_sure])
    want -= np.log(np.exp(want).sum(axis=1, keepdims=True))
    assert np.allclose(lattice.dense.values[0], want)


def test_pieces_that_share_a_character_are_one_word() -> None:
    offsets = [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]  # the bytes of one character
    logits = np.random.default_rng(0).normal(size=(5, 3))
    decoder = TokenDecoder(["O", "B-X", "I-X"], "bio", pieces="each")
    (whole,) = decoder.lattices([Pieces(logits, offsets)])
    assert len(whole) == 3
    (cut,) = decoder.lattices([Pieces([logits[:3], logits[1:]], [offsets[:3], offsets[1:]])])
    assert np.allclose(whole.dense.values[0], cut.dense.values[0])


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([[(0, 1), (1, 2), (2, 3)], [(1, 2), (3, 4)]], None),
        ([[(0, 1), (1, 2), (2, 3)], [(0, 3)]], None),
        ([[(0, 1), (1, 2), (2, 3)], [(2, 3), (3, 4)]], [[0, 1, 2], [1, 3]]),
    ],
)
def test_windows_that_do_not_continue(places: list[Any], words: Any) -> None:
    decoder = TokenDecoder(["O", "B-X", "I-X"], "bio")
    rows = [np.zeros((len(one), 3)) for one in places]
    with pytest.raises(DataError, match="document 0, window 1: does not continue"):
        decoder.decode(rows, places, words)


# --- Words and text -------------------------------------------------------------------------------


def test_spans_do_not_begin_or_end_with_white_space() -> None:
    decoder = TokenDecoder(["O", "B-X", "I-X"], "bio", pieces="each")
    logits = [[9, 0, 0], [0, 9, 0], [0, 0, 9], [0, 9, 0]]
    offsets = [(0, 2), (2, 6), (6, 9), (9, 11)]
    text = "an Ann Li  "
    found = decoder.decode(logits, offsets, text=text)
    assert [text[s.start : s.end] for s in found] == ["Ann Li"]
    assert [s[:2] for s in decoder.decode(logits, offsets)] == [(2, 9), (9, 11)]


def test_special_tokens_and_padding_are_left_out() -> None:
    decoder = TokenDecoder(["O", "B-X", "I-X"], "bio")
    logits = np.full((6, 3), np.nan)
    logits[1:3] = [[0, 5, 0], [0, 0, 5]]
    offsets = [(0, 0), (0, 3), (4, 7), (0, 0), (0, 0), (0, 0)]
    (one,) = decoder.decode(logits, offsets, [None, 0, 1, None, None, None])
    (two,) = decoder.decode(logits, offsets)
    assert one == two
    assert one[:3] == (0, 7, "X")


def test_nothing_to_decode() -> None:
    decoder = TokenDecoder(BIOES)
    assert decoder.decode_all([]) == []
    assert decoder.decode(np.empty((0, 9)), np.empty((0, 2))) == []
    assert decoder.decode([], []) == []
    assert decoder.decode(np.zeros((2, 9)), [(0, 0), (0, 0)], [None, None], "") == []


def test_labels_of_words_from_spans_of_characters() -> None:
    decoder = TokenDecoder(BIOES)
    pieces = Pieces(np.zeros((4, 9)), [(0, 2), (2, 4), (5, 7), (8, 9)], [0, 0, 1, 2])
    gold = [[(0, 7, "X"), (8, 9, "Y")]]
    assert decoder.word_labels([pieces], gold) == [["B-X", "E-X", "S-Y"]]
    assert decoder.word_labels([pieces], [[(3, 4, "X")]]) == [["S-X", "O", "O"]]
    with pytest.raises(DataError, match="document 0: span 4 to 5 contains no word"):
        decoder.word_labels([pieces], [[(4, 5, "X")]])
    with pytest.raises(DataError, match="overlaps"):
        decoder.word_labels([pieces], [[(0, 2, "X"), (3, 4, "Y")]])


def test_tools_with_other_names_and_maps_of_json() -> None:
    logits = [[0, 5, 0], [0, 0, 5]]
    offsets = [(0, 1), (1, 2)]
    for labels, names in (
        ({"0": "O", "1": "B_X", "2": "I_X"}, "B_PER"),
        ({2: "I-X", 0: "O", 1: "B-X"}, None),
        (["OUT", "B-X", "I-X"], {"OUT": "O"}),
    ):
        (found,) = TokenDecoder(labels, "bio", names=names).decode(logits, offsets)
        assert found[:3] == (0, 2, "X")
    plain = TokenDecoder(["O", "X"], "iob1", names={"X": "I-X"})
    assert plain.decode([[0, 5], [0, 5], [5, 0]], [(0, 1), (1, 2), (2, 3)])[0][:2] == (0, 2)


# --- Thresholds, calibration, what else is asked --------------------------------------------------


def held_out(n: int = 60) -> tuple[list[Pieces], list[list[tuple[int, int, str]]]]:
    """Documents whose gold spans are drawn from the decoder itself, at temperature 2."""
    decoder = TokenDecoder(BIOES, temperature=2.0)
    documents = [Pieces(*document(seed)) for seed in range(n)]
    gold = []
    for k, lattice in enumerate(decoder.lattices(documents)):
        (labels,) = lattice.sample(1, seed=k)
        ends = np.flatnonzero(np.diff([*(documents[k].word_ids or ()), -1])) + 1
        bounds = [0, *ends.tolist()]
        found = fstcrf.text.corpus.spans(labels, "bioes")
        gold.append([(2 * bounds[s.start], 2 * bounds[s.end], s.type) for s in found])
    return documents, gold


@pytest.mark.thorough
def test_a_temperature_makes_a_decoder_reliable() -> None:
    documents, gold = held_out(100)
    decoder = TokenDecoder(BIOES)
    labels = decoder.word_labels(documents, gold)
    assert fit_temperature(decoder.lattices(documents), labels) == pytest.approx(2.0, rel=0.15)
    before = reliability(decoder.events(documents, gold)).error
    right = decoder.replaced(temperature=2.0)
    after = reliability(right.events(documents, gold)).error
    assert after < 0.03 < before
    for kind in ("isotonic", "log-odds"):
        put = decoder.calibrated(documents[:50], gold[:50], kind)
        assert reliability(put.events(documents[50:], gold[50:])).error < before


def test_thresholds_for_a_wanted_precision() -> None:
    documents, gold = held_out()
    decoder = TokenDecoder(BIOES)
    thresholds = precision_thresholds(decoder.events(documents, gold), 0.8)
    found = decoder.replaced(thresholds=thresholds).decode_all(documents)
    there = [set(one) for one in gold]
    right = [s[:3] in there[k] for k, one in enumerate(found) for s in one]
    assert np.mean(right) >= 0.75
    assert all(s.probability >= (thresholds[s.type] or 1) - 1e-9 for one in found for s in one)
    nothing = decoder.replaced(thresholds={"X": None, "Y": None})
    assert sum(map(len, nothing.decode_all(documents))) == 0


def test_a_calibration_comes_before_thresholds() -> None:
    pieces = Pieces([[2.0, 0.0, 0.0]], [(0, 1)])
    decoder = TokenDecoder(["O", "B-X", "I-X"], "bio", thresholds=0.5)
    assert decoder.decode_all([pieces]) == [[]]
    raised = Calibration("isotonic", {}, Isotonic((0.0, 1.0), (0.6, 0.9)))
    (one,) = decoder.replaced(calibration=raised).decode_all([pieces])[0]
    assert one.probability == pytest.approx(0.6 + 0.3 / (1 + math.exp(2)))
    (best,) = TokenDecoder(["O", "B-X", "I-X"], "bio", calibration=raised).decode_all(
        [Pieces([[0.0, 1.0, 0.0]], [(0, 1)])]
    )
    assert best[0].probability == pytest.approx(0.6 + 0.3 * math.e / (1 + math.e))


def test_thresholds_of_other_probabilities_are_refused() -> None:
    documents, gold = held_out(10)
    decoder = TokenDecoder(BIOES, thresholds={"X": 0.3})
    with pytest.raises(OptionError, match=r"replaced\(thresholds=None\)\.calibrated"):
        decoder.calibrated(documents, gold)
    plain = decoder.replaced(thresholds=None).calibrated(documents, gold, "log-odds", least=1)
    assert plain.calibration is not None
    assert plain.thresholds is None
    with pytest.raises(OptionError, match="chosen for other probabilities"):
        plain.tune(documents, gold, biases=False).calibrated(documents, gold)


def test_documents_to_label_next() -> None:
    sure, unsure = document(0, sharp=30.0), document(0, sharp=0.1)
    decoder = TokenDecoder(BIOES)
    scores = uncertainty(decoder.lattices([Pieces(*sure), Pieces(*unsure)]), per_token=True)
    assert scores[0] < scores[1]


def test_a_grammar_without_a_legal_labelling() -> None:
    decoder = TokenDecoder(BIOES, grammar=exactly(3, "X"))
    documents = [Pieces(*document(1)), Pieces(np.zeros((1, 9)), [(0, 1)])]
    with pytest.raises(NoPathError, match="document 1"):
        decoder.decode_all(documents)
    found = decoder.decode_all(documents, on_no_path="skip")
    assert found[1] == []
    assert sum(s.type == "X" for s in found[0]) == 3
    assert decoder.decode_all(documents, on_no_path="skip", threads=2) == found


def test_a_grammar_too_large_to_multiply_out_has_labels_and_no_probabilities() -> None:
    types = [f"T{k}" for k in range(14)]
    labels = ["O", *(f"{a}-{kind}" for kind in types for a in "BIES")]
    logits = 30 * np.random.default_rng(0).normal(size=(12, len(labels)))
    pieces = Pieces(logits, [(i, i + 1) for i in range(12)])
    decoder = TokenDecoder(labels, grammar=contiguous(types))
    found = decoder.decode_all([pieces])[0]
    assert len({s.type for s in found}) == len(found) > 2
    assert all(math.isnan(s.probability) for s in found)
    with pytest.raises(TooLargeError):
        decoder.replaced(thresholds=0.5).decode_all([pieces])


# --- Tuning ---------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from(["f", "precision", "recall"]))
def test_thresholds_are_the_best_of_all_for_a_goal(seed: int, metric: Any) -> None:
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 8, 14) / 8
    names = rng.choice(["X", "Y"], 14).tolist()
    events = Events.of(p, rng.random(14) < p, names)
    gold = int(events.correct.sum())
    goal = Goal(metric, 0.0 if metric == "f" else 0.7, 0.5 if metric == "f" else 1.0)
    chosen, score = best_thresholds(events, goal, least=1)
    kept = np.asarray([q >= chosen[name] for q, name in zip(p, names, strict=True)])
    assert (int(kept.sum()), int((kept & events.correct).sum())) == (score.guessed, score.correct)
    values = []
    for x, y in itertools.product(np.arange(1, 10) / 8, repeat=2):
        mine = p >= np.where(np.asarray(names) == "X", x, y)
        right = int((mine & events.correct).sum())
        values.append(goal.value(SpanScore(right, int(mine.sum()), gold)))
    if metric == "f":  # exact; the others are on the hull of what can be had
        assert goal.value(score) == pytest.approx(max(values))
    else:
        assert goal.value(score) <= max(values) + 1e-12
        assert (goal.value(score) >= 0) or max(values) < 0


def test_types_with_few_events_share_a_threshold() -> None:
    p, right = [0.9, 0.8, 0.3, 0.2], [True, True, False, False]
    events = Events.of([*p * 10, 0.6], [*right * 10, False], ["X"] * 40 + ["Y"])
    chosen, _ = best_thresholds(events, Goal("f"))
    assert chosen["X"] == pytest.approx(0.55)
    assert chosen["Y"] == pytest.approx(0.7)


@pytest.mark.thorough
@pytest.mark.parametrize("what", [{}, {"thresholds": False}, {"biases": False}])
def test_tuning_serves_its_goal_on_documents_that_it_has_not_seen(what: dict[str, Any]) -> None:
    documents, gold = held_out(80)
    # A model that hardly dares to begin a span: biases or thresholds have to make up for it.
    shy = TokenDecoder(BIOES, biases={"background_to_start": -3.0})
    tuned = shy.tune(documents[:40], gold[:40], **what)
    after = tuned.evaluate(documents[40:], gold[40:])
    assert after.f > shy.evaluate(documents[40:], gold[40:]).f + 0.02
    if not what:
        for goal, least in (("recall", 0.7), ("precision", 0.3)):
            one = shy.tune(documents[:40], gold[:40], goal, least=least, biases=False)  # type: ignore[arg-type]
            seen = one.evaluate(documents[:40], gold[:40])
            assert (seen.precision if goal == "recall" else seen.recall) >= least - 0.05


def test_what_cannot_be_tuned() -> None:
    decoder, documents = TokenDecoder(BIOES), [Pieces(*document(0))]
    for goal, options, words in (
        ("accuracy", {}, "'f', 'precision' or 'recall'"),
        ("f", {"least": 0.5}, "no least"),
        ("recall", {}, "say the least precision"),
        ("f", {"beta": 0}, "above 0"),
        ("f", {"biases": False, "thresholds": False}, "nothing to tune"),
    ):
        with pytest.raises(OptionError, match=words):
            decoder.tune(documents, [[(0, 2, "X")]], goal, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no gold span"):
        decoder.tune(documents, [[]])


# --- Files ----------------------------------------------------------------------------------------


def test_a_file_holds_all_of_a_decoder(tmp_path: Path) -> None:
    documents, gold = held_out(20)
    soft = tagging_scheme("bioes", weight=-0.5)
    decoder = TokenDecoder(
        BIOES,
        grammar=at_most(2, "X") & soft,
        biases={"background_stay": -1.0},
        temperature=1.5,
        pieces="first",
    )
    with pytest.warns(LabelWarning, match="of 20 documents break the grammar"):
        decoder = decoder.calibrated(documents, gold, "log-odds")
    decoder = decoder.replaced(thresholds={"X": 0.3, "Y": None})
    decoder.save(tmp_path / "decoder.json")
    again = TokenDecoder.load(tmp_path / "decoder.json")
    assert again.decode_all(documents) == decoder.decode_all(documents)
    assert again.to_json() == decoder.to_json()
    assert json.loads((tmp_path / "decoder.json").read_text())["biases"]["background_stay"] == -1
    assert "thresholds" in repr(again)


def broken(**changes: Any) -> Any:
    return TokenDecoder(BIOES).to_json() | changes


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        broken(version=9),
        broken(format="other"),
        broken(labels=["O", "O"]),
        broken(labels=["O", "Q-X"]),
        broken(scheme="none"),
        broken(temperature=0),
        broken(biases={"up": 1}),
        broken(thresholds={"X": 2}),
        broken(extra=1),
        broken(calibration={"format": "other"}),
        broken(grammar=[{"name": "g", "target": [[0]], "final": [0]}]),
        broken(grammar=[{"name": "g", "target": [[9] * 9], "final": [0]}]),
        broken(grammar=[{"name": "g", "target": [], "final": []}]),
    ],
)
def test_damaged_files(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "decoder.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ModelFileError, match=r"decoder\.json"):
        TokenDecoder.load(path)


def test_biases_of_a_privacy_filter(tmp_path: Path) -> None:
    path = tmp_path / "viterbi_calibration.json"
    names = [
        "background_stay",
        "background_to_start",
        "inside_to_continue",
        "inside_to_end",
        "end_to_background",
        "end_to_start",
    ]
    mine = {f"transition_bias_{name}": k / 8 for k, name in enumerate(names)}
    path.write_text(
        json.dumps({"operating_points": {"default": {"biases": mine, "note": "kept"}}, "v": 1})
    )
    biases = TransitionBiases.read(path)
    assert biases.end_to_start == 5 / 8
    TransitionBiases(background_stay=-2).write(path, "recall")
    whole = json.loads(path.read_text())
    assert whole["v"] == 1
    assert whole["operating_points"]["default"] == {"biases": mine, "note": "kept"}
    assert TransitionBiases.read(path, "recall") == TransitionBiases(background_stay=-2)
    assert TransitionBiases.of(mine) == biases
    TransitionBiases().write(tmp_path / "new.json")
    assert TransitionBiases.read(tmp_path / "new.json") == TransitionBiases()
    with pytest.raises(
        DataError, match=r"no operating point 'x'; the operating points are default, recall"
    ):
        TransitionBiases.read(path, "x")
    for text in ('{"operating_points": {"default": {"biases": {}}}}', "{}", "[]"):
        path.write_text(text)
        with pytest.raises(DataError, match="viterbi_calibration"):
            TransitionBiases.read(path)
    path.write_text("{")
    with pytest.raises(ModelFileError):
        TransitionBiases.read(path)
    path.write_text(
        json.dumps(
            {
                "operating_points": {
                    "default": {"biases": mine | {"transition_bias_end_to_start": "1"}}
                }
            }
        )
    )
    with pytest.raises(DataError, match="expected a number"):
        TransitionBiases.read(path)


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"id2label": {0: "O", 2: "B-X"}}, OptionError, "keys 0 to 1"),
        ({"id2label": {"0": "O", "2": "B-X"}}, OptionError, "keys 0 to 1"),
        ({"id2label": {"0": "O", "00": "B-X"}}, OptionError, "keys 0 to 1"),
        ({"id2label": ["O", "S-X", "S-X"]}, OptionError, "occurs twice"),
        ({"id2label": []}, OptionError, "empty"),
        ({"id2label": ["O", "X"]}, LabelError, "no tagging scheme has label 'X'"),
        ({"id2label": ["O", "E-X", "U-X"]}, LabelError, "labels O, E-X, U-X together"),
        ({"id2label": ["O", "X"], "scheme": "bioes"}, LabelError, "not bioes"),
        (
            {"id2label": ["O", "B-X", "I-X"], "scheme": "bioes"},
            GrammarError,
            "no span can be written in bioes with the labels B-X, I-X",
        ),
        (
            {"id2label": ["O", "I-X", "E-X"]},
            GrammarError,
            "written in bioes with the labels I-X, E-X",
        ),
        ({"scheme": "conlleval"}, OptionError, "expected one of"),
        ({"scheme": "no"}, OptionError, "scheme"),
        ({"id2label": ["O", "S-X"]}, OptionError, "several pieces"),
        ({"temperature": 0}, OptionError, "temperature"),
        ({"temperature": math.nan}, OptionError, "temperature"),
        ({"pieces": "last"}, OptionError, "'first'"),
        ({"biases": {"stay": 1}}, OptionError, "no bias 'stay'"),
        ({"biases": {"end_to_start": math.inf}}, OptionError, "finite"),
        ({"biases": [1]}, OptionError, "mapping"),
        ({"thresholds": {"Z": 0.5}}, OptionError, "no type 'Z'"),
        ({"thresholds": 0.0}, OptionError, "0.01 to 1"),
        ({"grammar": "bio"}, OptionError, "expected a Grammar"),
        ({"calibration": "c.json"}, OptionError, "Calibration.load"),
        ({"grammar": at_most(1, "Z")}, GrammarError, "Z"),
    ],
)
def test_decoders_that_cannot_be(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        TokenDecoder(options.pop("id2label", BIOES), **options)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (([[0, math.nan, 0]], [(0, 1)]), NumericError, r"document 0, piece 0 .*'B-X' is nan"),
        (([[0, math.inf, 0]], [(0, 1)]), NumericError, "inf"),
        (([[0, 1e301, 0]], [(0, 1)]), NumericError, "below 1e300"),
        (([[0, 0, 0]], [(0, 1)], ["a"]), DataError, "word id 'a'"),
        (([[0, 0, 0]], [(0, 1)], None, 5), OptionError, "expected a str"),
        (([[0, 0]], [(0, 1)]), ShapeError, r"\[1, 2\], expected \[pieces, 3 labels\]"),
        (([[0, 0, 0]], [(0, 1), (1, 2)]), ShapeError, "1 pieces, 2 offsets"),
        (([[0, 0, 0]], [(0, 1)], [0, 1]), ShapeError, "2 word ids"),
        (([[0, 0, 0]] * 2, [(3, 4), (0, 1)]), DataError, "piece 1: offsets run backwards"),
        (([[0, 0, 0]] * 2, [(0, 4), (1, 2)]), DataError, "offsets run backwards"),
        (([[0, 0, 0]] * 2, [(0, 2), (0, 4)], [0, 1]), DataError, "not into words"),
        (([[0, 0, 0]], [(4, 2)], [0]), DataError, "piece 0: offsets 4 to 2"),
        (([[0, 0, 0]], [(0, 9)], None, "short"), DataError, "reach 9, and the text has 5"),
        (([[0, 0, 0]], [(0.5, 9)]), ShapeError, "whole"),
        ((["a"], [(0, 1)]), ShapeError, "number"),
        (([[0, 0, 0], [0, 0]], [(0, 1), (1, 2)]), ShapeError, "number"),
        ((np.zeros((2, 4, 3)), [[(0, 1)] * 4]), ShapeError, "2 windows of logits, 1 of offsets"),
    ],
)
def test_documents_that_cannot_be(given: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        TokenDecoder(["O", "B-X", "I-X"], "bio").decode(*given)


def test_what_else_cannot_be() -> None:
    decoder = TokenDecoder(BIOES)
    with pytest.raises(OptionError, match="expected Pieces"):
        decoder.decode_all([[1, 2]])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="no argument 'labels'"):
        decoder.replaced(labels=["O"])
    with pytest.raises(OptionError, match="on_no_path"):
        decoder.decode_all([], on_no_path="relax")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="gold spans of 0 documents"):
        decoder.events([Pieces(*document(0))], [])
    with pytest.raises(DataError, match="gold spans of document 0"):
        decoder.events([Pieces(*document(0))], [[(0, 1)]])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="fast tokenizer"):
        Pieces.from_encoding({"input_ids": [[1]]}, np.zeros((1, 1, 9)))


@pytest.mark.skipif(find_spec("spacy") is not None, reason="spaCy is installed")
def test_the_component_of_spacy_says_what_it_needs() -> None:
    from fstcrf.ext.spacy import _DEFAULTS, make_component

    with pytest.raises(MissingDependencyError, match=r"fstcrf\[spacy\]"):
        make_component(None, "fstcrf", **_DEFAULTS)


# --- Files of any kind ----------------------------------------------------------------------------


def test_load_and_info_read_decoders(tmp_path: Path) -> None:
    labels = ["O", "B-PER", "I-PER"]
    decoder = TokenDecoder(
        labels,
        "bio",
        grammar=at_most(3, "PER"),
        biases={"background_stay": -1.0},
        thresholds={"PER": 0.4},
        temperature=2.0,
    )
    path = tmp_path / "any-name"
    decoder.save(path)
    for loaded in (fstcrf.load(path), fstcrf.load(path, TokenDecoder)):
        assert isinstance(loaded, TokenDecoder)
        assert loaded.to_json() == decoder.to_json()
    with pytest.raises(ModelFileError, match="any-name: holds a TokenDecoder, expected a CRF"):
        fstcrf.load(path, fstcrf.CRF)
    told = done("info", path)
    for line in (
        "any-name: a decoder of a token classifier's logits",
        "labels      3: O B-PER I-PER",
        "spans       iob2: PER",
        "temperature 2",
        "biases      background_stay -1",
        'grammar     at_most(3, "PER")',
        "thresholds  PER 0.4",
    ):
        assert line in told
    facts = json.loads(done("info", path, "--json"))
    assert (facts["labels"], facts["calibration"]) == (labels, None)
    assert "expected the file of a tagger" in failure("tag", path, "in.txt")


def test_json_that_is_no_decoder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"format": "fstcrf-calibration", "version": 1}')
    with pytest.raises(ModelFileError, match=r"c\.json: holds 'fstcrf-calibration', expected"):
        fstcrf.load(path)
    assert "holds 'fstcrf-calibration', expected" in failure("info", path)
    path.write_text("{")
    assert "c.json" in failure("info", path)
