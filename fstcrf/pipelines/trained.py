"""The folder of a pipeline: what has been trained, and by what.

::

    ner.fstcrf          a finished tagger
    field.checkpoint    the state of one that was interrupted
    pipeline.json       by what each tagger was trained; how the pipeline tags
    pipeline.fstcrf     all of it as one composition, once every task is finished
"""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Literal, TypeAlias, Unpack, get_args

import msgspec
import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.corpus import Column, Corpus
from fstcrf.corpus.files import atomic_write, check_writable
from fstcrf.errors import ModelFileError, OptionError
from fstcrf.features.template import tape_column
from fstcrf.grammar import Grammar
from fstcrf.joint import CRF, Composition, Tagger, load
from fstcrf.joint.batches import as_corpus
from fstcrf.joint.known import Bias, Forced
from fstcrf.joint.tagger import DecodeOptions, TagOptions
from fstcrf.kernel import Budget
from fstcrf.lattice import Answer, Lattice, Path, best, nbest
from fstcrf.lattice.answer import labels_of_tapes
from fstcrf.lattice.confidence import Confidence, Interval
from fstcrf.lattice.paths import nbest_of_tapes, shown_tapes
from fstcrf.model import reads as passing
from fstcrf.model.reading import Data, SentenceLike
from fstcrf.plans import Search, gathered

__all__ = [
    "COMPOSITION",
    "Decode",
    "Folder",
    "Manifest",
    "Steps",
    "TrainedPipeline",
    "check_decode",
    "load_pipeline",
    "steps",
]

Decode: TypeAlias = Literal["cascade", "joint", "marginals"]

COMPOSITION = "pipeline.fstcrf"
_MANIFEST = "pipeline.json"


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What ``pipeline.json`` says."""

    format: Literal["fstcrf-pipeline"] = "fstcrf-pipeline"
    version: Literal[1] = 1
    tasks: dict[str, str] = {}  # by name, the hash of what it was trained by
    decode: Decode = "cascade"
    finished: bool = False


@dataclass(frozen=True)
class Folder:
    """The folder of a pipeline; it is made before something is written."""

    path: pathlib.Path

    def manifest(self) -> Manifest:
        """Return what the folder says of itself; an empty one says nothing.

        Raises
        ------
        ModelFileError
            It cannot be read as that.
        """
        file = self.path / _MANIFEST
        if not file.exists():
            return Manifest()
        try:
            return msgspec.json.decode(file.read_bytes(), type=Manifest)
        except msgspec.MsgspecError as error:
            raise ModelFileError(f"{file}: not what a pipeline writes: {error}") from None

    def check_writable(self, names: Iterable[str]) -> None:
        """Find out before tasks are trained whether all that they leave could be written.

        Raises
        ------
        OSError
            It could not.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for file in (*map(self._file, names), self.path / COMPOSITION, self.path / _MANIFEST):
            check_writable(file)

    def finished(self, name: str, mark: str) -> CRF | None:
        """Return the tagger of a task if it was trained by just that.

        The state of its training, left where a run ended just after it, is removed.
        """
        file = self._file(name)
        if self.manifest().tasks.get(name) != mark or not file.exists():
            return None
        tagger = CRF.load(file)
        self._forget(name)
        return tagger

    def checkpoint(self, name: str, mark: str, tell: Callable[[str], None]) -> pathlib.Path:
        """Return the file for the state of a task's training, made ready to be resumed.

        A state that the task cannot go on from, because it is declared otherwise since, is removed,
        and `tell` is told so.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / f"{name}.checkpoint"
        stamp = self.path / f"{name}.checkpoint.of"
        if not stamp.exists() or stamp.read_text("utf-8") != mark:
            if file.exists():
                tell(f"{name}: its data or options have changed: the state so far is dropped")
                file.unlink()
            stamp.write_text(mark, "utf-8")
        return file

    def replaced(self, name: str) -> str:
        """Say what a task's tagger will replace; nothing where there is none."""
        if name not in self.manifest().tasks or not self._file(name).exists():
            return ""
        return f", to replace the tagger that other data or options made, {self._file(name)}"

    def keep(self, name: str, mark: str, tagger: CRF) -> None:
        """Write a finished tagger, and only then that it is."""
        self.path.mkdir(parents=True, exist_ok=True)
        found = self.manifest()
        if found.tasks.pop(name, None) is not None:
            self._write(found)  # the old tagger is gone before the manifest has the new one
        tagger.save(self._file(name))
        found.tasks[name], found.finished = mark, False
        self._write(found)
        self._forget(name)

    def finish(self, composition: Composition, decode: Decode) -> None:
        """Write the whole pipeline."""
        self.path.mkdir(parents=True, exist_ok=True)
        composition.save(self.path / COMPOSITION)
        found = self.manifest()
        found.decode, found.finished = decode, True
        self._write(found)

    def _file(self, name: str) -> pathlib.Path:
        return self.path / f"{name}.fstcrf"

    def _forget(self, name: str) -> None:
        for ending in ("checkpoint", "checkpoint.of"):
            (self.path / f"{name}.{ending}").unlink(missing_ok=True)

    def _write(self, manifest: Manifest) -> None:
        with atomic_write(self.path / _MANIFEST) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


# --- Taggers one after the other ------------------------------------------------------------------


_ANY = Path((), 0.0, 1.0, exact=True, bound=0.0)
"""Of a tape that does not count: all its labellings together."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What the taggers found, one after the other.

    Parameters
    ----------
    composition : Composition
    offsets : int64 [S + 1]
        Bounds of the sentences; none is empty.
    ids : dict of str to int32 [N]
        The best labels of each tape.
    tables : dict of str to float64 [N, L]
        Posterior of each label.
    logs : dict of str to float64 [S]
        Log probability of the best labels, tape by tape.
    last : list of Lattice
        Of the last tagger.
    """

    composition: Composition
    offsets: Longs
    ids: dict[str, Ints]
    tables: dict[str, Floats]
    logs: dict[str, Floats]
    last: list[Lattice]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The best labels, a column for each tape of the composition."""
        sets = self.composition.label_sets
        return tuple(Column(self.ids[tape], sets[tape]) for tape in self.composition.tapes)

    def nothing(self, tapes: Sequence[str]) -> Path:
        """Return the labels of an empty sentence."""
        return Path(labels_of_tapes([() for _ in tapes]), 0.0, 1.0, exact=True, bound=0.0)

    def nbest(self, n: int, threads: int, tapes: Sequence[str]) -> list[list[Path]]:
        """Return the n best labellings of the last tape, after the best ones of the others.

        Labels, scores and probabilities are those of some tapes; there is one labelling where the
        last one is not among them.
        """
        tape = self.composition.order[-1]
        before = sum(
            (rows for name, rows in self.logs.items() if name != tape and name in tapes),
            start=np.zeros(len(self.offsets) - 1),
        )
        strings = {
            t: c.strings() for t, c in zip(self.composition.tapes, self.columns, strict=True)
        }
        found = []
        bounds = itertools.pairwise(self.offsets.tolist())
        counted = tape in tapes
        ranked = nbest(self.last, n, threads=threads) if counted else [[_ANY]] * len(self.last)
        for (a, b), paths, log in zip(bounds, ranked, before.tolist(), strict=True):
            earlier = {t: tuple(labels[a:b]) for t, labels in strings.items()}
            found.append(
                [_path({**earlier, tape: path.labels}, tapes, path, log) for path in paths]
            )
        return found


def _path(labels: dict[str, tuple[str, ...]], tapes: Sequence[str], path: Path, log: float) -> Path:
    """Return a path of some tapes, whose other factors have a log probability."""
    chance = path.probability
    score = log + (float(np.log(chance)) if chance > 0 else -np.inf)
    own = labels_of_tapes([labels[tape] for tape in tapes])
    return Path(own, score, float(np.exp(score)), exact=True, bound=score)


def steps(composition: Composition, corpus: Corpus, *, soft: bool, threads: int = 1) -> Steps:
    """Run the taggers of a composition one after the other.

    Parameters
    ----------
    composition : Composition
        Without maps; its grammar and weights are left out.
    corpus : Corpus
        No sentence is empty.
    soft : bool
        Taggers take their potentials on average over the posteriors of those before them, rather
        than for their best labels.
    threads : int
    """
    found = Steps(composition, corpus.offsets, {}, {}, {}, [])
    taggers = {tagger.tape: tagger for tagger in composition.taggers}
    last: list[Lattice] = []
    for tape in composition.order:
        tagger = taggers[tape]
        given = {}
        if soft:
            given = {t: (composition.label_sets[t], table) for t, table in found.tables.items()}
        last, found.tables[tape] = passing.soft(tagger, corpus, given, threads=threads)
        paths = best(last, threads=threads)
        number = {label: i for i, label in enumerate(tagger.labels)}
        labels = [number[label] for k in range(len(last)) for label in paths.labels(k)]
        found.ids[tape] = np.asarray(labels, dtype=np.int32)
        chances = np.asarray([0.0 if p is None else p.probability for p in paths])
        found.logs[tape] = np.log(np.maximum(chances, 1e-300))
        column = Column(found.ids[tape], tagger.labels)
        corpus = corpus.with_interned(tape_column(tape), column)
    return Steps(composition, found.offsets, found.ids, found.tables, found.logs, last)


# --- A trained pipeline ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TrainedPipeline(Tagger):
    """Taggers that read each other's labels.

    Parameters
    ----------
    composition : Composition
        The taggers, with what a joint decision needs: weights, kind, grammar.
    decoder : {"cascade", "joint", "marginals"}
        How it tags unless it is asked otherwise. cascade: one tagger after the other, by the best
        labels of those before it. joint: all together, exactly. marginals: one after the other; a
        tagger takes its potentials on average over what the posteriors of those before it say.

    Grammars and weights count in joint decisions only.
    """

    composition: Composition
    decoder: Decode = "cascade"

    def __post_init__(self) -> None:
        check_decode(self.decoder)

    def __repr__(self) -> str:
        return f"<TrainedPipeline: {' → '.join(self.composition.order)}; {self.decoder}>"

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of answers."""
        return self.composition.tapes

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each task."""
        return self.composition.label_sets

    @property
    def taggers(self) -> tuple[CRF, ...]:
        """The taggers, in the order of answers."""
        return self.composition.taggers

    def __getitem__(self, tape: str) -> CRF:
        """Return the tagger of a task."""
        for tagger in self.taggers:
            if tagger.tape == tape:
                return tagger
        raise OptionError(f"no task {tape!r}; the tasks are {', '.join(self.tapes)}")

    def with_weights(self, *weights: float) -> TrainedPipeline:
        """Return the pipeline with other factors of the taggers' potentials."""
        return replace(self, composition=self.composition.with_weights(*weights))

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> TrainedPipeline:
        """Return the pipeline under one more grammar, which its joint decisions obey."""
        found = self.composition.constrained(grammar, search=search, budget=budget)
        return replace(self, composition=found)

    def tuned(self, dev: Data, **options: Any) -> TrainedPipeline:
        """Return the pipeline with weights chosen on held-out data; see `fstcrf.compose`."""
        return replace(self, composition=self.composition.tune_weights(dev, **options))

    # --- Tagging ------------------------------------------------------------------------------

    def decode(
        self, sentences: Data, *, decode: Decode | None = None, **options: Unpack[DecodeOptions]
    ) -> Answer:
        """Return the n best labellings of each sentence; as for `fstcrf.CRF.decode`.

        In a cascade, and by marginals, the last task ranks its own labellings, and there are no
        forced labels and no bias.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        decode : {"cascade", "joint", "marginals"}, optional
            Otherwise than the pipeline usually tags.
        **options
            Those of `fstcrf.CRF.decode`.
        """
        tagger = self if decode is None else replace(self, decoder=decode)
        return super(TrainedPipeline, tagger).decode(sentences, **options)

    def decoded(
        self,
        sentences: Data,
        n: int,
        forced: Sequence[Forced | None] | None,
        bias: Bias | None,
        budget: Budget | None,
        threads: int,
        *,
        strict: bool,
        probabilities: bool = False,
    ) -> Answer:
        """Return what `decode` does; see `fstcrf.joint.Tagger.decoded`."""
        if self._chosen(None) == "joint":
            return self._joint.decoded(
                sentences,
                n,
                forced,
                bias,
                budget,
                threads,
                strict=strict,
                probabilities=probabilities,
            )
        if forced is not None or bias is not None:
            raise OptionError(
                f"decode={self.decoder!r} has no forced labels and no bias; 'joint' has them"
            )
        lengths = as_corpus(self.composition, sentences)[0]
        ranked = self.nbest_all(sentences, n, threads=threads)
        return Answer.of_paths(ranked, self.label_sets, lengths, n)

    def without_grammar(self) -> TrainedPipeline | None:
        """Return the pipeline without its grammar; None where no decision obeys one."""
        free = self.composition.without_grammar() if self.decoder == "joint" else None
        return None if free is None else replace(self, composition=free)

    def _searched(self, search: Search) -> TrainedPipeline:
        return replace(self, composition=replace(self.composition, search=search))

    def tag(
        self,
        sentence: SentenceLike,
        *,
        forced: Forced | None = None,
        bias: Bias | None = None,
        search: Search | None = None,
        budget: int | Budget | None = None,
        decode: Decode | None = None,
    ) -> Any:
        """Return the best labels of one sentence: a list for each task, or the only list."""
        known = None if forced is None else [forced]
        given: TagOptions = {"forced": known, "bias": bias, "search": search, "budget": budget}
        return self.tag_all([sentence], decode=decode, **given)[0]

    def tag_all(
        self, sentences: Data, *, decode: Decode | None = None, **options: Unpack[TagOptions]
    ) -> list[Any]:
        """Return the best labels of each sentence.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        decode : {"cascade", "joint", "marginals"}, optional
            Otherwise than the pipeline usually tags.
        **options
            Those of `fstcrf.CRF.tag_all`; all but threads are of joint decisions alone.

        Returns
        -------
        list of tuple of list of str
            One list for each task; of a single task the list itself.

        Raises
        ------
        DataError
            A sentence lacks a column, or is not what it should be.
        NoPathError
            No labelling of a sentence is legal (joint).
        """
        if self._chosen(decode) == "joint":
            return self._joint.tag_all(sentences, **options)
        lengths, corpus = as_corpus(self.composition, sentences)
        columns = self.tag_columns(corpus, decode=decode, **options)
        bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        flat = [column.strings() for column in columns]
        pairs = list(itertools.pairwise(bounds))
        if len(flat) == 1:
            return [flat[0][a:b] for a, b in pairs]
        return [tuple(labels[a:b] for labels in flat) for a, b in pairs]

    def tag_columns(
        self, corpus: Corpus, *, decode: Decode | None = None, **options: Unpack[TagOptions]
    ) -> tuple[Column, ...]:
        """Return the labels of a corpus as one column for each task; arguments as for `tag_all`."""
        how = self._chosen(decode)
        if how == "joint":
            return self._joint.tag_columns(corpus, **options)
        threads = _threads(how, options)
        if how == "cascade":
            return self.composition.cascade(corpus, threads=threads)
        return self._steps(corpus, how, threads)[1].columns

    def tag_column(
        self, corpus: Corpus, *, decode: Decode | None = None, **options: Unpack[TagOptions]
    ) -> Column:
        """Return the labels of a corpus as the column of the only task."""
        _ = self.composition.tape  # there are not several
        return self.tag_columns(corpus, decode=decode, **options)[0]

    def paths_all(
        self, sentences: Data, *, decode: Decode | None = None, **options: Unpack[TagOptions]
    ) -> list[Path | None]:
        """Return the best labels of each sentence with their probability.

        In a cascade it is the product, over the tasks, of the probability of its labels given
        those that it read; by marginals, of the probabilities that the tasks have each by itself.
        None where no labelling is legal (joint).
        """
        how = self._chosen(decode)
        if how == "joint":
            return self._joint.paths_all(sentences, **options)
        ranked = self.nbest_all(sentences, 1, decode=how, **options)
        return [paths[0] for paths in ranked]

    def nbest_all(
        self,
        sentences: Data,
        n: int,
        *,
        decode: Decode | None = None,
        tapes: Sequence[str] | None = None,
        **options: Unpack[TagOptions],
    ) -> list[list[Path]]:
        """Return the n best labellings of each sentence, best first.

        Joint ones differ in any task. In a cascade, and by marginals, the last task ranks its own
        labellings; those before it have decided.

        Parameters
        ----------
        sentences, decode, **options
            As for `tag_all`.
        n : int
        tapes : sequence of str, optional
            Labellings of these tasks alone, which differ in them. Joint ones as `Lattice.nbest`
            says it, with the other tasks summed over; in a cascade, and by marginals, without the
            probabilities of the other tasks, and there is one labelling where the last task is
            not among them.

        Raises
        ------
        OptionError
            n below 1, or tasks that there are not.
        """
        if n < 1:
            raise OptionError(f"n is {n}, expected at least 1")
        shown = None if tapes is None else shown_tapes(self.tapes, tapes)
        how = self._chosen(decode)
        if how == "joint" and shown is None:
            return self._joint.nbest_all(sentences, n, **options)
        threads = _threads(how if how != "joint" else "tapes", options)
        if how != "joint":
            lengths, found = self._steps(sentences, how, threads)
            asked = shown or self.tapes
            full = iter(found.nbest(n, threads, asked))
            return [next(full) if length else [found.nothing(asked)] for length in lengths]
        if self._joint.conditional:
            chains = [self._joint.lattice(sentence) for sentence in _sentences(sentences)]
            with gathered():
                return [chain.nbest(n, tapes=shown) for chain in chains]
        lattices = self._joint.lattices(sentences)
        return nbest_of_tapes(lattices, n, shown or (), threads=threads)

    def marginals_all(
        self,
        sentences: Data,
        *,
        forced: Sequence[Forced | None] | None = None,
        bias: Bias | None = None,
        threads: int = 1,
        decode: Decode | None = None,
    ) -> list[Any]:
        """Return the probability of each label at each token, float64 [T, L], of each sentence.

        Of several tasks, a tuple of arrays. In a cascade they are given the best labels of the
        tasks that are read.

        Raises
        ------
        OptionError
            A joint decision of ``normalize="chain"``, which has none.
        """
        how = self._chosen(decode)
        if how == "joint":
            joint = self._joint
            return joint.marginals_all(sentences, forced=forced, bias=bias, threads=threads)
        _threads(how, {"forced": forced, "bias": bias})
        lengths, found = self._steps(sentences, how, threads)
        bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        parts = [
            {tape: rows[a:b] for tape, rows in found.tables.items()}
            for a, b in itertools.pairwise(bounds)
        ]
        return [self.composition.per_tape(part.__getitem__) for part in parts]

    def confidence_all(
        self, sentences: Data, *, decode: Decode | None = None, **options: Any
    ) -> list[Confidence]:
        """Return how sure the best labels of each sentence are.

        In a cascade, and by marginals, the bounds are one number, the probability of `paths_all`:
        no grammar counts there, and all is legal.

        Parameters
        ----------
        sentences, decode
            As for `tag_all`.
        **options
            Of `fstcrf.Lattice.confidence`: how a joint decision's bounds are found.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal (joint).
        OptionError
            A joint decision of ``normalize="chain"``, which has no sum over all labellings.
        """
        how = self._chosen(decode)
        if how == "joint":
            if self._joint.conditional:
                raise OptionError("decode='joint' by normalize='chain' has no confidence")
            lattices = self._joint.lattices(sentences)
            with gathered():
                return [lattice.confidence(**options) for lattice in lattices]
        found = [ranked[0] for ranked in self.nbest_all(sentences, 1, decode=how)]
        return [_sure(path) for path in found]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the pipeline to a folder.

        Raises
        ------
        OSError
            It cannot be written.
        """
        Folder(FilePath(folder)).finish(self.composition, self.decoder)

    @cached_property
    def _joint(self) -> Composition:
        composition = self.composition
        if not composition.conditional:
            _ = composition.program.decoder  # what is too large is said before anything is read
        return composition

    def _chosen(self, decode: Decode | None) -> Decode:
        how = decode or self.decoder
        check_decode(how)
        if how == "marginals" and (self.composition.maps or self.composition.relabellings):
            raise OptionError("decode='marginals' does not go through maps between taggers")
        return how

    def _steps(self, sentences: Data, how: Decode, threads: int) -> tuple[list[int], Steps]:
        lengths, corpus = as_corpus(self.composition, sentences)
        return lengths, steps(self.composition, corpus, soft=how == "marginals", threads=threads)


def load_pipeline(path: str | os.PathLike[str]) -> TrainedPipeline:
    """Load a pipeline from its folder, or from a file of a tagger or a composition.

    Raises
    ------
    ModelFileError
        No pipeline, or one whose training has not come to its end.
    OSError
        It cannot be read.
    """
    place = FilePath(path)
    decode: Decode = "cascade"
    if place.is_dir():
        manifest = Folder(place).manifest()
        if not manifest.finished:
            done = ", ".join(manifest.tasks) or "none of its tasks"
            raise ModelFileError(
                f"{place}: no finished pipeline; {done} trained so far: train it to its end"
            )
        decode, place = manifest.decode, place / COMPOSITION
    model = load(place)
    if isinstance(model, CRF):
        model = Composition((model,), (1.0,))
    return TrainedPipeline(model, decode)


def check_decode(decode: str) -> None:
    """Check that a way to decode is one.

    Raises
    ------
    OptionError
        It is none.
    """
    known = get_args(Decode)
    if decode not in known:
        raise OptionError(f"decode is {decode!r}, expected one of {', '.join(map(repr, known))}")


def _threads(how: str, options: TagOptions) -> int:
    """Return the threads of options of which a decision that is not joint reads no others."""
    odd = [name for name, value in options.items() if name != "threads" and value is not None]
    if odd:
        raise OptionError(f"decode={how!r} reads no {' and no '.join(odd)}; 'joint' does")
    return options.get("threads", 1)


def _sure(path: Path) -> Confidence:
    one = Interval(path.probability, path.probability)
    return Confidence(path, one, Interval(1.0, 1.0), "exact", 1.0)


def _sentences(sentences: Data) -> Sequence[Any]:
    return sentences
