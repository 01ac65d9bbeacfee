"""A trained pipeline: it tags as a cascade, jointly, or by earlier taggers' marginals."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from fstcrf.errors import ModelFileError, OptionError
from fstcrf.joint.composition import Composition
from fstcrf.joint.file import load
from fstcrf.joint.sentences import as_corpus
from fstcrf.lattice import nbest
from fstcrf.lattice.confidence import Confidence, Interval
from fstcrf.lattice.shown import nbest_of_tapes, shown_tapes
from fstcrf.model import CRF
from fstcrf.pipelines.folder import COMPOSITION, Folder
from fstcrf.pipelines.stepwise import Steps, steps
from fstcrf.plans import gathered

if TYPE_CHECKING:
    from fstcrf.corpus import Column, Corpus
    from fstcrf.grammar import Grammar
    from fstcrf.lattice import Path
    from fstcrf.model.reading import Data

__all__ = ["Decode", "TrainedPipeline", "check_decode", "load_pipeline"]

Decode: TypeAlias = Literal["cascade", "joint", "marginals"]
_DECODES = ("cascade", "joint", "marginals")


@dataclass(frozen=True, eq=False)
class TrainedPipeline:
    """Taggers that read each other's labels.

    Parameters
    ----------
    composition : Composition
        The taggers, with what a joint decision needs: weights, kind, grammar.
    decode : {"cascade", "joint", "marginals"}
        How it tags unless it is asked otherwise. cascade: one tagger after the other, by the best
        labels of those before it. joint: all together, exactly. marginals: one after the other; a
        tagger takes its potentials on average over what the posteriors of those before it say.

    Grammars and weights count in joint decisions only.
    """

    composition: Composition
    decode: Decode = "cascade"

    def __post_init__(self) -> None:
        check_decode(self.decode)

    def __repr__(self) -> str:
        return f"<TrainedPipeline: {' → '.join(self.composition.order)}; {self.decode}>"

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of answers."""
        return self.composition.tapes

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

    def constrained(self, grammar: Grammar) -> TrainedPipeline:
        """Return the pipeline under one more grammar, which its joint decisions obey."""
        return replace(self, composition=self.composition.constrained(grammar))

    def tuned(self, dev: Data, **options: Any) -> TrainedPipeline:
        """Return the pipeline with weights chosen on held-out data; see `fstcrf.compose`."""
        return replace(self, composition=self.composition.tune_weights(dev, **options))

    # --- Tagging ------------------------------------------------------------------------------

    def tag(self, sentence: Any, *, decode: Decode | None = None) -> Any:
        """Return the best labels of one sentence: a list for each task, or the only list."""
        return self.tag_all([sentence], decode=decode)[0]

    def tag_all(
        self, sentences: Data, *, decode: Decode | None = None, threads: int = 1
    ) -> list[Any]:
        """Return the best labels of each sentence.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        decode : {"cascade", "joint", "marginals"}, optional
            Otherwise than the pipeline usually tags.
        threads : int
            The answer does not depend on it.

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
        lengths, corpus = as_corpus(self.composition, sentences)
        columns = self.tag_columns(corpus, decode=decode, threads=threads)
        bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        flat = [column.strings() for column in columns]
        pairs = list(itertools.pairwise(bounds))
        if len(flat) == 1:
            return [flat[0][a:b] for a, b in pairs]
        return [tuple(labels[a:b] for labels in flat) for a, b in pairs]

    def tag_columns(
        self, corpus: Corpus, *, decode: Decode | None = None, threads: int = 1
    ) -> tuple[Column, ...]:
        """Return the labels of a corpus as one column for each task; arguments as for `tag_all`."""
        how = self._chosen(decode)
        if how == "joint":
            return self._joint.tag_columns(corpus, threads=threads)
        if how == "cascade":
            return self.composition.cascade(corpus, threads=threads)
        return self._steps(corpus, how, threads)[1].columns

    def paths_all(
        self, sentences: Data, *, decode: Decode | None = None, threads: int = 1
    ) -> list[Path | None]:
        """Return the best labels of each sentence with their probability.

        In a cascade it is the product, over the tasks, of the probability of its labels given
        those that it read; by marginals, of the probabilities that the tasks have each by itself.
        None where no labelling is legal (joint).
        """
        how = self._chosen(decode)
        if how == "joint":
            return self._joint.paths_all(sentences, threads=threads)
        ranked = self.nbest_all(sentences, 1, decode=how, threads=threads)
        return [paths[0] for paths in ranked]

    def nbest_all(
        self,
        sentences: Data,
        n: int,
        *,
        decode: Decode | None = None,
        threads: int = 1,
        tapes: Sequence[str] | None = None,
    ) -> list[list[Path]]:
        """Return the n best labellings of each sentence, best first.

        Joint ones differ in any task. In a cascade, and by marginals, the last task ranks its own
        labellings; those before it have decided.

        Parameters
        ----------
        sentences, decode, threads
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
        if shown is not None:
            return nbest_of_tapes(lattices, n, shown, threads=threads)
        return list(nbest(lattices, n, threads=threads))

    def marginals_all(
        self, sentences: Data, *, decode: Decode | None = None, threads: int = 1
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
            return self._joint.marginals_all(sentences, threads=threads)
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
        Folder(FilePath(folder)).finish(self.composition, self.decode)

    @cached_property
    def _joint(self) -> Composition:
        composition = self.composition
        if not composition.conditional:
            _ = composition.program.decoder  # what is too large is said before anything is read
        return composition

    def _chosen(self, decode: Decode | None) -> Decode:
        how = decode or self.decode
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
    if decode not in _DECODES:
        raise OptionError(f"decode is {decode!r}, expected one of {', '.join(map(repr, _DECODES))}")


def _sure(path: Path) -> Confidence:
    one = Interval(path.probability, path.probability)
    return Confidence(path, one, Interval(1.0, 1.0), "exact", 1.0)


def _sentences(sentences: Data) -> Sequence[Any]:
    return sentences
