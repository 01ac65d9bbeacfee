"""The folder of a pipeline: trained taggers, and the fingerprints of their training.

::

    ner.fstcrf          a finished tagger
    field.checkpoint    the state of an interrupted training
    pipeline.json       fingerprint of each tagger; how the pipeline tags
    pipeline.fstcrf     the composition of all taggers, once every task is finished

Folders. A task has a fingerprint: a hash of its text, held-out text, template and word lists,
options, and of the *weights* of the taggers that it reads (`Task.fingerprint`,
`CRF.fingerprint`). A tagger in the folder is taken if the manifest has it under that
fingerprint. A change therefore causes new training of the tasks that it affects; later tasks are
trained again only if the tagger that they read has really changed. The state of an interrupted
training is stored with it, with another fingerprint. The manifest drops a tagger before its file is
replaced, and contains the new one once the file is complete: it is therefore right whenever a run
ends.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import msgspec

from fstcrf.arguments import one_of
from fstcrf.arrays import Ragged
from fstcrf.errors import ModelFileError, OptionError
from fstcrf.ext.pipelines.cascade import cascaded
from fstcrf.files import atomic_write, check_writable, path_name, sync_folder
from fstcrf.kernel import Budget
from fstcrf.lattices import Answer, Lattice, Path
from fstcrf.lattices.results import Confidence
from fstcrf.lazy import LazyModule, made_once
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import Search, one_warning
from fstcrf.taggers import CRF, JointCRF, Tagger, load
from fstcrf.taggers.batches import as_corpus, cascade_one
from fstcrf.taggers.evidence import Bias, Columns, Forced, Request
from fstcrf.taggers.tagger import DecodeOptions, OnNoPath, TagOptions
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import FeatureFunction, FeatureFunctions
from fstcrf.text.sentences import Data, SentenceLike

if TYPE_CHECKING:
    from fstcrf.ext.explain.joint import JointExplanation

explaining = LazyModule("fstcrf.ext.explain.joint")

Decode: TypeAlias = Literal["cascade", "marginals", "joint", "product", "chain"]

COMPOSITION = "pipeline.fstcrf"
MANIFEST = "pipeline.json"


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The contents of ``pipeline.json``."""

    format: Literal["fstcrf-pipeline"] = "fstcrf-pipeline"
    version: Literal[1] = 1
    tasks: dict[str, str] = {}  # by name, the hash of the task's training
    decode: Decode | None = None
    finished: bool = False


@dataclass(frozen=True)
class Folder:
    """The folder of a pipeline; it is made before something is written."""

    path: pathlib.Path

    def manifest(self) -> Manifest:
        """Return the manifest of the folder; an empty folder has an empty manifest."""
        file = self.path / MANIFEST
        if not file.exists():
            return Manifest()
        try:
            return msgspec.json.decode(file.read_bytes(), type=Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ModelFileError(f"{file}: not a file of a pipeline: {error}") from None

    def check_writable(self, names: Iterable[str]) -> None:
        """Find out before tasks are trained whether all that they leave could be written."""
        self.path.mkdir(parents=True, exist_ok=True)
        for file in (*map(self._file, names), self.path / COMPOSITION, self.path / MANIFEST):
            check_writable(file)

    def finished(self, name: str, mark: str, features: FeatureFunction | None = None) -> CRF | None:
        """Return the tagger of a task if it was trained by just that.

        The state of its training is removed if it still exists.
        """
        file = self._file(name)
        if self.manifest().tasks.get(name) != mark or not file.exists():
            return None
        tagger = CRF.load(file, features=features)
        self._forget(name)
        return tagger

    def checkpoint(self, name: str, mark: str, tell: Callable[[str], None]) -> pathlib.Path:
        """Return the file for the state of a task's training, made ready to be resumed.

        A state that does not fit the task, because its declaration has changed, is removed, and
        `tell` receives a message.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / f"{name}.checkpoint"
        stamp = self.path / f"{name}.checkpoint.of"
        if not stamp.exists() or stamp.read_text("utf-8") != mark:
            if file.exists():
                tell(f"{name}: its data or options have changed: the state so far is dropped")
                file.unlink()
                sync_folder(self.path)  # before it could be mistaken for a state of the new mark
            with atomic_write(stamp) as written:
                written.write(mark.encode())
        return file

    def replaced(self, name: str) -> str:
        """Return a remark about the tagger that a task will replace; empty without one."""
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

    def finish(self, composition: JointCRF, decode: Decode | None) -> None:
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
        with atomic_write(self.path / MANIFEST) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


# --- A trained pipeline ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TrainedPipeline(Tagger):
    """Taggers that read each other's labels.

    Parameters
    ----------
    composition : JointCRF
        The taggers, and the parts of a joint decision: weights, kind, grammar.
    decoder : {"cascade", "marginals", "joint", "product", "chain"}, optional
        Default way to tag. cascade: one tagger after the other, given the best labels of earlier
        ones. marginals: one after the other; each tagger averages its potentials over the
        posteriors of earlier ones. joint: all together, exactly, as the composition defines it.
        product, chain: the same with that way to normalise. By default: joint under a grammar, else
        cascade.

    Weights count in joint decisions only. In a cascade, and by marginals, a grammar over one tape
    restricts the tagger of this tape; one over several tapes is an `OptionError`.
    """

    composition: JointCRF
    decoder: Decode | None = None

    def __post_init__(self) -> None:
        if self.decoder is not None:
            one_of("decode", self.decoder, Decode)
        mapped = self.composition.maps or self.composition.relabellings
        if self.decoder == "marginals" and mapped:
            raise OptionError("decode='marginals' does not go through maps between taggers")

    def __repr__(self) -> str:
        return f"<TrainedPipeline: {' → '.join(self.composition._order)}; {self.way}>"

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
        """Return the pipeline under one more grammar.

        The result decides jointly, unless `decoder` names another way. All ways to decide obey the
        grammar; cascades and marginals require that each of its parts reads one tape.
        """
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

        In a cascade, and by marginals, the last task ranks its own labellings, and scores are log
        probabilities. Each task obeys the labels that are forced on it, which those after it read.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        decode : {"cascade", "marginals", "joint", "product", "chain"}, optional
            Otherwise than the pipeline usually tags.
        **options
            Those of `fstcrf.CRF.decode`.
        """
        return super(TrainedPipeline, self._decoding(decode)).decode(sentences, **options)

    def _decode(self, asked: Request) -> Answer:
        """Return the result of `decode`; see `fstcrf.taggers.Tagger._decode`."""
        if self.together:
            return self.joint._decode(asked)
        return cascaded(self.composition, asked, soft=self.way == "marginals")

    @property
    def way(self) -> Decode:
        """The way to tag: `decoder`, else jointly under a grammar, or as a cascade without one."""
        return self.decoder or ("joint" if self.composition.conjuncts else "cascade")

    @property
    def together(self) -> bool:
        """Whether all tasks are decided together, rather than one after the other."""
        return self.way not in ("cascade", "marginals")

    @made_once
    def joint(self) -> JointCRF:
        """The composition by which all tasks are decided together.

        Raises
        ------
        OptionError, TooLargeError
            The taggers have no such product or chain.
        """
        composition = self.composition
        if self.decoder in ("product", "chain"):
            composition = replace(composition, normalize=self.decoder)
        if not composition._conditional:
            # a product that is too large is reported before reading
            _ = composition._program.decoder
        return composition

    def _joint(self) -> JointCRF | None:
        """Return the composition that decides all tasks together, or `None`.

        Raises
        ------
        OptionError
            Tasks decide separately, under a grammar over several tapes.
        """
        if self.together:
            return self.joint
        _ = (
            self.composition._cascade_taggers
        )  # a grammar that they cannot obey is reported before reading
        return None

    def _as_transducer(self) -> Tagger:
        """Return a tagger with the same legal labellings that explains missing labellings."""
        return self.joint._as_transducer() if self.together else self

    def _decoding(self, decode: Decode | None) -> TrainedPipeline:
        """Return the pipeline that decodes as it is asked."""
        return self if decode is None else replace(self, decoder=decode)

    def without_grammar(self) -> TrainedPipeline | None:
        """Return the pipeline without its grammar, deciding as before; `None` without a grammar."""
        free = self.composition.without_grammar()
        return None if free is None else replace(self, composition=free, decoder=self.way)

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
        plain = forced is None and bias is None and search is None and budget is None
        tagger = self._decoding(decode)
        if not plain:
            known = None if forced is None else [forced]
            given: TagOptions = {"forced": known, "bias": bias, "search": search, "budget": budget}
            return self.tag_all([sentence], decode=decode, **given)[0]
        if tagger.way == "cascade" and len(sentence):
            labels = cascade_one(self.composition, sentence)
            if labels is not None:
                return labels if len(labels) > 1 else labels[0]
        return self.tag_all([sentence], decode=decode)[0]

    def tag_all(
        self, sentences: Data, *, decode: Decode | None = None, **options: Unpack[TagOptions]
    ) -> list[Any]:
        """Return the best labels of each sentence.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        decode : {"cascade", "marginals", "joint", "product", "chain"}, optional
            Otherwise than the pipeline usually tags.
        **options
            Those of `fstcrf.CRF.tag_all`.

        Returns
        -------
        list of tuple of list of str
            One list for each task; for a single task the list itself.

        Raises
        ------
        DataError
            A sentence lacks a column, or is invalid.
        NoPathError
            No labelling of a sentence is legal.
        OptionError
            decode is cascade or marginals, under a grammar over several tapes.
        """
        tagger = self._decoding(decode)
        if tagger.together or tagger.composition.conjuncts or set(options) - {"threads"}:
            return super(TrainedPipeline, tagger).tag_all(sentences, **options)
        corpus = as_corpus(self.composition, sentences)
        columns = self.tag_columns(corpus, decode=decode, **options)
        flat = [column.strings() for column in columns]
        slices = list(Ragged(corpus.offsets).slices())
        if len(flat) == 1:
            return [flat[0][tokens] for tokens in slices]
        return [tuple(labels[tokens] for labels in flat) for tokens in slices]

    def tag_columns(
        self, corpus: Corpus, *, decode: Decode | None = None, **options: Unpack[TagOptions]
    ) -> tuple[Column, ...]:
        """Return the labels of a corpus as one column for each task; arguments as for `tag_all`."""
        tagger = self._decoding(decode)
        ruled = bool(tagger.composition.conjuncts)
        if tagger.way == "cascade" and not ruled and not set(options) - {"threads"}:
            return tagger.composition.cascade(corpus, threads=options.get("threads", 1))
        return super(TrainedPipeline, tagger).tag_columns(corpus, **options)

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

        In a cascade it is the product, over the tasks, of the probability of its labels given the
        labels that it read; by marginals, the product of the tasks' separate probabilities. `None`
        if no labelling is legal.
        """
        ranked = self.nbest_all(sentences, 1, decode=decode, **options)
        return [next(iter(paths), None) for paths in ranked]

    def nbest_all(
        self,
        sentences: Data,
        n: int,
        *,
        decode: Decode | None = None,
        **options: Unpack[TagOptions],
    ) -> list[list[Path]]:
        """Return the n best labellings of each sentence, best first; [] if no labelling is legal.

        Joint ones differ in any task. In a cascade, and by marginals, the last task ranks its own
        labellings; those before it have decided.

        Parameters
        ----------
        sentences, decode, **options
            As for `tag_all`. With `tapes`, labellings of only these tasks, which differ in them.
            Joint ones are as in `Lattice.nbest`, with the probability of the best labelling of all
            tasks. In a cascade, and by marginals, they omit the probabilities of the other tasks,
            and there is one labelling if the last task is not included.
        n : int

        Raises
        ------
        OptionError
            n below 1, or tasks that there are not.
        """
        options.setdefault("on_no_path", "skip")
        found = self.decode(sentences, n=n, decode=decode, **options)
        return [found.paths(b) for b in range(len(found))]

    def marginals_all(
        self,
        sentences: Data,
        *,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
        threads: int = 1,
        on_no_path: OnNoPath = "error",
        decode: Decode | None = None,
    ) -> list[Any]:
        """Return the probability of each label at each token, float64 [T, L], of each sentence.

        For several tasks, a tuple of arrays. In a cascade they are given the best labels of the
        tasks that are read. A sentence that is skipped has zeros.

        Raises
        ------
        OptionError
            A joint decision with ``normalize="chain"``, which has no marginals.
        """
        tagger = self._decoding(decode)
        asked: Any = {"forced": forced, "bias": bias, "threads": threads, "on_no_path": on_no_path}
        if tagger.together:
            return tagger.joint.marginals_all(sentences, **asked)
        return super(TrainedPipeline, tagger).marginals_all(sentences, **asked)

    def confidence_all(
        self, sentences: Data, *, decode: Decode | None = None, **options: Any
    ) -> list[Confidence]:
        """Return the confidence in the best labels of each sentence.

        In a cascade, and by marginals, the bounds are one number, the probability of `paths_all`.
        There, labels are legal if the labels of each task are legal, given the earlier labels.

        Parameters
        ----------
        sentences, decode
            As for `tag_all`.
        **options
            Of `fstcrf.Lattice.confidence`: how a joint decision's bounds are found.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal.
        OptionError
            A joint decision of ``normalize="chain"``, which has no sum over all labellings; no such
            option.
        """
        tagger, known = self._decoding(decode), tuple(Lattice.confidence.__kwdefaults__ or ())
        for name in set(options) - set(known):
            raise OptionError(f"confidence has no option {name!r}, expected {', '.join(known)}")
        if not tagger.together:
            answer = tagger.decode(sentences)  # strict: each sentence has a path
            each = map(answer.confidence, range(len(answer)))
            return [confidence for confidence in each if confidence is not None]
        if tagger.joint._conditional:
            raise OptionError(
                f"decode={tagger.way!r} with normalize='chain' has no confidence: use "
                "normalize='product'"
            )
        lattices = tagger.joint.lattices(sentences)
        with one_warning():
            return [lattice.confidence(**options) for lattice in lattices]

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return which features of which tagger pushed which label at a token, and by how much.

        If tasks are decided in sequence, the contributions in each task's tagger, given the best
        labels of the tasks that it reads.
        """
        if self.together:
            return self.joint.explain(sentence, token)
        even = self.composition.with_weights(*[1.0] * len(self.taggers))  # weights do not count
        decided = self.decode([sentence])
        explanation: JointExplanation = explaining.explain(even, sentence, token, decided)
        return explanation

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the pipeline to a folder.

        Raises
        ------
        OSError
            It cannot be written.
        """
        Folder(FilePath(path_name(folder))).finish(self.composition, self.decoder)


def load_pipeline(
    path: str | os.PathLike[str], *, features: FeatureFunctions | None = None
) -> TrainedPipeline:
    """Load a pipeline from its folder, or from a file of a tagger or a composition.

    Parameters
    ----------
    path : path
    features : callable or dict of str to callable, optional
        The feature function of the only task that has one, or a dict from task to function.

    Raises
    ------
    ModelFileError
        Not a pipeline, or a pipeline with unfinished training.
    OptionError
        A task needs its feature function, or none of them has a use for one.
    OSError
        It cannot be read.
    """
    place = FilePath(path_name(path))
    decode: Decode | None = None
    if place.is_dir():
        manifest = Folder(place).manifest()
        if not manifest.finished:
            done = ", ".join(manifest.tasks) or "none of its tasks"
            raise ModelFileError(
                f"{place}: the pipeline is not finished, only {done} trained so far: run "
                "the training command again to continue"
            )
        decode, place = manifest.decode, place / COMPOSITION
    model = load(place, features=features)
    if isinstance(model, CRF):
        model = JointCRF((model,), (1.0,))
    return TrainedPipeline(model, decode)
