"""Doors: ways to ask one question, each as its users would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Composition, Lattice, Lattices, Pipeline
from fstcrf.errors import NoPathError
from fstcrf.ext import gradients
from fstcrf.ext.foreign.conversion import written
from fstcrf.lattices.emissions.reading import Scores, read_scores
from fstcrf.lattices.emissions.structure import ChainParameters
from fstcrf.taggers import Tagger
from tests.laws.questions import TAPES, Answer, Labelling, Question, Refusal, Told, tagger
from tests.support.command import run

__all__ = ["DOORS", "Door"]

Ask = Callable[[Question], Answer]


@dataclass(frozen=True)
class Door:
    """A way to ask.

    Parameters
    ----------
    ask : callable
    lacks : mapping of str to str
        Traits of questions that cannot be asked there, and why.
    within : float
        How far numbers may be from the truth, relative and absolute.
    strict : bool
        Whether one sentence without a labelling refuses all sentences.
    """

    ask: Ask
    lacks: Mapping[str, str] = field(default_factory=dict)
    within: float = 1e-9
    strict: bool = False

    def __call__(self, question: Question) -> Answer:
        """Return the answer; an error is one."""
        try:
            return self.ask(question)
        except Exception as error:  # noqa: BLE001 (errors that are not ours are wrong answers)
            return Refusal.of(error)


def labelling(question: Question, labels: Any) -> Labelling:
    """Return labels tape by tape, however a door has those of one tape."""
    several = labels if len(question.tapes) > 1 else [labels]
    return tuple(tuple(of_tape) for of_tape in several)


def one_by_one(ask: Callable[[Question], Told]) -> Ask:
    """Return a door that is asked sentence by sentence, and raises where none is legal."""

    def asked(question: Question) -> Answer:
        found: list[Told | None] = []
        for number in range(len(question.sentences)):
            try:
                found.append(ask(question.alone(number)))
            except NoPathError:
                found.append(None)
        return found

    return asked


# --- Taggers --------------------------------------------------------------------------------------


def tagger_under_rule(question: Question) -> Any:
    taggers = question.taggers()
    made: Any = taggers[0] if len(taggers) == 1 else taggers[0] @ taggers[1]
    return made if question.rule is None else made & question.rule.grammar()


def composition(question: Question) -> Composition:
    rule = question.rule
    return fstcrf.compose(*question.taggers(), grammar=None if rule is None else rule.grammar())


def loaded(question: Question) -> Any:
    """Return the tagger from its file."""
    with TemporaryDirectory(prefix="fstcrf-doors-") as folder:
        tagger_under_rule(question).save(Path(folder) / "model")
        return fstcrf.load(Path(folder) / "model")


def pipeline(question: Question, **options: Any) -> Any:
    rule = question.rule
    grammar = None if rule is None else rule.grammar()
    return Pipeline(question.taggers(), grammar=grammar, **options).train()


def constrained_pipeline(question: Question) -> Any:
    """Return a pipeline that was trained without the grammar."""
    made = Pipeline(question.taggers()).train()
    return made if question.rule is None else made & question.rule.grammar()


def loaded_pipeline(question: Question) -> Any:
    with TemporaryDirectory(prefix="fstcrf-doors-") as folder:
        pipeline(question, decode="joint").save(Path(folder) / "made")
        return fstcrf.load(Path(folder) / "made")


def decoded(make: Callable[[Question], Tagger], question: Question) -> Answer:
    """Ask for all sentences together."""
    made = make(question)
    known: Any = question.known() if question.forced else None
    # A cascade's scores are log probabilities.
    scored = getattr(made, "together", True)
    return [
        None
        if path is None
        else Told(
            labelling(question, path.labels), path.score if scored else None, path.probability
        )
        for path in made.paths_all(question.words(), forced=known)
    ]


def tagged(make: Callable[[Question], Tagger], question: Question) -> Told:
    """Ask for the labels of one sentence."""
    known = question.known()[0] if question.forced else None
    return Told(labelling(question, make(question).tag(question.words()[0], forced=known)))


def all_tagged(make: Callable[[Question], Tagger], question: Question) -> Answer:
    """Ask for the labels of all sentences, where the first that has none is an error."""
    known: Any = question.known() if question.forced else None
    found = make(question).tag_all(question.words(), forced=known)
    return [Told(labelling(question, labels)) for labels in found]


def of_lattice(lattice: Any, question: Question) -> Told:
    """Ask a lattice for its best path, its sum, and the score of the path."""
    best = lattice.best()
    assert lattice.score(best.labels) == pytest.approx(best.score, rel=1e-9, abs=1e-9)
    share = float(np.exp(best.score - lattice.log_partition()))
    assert share == pytest.approx(best.probability, rel=1e-9, abs=1e-9)
    return Told(labelling(question, best.labels), best.score, best.probability)


def tagger_lattice(question: Question) -> Told:
    lattice = tagger_under_rule(question).lattice(question.words()[0])
    return of_lattice(lattice.restrict(masks(question)), question)


def masks(question: Question) -> Any:
    found = [np.isfinite(question.arrays(tape)[0][0]) for tape in question.tapes]
    return found if len(found) > 1 else found[0]


# --- Arrays ---------------------------------------------------------------------------------------


def array_lattice(question: Question) -> Any:
    """Return the lattice of arrays, coupled by nothing where there are several."""
    made = []
    for tape in question.tapes:
        (rows,), arc = question.arrays(tape)
        made.append(Lattice.from_arrays(list(TAPES[tape]), rows, arc, tape=tape))
    whole: Any = made[0] if len(made) == 1 else fstcrf.compose(*made)
    return whole if question.rule is None else whole & question.rule.grammar()


def array_lattices(question: Question) -> Answer:
    """Ask for the best paths of many lattices together, and for their sums."""
    made = [array_lattice(question.alone(i)) for i in range(len(question.sentences))]
    ranked, log_z = fstcrf.nbest(made, 1), fstcrf.log_partition(made)
    return [
        Told(labelling(question, paths[0].labels), paths[0].score, np.exp(paths[0].score - z))
        if paths
        else None
        for paths, z in zip(ranked, log_z.tolist(), strict=True)
    ]


def machine_lattice(question: Question) -> Any:
    """Return the lattice that OpenFst's machine of another one becomes."""
    pytest.importorskip("pynini", exc_type=ImportError)
    (rows,), arc = question.arrays(question.tapes)
    labels = list(TAPES[question.tapes])
    machine = Lattice.from_fst(Lattice.from_arrays(labels, rows, arc).to_fst(), labels)
    return machine if question.rule is None else machine & question.rule.grammar()


def array_options(question: Question) -> dict[str, Any]:
    rule = question.rule
    return {
        "labels": list(TAPES[question.tapes]),
        "transitions": question.arrays(question.tapes)[1],
        "grammar": None if rule is None else rule.grammar(),
    }


def padded(question: Question, tape: str, dtype: Any = np.float64) -> tuple[Any, list[int]]:
    """Return scores [B, T, L], NaN beyond a sentence's end, and lengths."""
    rows, _ = question.arrays(tape)
    lengths = [len(own) for own in rows]
    made = np.full((len(rows), max(lengths), len(TAPES[tape])), np.nan, dtype=dtype)
    for i, own in enumerate(rows):
        made[i, : len(own)] = own
    return made, lengths


def of_answer(question: Question, answer: Any) -> Answer:
    return [
        None
        if dead
        else Told(
            tuple(answer[tape].path(i) for tape in answer.tapes),
            float(answer.scores[i]),
            float(answer.probabilities[i]),
        )
        for i, dead in enumerate(answer.dead)
    ]


def batch_of(question: Question) -> Lattices[Any]:
    scores, arcs = question.arrays(question.tapes)
    batch = Lattices.from_arrays(TAPES[question.tapes], scores, arcs)
    return batch if question.rule is None else batch & question.rule.grammar()


def emissions(question: Question) -> Answer:
    return of_answer(question, batch_of(question).decode())


def ranked_emissions(question: Question) -> Answer:
    """Ask for the two best, which are searched in another way, and for sums."""
    batch = batch_of(question)
    answer, log_z = batch.decode(2), batch.log_partition()
    return [
        None
        if dead
        else Told((answer["label"].path(i),), answer.scores[i, 0], np.exp(answer.scores[i, 0] - z))
        for i, (dead, z) in enumerate(zip(answer.dead, log_z, strict=True))
    ]


def array_decode(dtype: Any, question: Question) -> Answer:
    scores, lengths = padded(question, question.tapes, dtype)
    return of_answer(question, fstcrf.decode(scores, lengths, **array_options(question)))


def heads(question: Question) -> Answer:
    """Ask what layers of networks ask, their loss of the best labels included."""
    rule = question.rule
    tapes = tuple((tape, TAPES[tape]) for tape in question.tapes)
    made = gradients.Heads(tapes, grammar=None if rule is None else rule.grammar())
    chains = [
        ChainParameters(question.arrays(tape)[1], *np.zeros((2, len(labels))))
        for tape, labels in tapes
    ]

    def read(of: Question) -> list[Scores]:
        arrays = [padded(of, tape) for tape in of.tapes]
        sizes = [len(labels) for _, labels in tapes]
        return [
            read_scores(rows, lengths, n_labels=size)
            for (rows, lengths), size in zip(arrays, sizes, strict=True)
        ]

    answer = gradients.best_labels(made, read(question), chains, {})
    found: list[Told | None] = []
    for i, dead in enumerate(answer.dead):
        if dead:
            found.append(None)
            continue
        alone = read(question.alone(i))
        best = [answer[tape].ids[i : i + 1, : alone[0].width] for tape in answer.tapes]
        loss = gradients.likelihood(made, alone, chains, {}, best).loss
        labels = tuple(answer[tape].path(i) for tape in answer.tapes)
        found.append(Told(labels, float(answer.scores[i]), float(np.exp(-loss[0]))))
    return found


def layer(question: Question) -> Answer:
    """Ask a layer of PyTorch, its loss of the best labels included."""
    torch = pytest.importorskip("torch")
    from fstcrf.ext.torch import CRFLayer

    rule = question.rule
    several = len(question.tapes) > 1
    arrays = {tape: padded(question, tape) for tape in question.tapes}
    arcs = {tape: question.arrays(tape)[1] for tape in question.tapes}
    lengths = next(iter(arrays.values()))[1]
    tensors = {tape: torch.from_numpy(scores) for tape, (scores, _) in arrays.items()}
    made = CRFLayer(
        {tape: TAPES[tape] for tape in question.tapes} if several else TAPES[question.tapes],
        grammar=None if rule is None else rule.grammar(),
        transitions=arcs if several else arcs[question.tapes],
    ).double()
    given = tensors if several else tensors[question.tapes]
    answer = made.decode(given, torch.tensor(lengths))
    found: list[Told | None] = []
    for i, dead in enumerate(answer.dead):
        if dead:
            found.append(None)
            continue
        own = {tape: tensor[i : i + 1] for tape, tensor in tensors.items()}
        ids = {t: torch.as_tensor(answer[t].ids[i : i + 1].astype(np.int64)) for t in answer.tapes}
        loss = made(
            own if several else own[question.tapes],
            ids if several else next(iter(ids.values())),
            torch.tensor(lengths[i : i + 1]),
        )
        labels = tuple(answer[tape].path(i) for tape in answer.tapes)
        found.append(Told(labels, float(answer.scores[i]), float(torch.exp(-loss.detach()))))
    return found


# --- The shell ------------------------------------------------------------------------------------


def shell(question: Question) -> Told:
    """Ask ``fstcrf tag`` about one sentence in a file; it prints six decimals."""
    taggers = question.taggers()
    made: Any = taggers[0] if len(taggers) == 1 else taggers[0] @ taggers[1]
    return in_folder(question, lambda folder: made.save(folder / "made"), ruled=question.rule)


def shell_pipeline(question: Question) -> Told:
    """Ask ``fstcrf tag`` with the folder of a pipeline, which has the grammar."""
    return in_folder(question, lambda folder: pipeline(question).save(folder / "made"))


def in_folder(question: Question, save: Callable[[Path], object], ruled: Any = None) -> Told:
    with TemporaryDirectory(prefix="fstcrf-doors-") as name:
        folder = Path(name)
        save(folder)
        (words,), (known,) = question.words(), question.known()
        rows = known if len(question.tapes) == 1 else known[question.tapes[0]]
        lines = [f"{word} {row}\n" for word, row in zip(words["word"], rows, strict=True)]
        (folder / "text").write_text("".join([*lines, "\n"]), "utf-8")
        options = ["--columns", "word,known", "--nbest", "1"]
        if question.forced:
            options += ["--force", "known" if len(question.tapes) == 1 else "p=known"]
        if ruled is not None:
            (folder / "rule.grm").write_text(ruled.text, "utf-8")
            options += ["--grammar", str(folder / "rule.grm")]
        result = run("tag", folder / "made", folder / "text", *options)
    if result.exit_code:
        assert "no label" in result.stderr, result.stderr
        raise NoPathError(result.stderr)
    head, *printed = result.stdout.rstrip("\n").split("\n")
    share = re.fullmatch(r"# 0 (\S+)", head)
    assert share is not None, head
    columns = list(zip(*(line.split()[2:] for line in printed), strict=True))
    return Told(tuple(columns), None, float(share[1]))


# --- Drop-ins -------------------------------------------------------------------------------------


@cache
def crfsuite(level: float) -> bytes:
    return written(tagger("p", level), "crfsuite")


def dropped_in(question: Question) -> Told:
    from fstcrf.ext.compat.pycrfsuite import Tagger as Other

    other = Other()
    other.open_inmemory(crfsuite(question.level))
    labels = other.tag([[f"U:{word}"] for word in question.sentences[0]])
    return Told((tuple(labels),), None, other.probability(labels))


def estimator(question: Question) -> Answer:
    from fstcrf.ext.compat import sklearn_crfsuite

    with TemporaryDirectory(prefix="fstcrf-doors-") as folder:
        path = Path(folder) / "model"
        path.write_bytes(crfsuite(question.level))
        made = sklearn_crfsuite.CRF(model_filename=str(path))
        items = [[[f"U:{word}"] for word in words] for words in question.sentences]
        return [Told((tuple(labels),)) for labels in made.predict(items)]


def converted(question: Question) -> Answer:
    """Ask the tagger that a model of CRFsuite becomes."""
    with TemporaryDirectory(prefix="fstcrf-doors-") as folder:
        path = Path(folder) / "model"
        path.write_bytes(crfsuite(question.level))
        made: CRF = fstcrf.load_crfsuite(path)
    items: list[Any] = [[[f"U:{word}"] for word in words] for words in question.sentences]
    under: Any = made if question.rule is None else made & question.rule.grammar()
    known = question.known() if question.forced else None
    paths = under.paths_all(items, forced=known)
    return [None if p is None else Told((p.labels,), p.score, p.probability) for p in paths]


# --- All of them ----------------------------------------------------------------------------------

_ONE_TAPE = {"tapes": "it has one tape"}
_ONE_OF = {"none allowed": "labels are forced to one of several, never to none"}
_TAGGER = _ONE_OF
_TEXT = {
    **_ONE_OF,
    "empty": "a file of columns has no sentence without tokens",
    "machine": "a machine is no grammar file",
}
_CRFSUITE = {
    **_ONE_TAPE,
    "rule": "CRFsuite has no grammars: tagger.crf has",
    "forced": "CRFsuite has no forced labels: tagger.crf has",
}
_CASCADE = {**_ONE_OF, "rule of tapes": "a cascade decides each tape by itself"}

DOORS: dict[str, Door] = {
    # Taggers
    "tagger": Door(partial(decoded, tagger_under_rule), _TAGGER),
    "tag": Door(one_by_one(partial(tagged, tagger_under_rule)), _TAGGER),
    "tag_all": Door(partial(all_tagged, tagger_under_rule), _TAGGER, strict=True),
    "lattice": Door(one_by_one(tagger_lattice)),
    "composition": Door(partial(decoded, composition), _TAGGER),
    "tag of a composition": Door(one_by_one(partial(tagged, composition)), _TAGGER),
    "loaded": Door(partial(decoded, loaded), _TAGGER),
    "pipeline": Door(partial(decoded, pipeline), _TAGGER),
    "cascade": Door(partial(decoded, partial(pipeline, decode="cascade")), _CASCADE),
    "joint pipeline": Door(partial(decoded, partial(pipeline, decode="joint")), _TAGGER),
    "constrained pipeline": Door(partial(decoded, constrained_pipeline), _TAGGER),
    "loaded pipeline": Door(partial(decoded, loaded_pipeline), _TAGGER),
    # Arrays
    "array lattice": Door(one_by_one(lambda one: of_lattice(array_lattice(one), one))),
    "array lattices": Door(array_lattices),
    "machine": Door(one_by_one(lambda one: of_lattice(machine_lattice(one), one)), _ONE_TAPE),
    "emissions": Door(emissions, _ONE_TAPE),
    "ranked emissions": Door(ranked_emissions, _ONE_TAPE),
    "decode": Door(partial(array_decode, np.float64), _ONE_TAPE),
    "decode float32": Door(partial(array_decode, np.float32), _ONE_TAPE, within=1e-5),
    "heads": Door(heads),
    "layer": Door(layer),
    # The shell, which prints six decimals
    "shell": Door(one_by_one(shell), _TEXT, within=1e-6),
    "shell pipeline": Door(one_by_one(shell_pipeline), _TEXT, within=1e-6),
    # Drop-ins
    "pycrfsuite": Door(one_by_one(dropped_in), _CRFSUITE),
    "sklearn_crfsuite": Door(estimator, _CRFSUITE),
    "converted": Door(converted, {**_ONE_TAPE, **_ONE_OF}),
}
