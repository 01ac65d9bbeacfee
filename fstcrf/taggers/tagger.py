"""`Tagger` and its subclasses `Composable` and `Composition`: the methods that taggers share."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypedDict,
    Unpack,
    cast,
)

from fstcrf import display
from fstcrf.arguments import AS_GRAMMAR, is_fst, one_of, refuse_fst, whole_number
from fstcrf.errors import NoPathError, OptionError
from fstcrf.kernel.lazy import budget_of
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.paths import Path, shown_tapes
from fstcrf.lazy import LazyModule
from fstcrf.storage import VERSION, write_arrays
from fstcrf.taggers.evidence import (
    Bias,
    Columns,
    Evidence,
    Forced,
    Request,
    explained,
    in_columns,
    relaxed,
)
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.sentences import Data, SentenceLike, check_text

if TYPE_CHECKING:
    import pynini

    from fstcrf import lattices
    from fstcrf.arrays import Array
    from fstcrf.kernel import Budget
    from fstcrf.lattices import AnyLattice, Lattice, constructors, engine
    from fstcrf.lattices.engine import Scored, Tape
    from fstcrf.machines import grammar as grammars
    from fstcrf.machines import plans
    from fstcrf.machines import transducer as transducers
    from fstcrf.machines.grammar import Acceptor, Grammar
    from fstcrf.machines.plans import Plan, Search
    from fstcrf.machines.transducer import Transducer
    from fstcrf.taggers import JointCRF, JointExplanation, WeightTrial, composition
    from fstcrf.taggers.spanencoding import SpanEncoding
else:  # loading a tagger does not import modules that few calls need
    composition = LazyModule("fstcrf.taggers.composition")
    lattices, engine = LazyModule("fstcrf.lattices"), LazyModule("fstcrf.lattices.engine")
    constructors = LazyModule("fstcrf.lattices.constructors")
    grammars, plans = LazyModule("fstcrf.machines.grammar"), LazyModule("fstcrf.machines.plans")
    transducers = LazyModule("fstcrf.machines.transducer")

if TYPE_CHECKING:  # with defaults, so that the parameters may be left out
    from typing_extensions import TypeVar

    LabelsT = TypeVar("LabelsT", default=Any)
else:
    from typing import TypeVar

    LabelsT = TypeVar("LabelsT")

Labels: TypeAlias = Sequence[Any]
"""The labels of a sentence; for several tapes, a sequence of labels for each tape."""
OnNoPath: TypeAlias = Literal["error", "skip", "relax"]
Normalize: TypeAlias = Literal["product", "chain"]


class TagOptions(TypedDict, total=False):
    """Keyword arguments of `Tagger.tag_all`, `tag_columns`, `paths_all` and `nbest_all`."""

    forced: Sequence[Forced | None] | Columns | None
    bias: Bias | None
    search: Search | None
    budget: int | Budget | None
    threads: int
    tapes: Sequence[str] | None
    on_no_path: OnNoPath


class TuningOptions(TypedDict, total=False):
    """Keyword arguments of `Composition.tune_weights`."""

    targets: Mapping[str, str | Sequence[Sequence[str]]] | None
    metric: str
    grid: Sequence[float]
    threads: int
    report: Callable[[WeightTrial], None] | None


class DecodeOptions(TagOptions, total=False):
    """Keyword arguments of `Tagger.decode`."""

    n: int


class Tagger(ABC, Generic[LabelsT]):
    """A model that labels sentences.

    A tagger with one tape returns a list of str as the labels of a sentence, and an array as its
    marginals. A tagger with several tapes returns a tuple of these, one for each tape. The type
    parameter is the type that `tag` returns.
    """

    @property
    @abstractmethod
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes that the tagger writes."""

    @property
    @abstractmethod
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""

    def _repr_html_(self) -> str:
        rows: list[list[display.Cell]] = [
            [tape, len(labels), display.listed(labels)] for tape, labels in self.label_sets.items()
        ]
        return display.picture(
            display.heading(repr(self)),
            display.table(["tape", "labels", ""], rows, what="tapes"),
            display.facts(self._facts()),
        )

    def _facts(self) -> dict[str, display.Cell]:
        """Return properties for notebooks and `fstcrf info`: name to value."""
        return {}

    def decode(
        self,
        sentences: Data,
        *,
        n: int = 1,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
        on_no_path: OnNoPath = "error",
        search: Search | None = None,
        budget: int | Budget | None = None,
        threads: int = 1,
        tapes: Sequence[str] | None = None,
    ) -> Answer:
        """Return the n best labellings of each sentence.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        n : int
            Number of labellings for each sentence. They differ in a label of at least one tape.
        forced : sequence, or str or mapping of str to str, optional
            Observed labels, one list for each sentence, or `None` for a sentence without any. Use
            None or ``"_"`` for a token whose label is unknown, and ``"a|b"`` if the label is one of
            several. A tagger with several tapes takes a mapping of tape to such a list. Or the name
            of a column of the corpus with these strings; for several tapes, a mapping of tape to
            column.
        bias : mapping of str to float, optional
            Number added to the score of a label at every token. A positive number makes the label
            more frequent. A tagger with several tapes takes a mapping of tape to such a mapping.
        on_no_path : {"error", "skip", "relax"}
            The treatment of sentences without a legal labelling. error: raise `NoPathError`. skip:
            mark the sentence as `Answer.dead`. relax: decode it without the grammar, then without
            forced labels, then without both; `Answer.changed` names them.
        search : {"auto", "lazy", "expanded"}, optional
            The search for best paths under a grammar; see `fstcrf.compose`. By default, the search
            that the tagger was composed with.
        budget : int or Budget, optional
            Limit of a lazy search, for each sentence; an int is a number of states. At the limit,
            the search returns the best path that it has found, marked as not exact, and issues an
            `InexactWarning`.
        threads : int
            Number of worker threads. Results are identical for any value.
        tapes : sequence of str, optional
            Return labellings of these tapes only. A labelling then represents all paths with these
            labels. Its score is the score of the best such path; its probability is the sum over
            all of them, or NaN if the sum has no closed form.

        Raises
        ------
        DataError
            A sentence that lacks a column, or has another type; a column of forced labels that
            contains a string that is no label.
        LabelError
            An unknown label in `forced` or `bias`.
        NoPathError
            A sentence has no legal labelling, and `on_no_path` is error. If labels are forced, the
            message names the cause: they, the grammar or the scheme.
        OptionError
            n below 1, an unknown choice, or an option that this tagger does not support.
        """
        options = TagOptions(
            forced=forced,
            bias=bias,
            on_no_path=on_no_path,
            search=search,
            budget=budget,
            threads=threads,
            tapes=tapes,
        )
        return self._answer(sentences, n, **options)

    def _answer(
        self,
        sentences: Data,
        n: int = 1,
        *,
        probabilities: bool = False,
        scores: bool = True,
        **options: Unpack[TagOptions],
    ) -> Answer:
        forced, search = options.get("forced"), options.get("search")
        on_no_path = options.get("on_no_path", "error")
        one_of("on_no_path", on_no_path, OnNoPath)
        if search is not None:
            one_of("search", search, plans.Search)
        n = whole_number(n, "n", least=1, narrow=True)
        check_text(sentences)
        shown = None if (tapes := options.get("tapes")) is None else shown_tapes(self.tapes, tapes)
        named: Mapping[str, str] = {}
        if isinstance(forced, str | Mapping):
            named, forced = in_columns(forced, sentences, self.label_sets)
        tagger = self if search is None else self._searched(search)
        request = Request(
            sentences,
            n=n,
            forced=forced,
            bias=options.get("bias"),
            budget=budget_of(options.get("budget")),
            threads=options.get("threads", 1),
            tapes=shown,
            strict=on_no_path == "error",
            probabilities=probabilities,
            scores=scores,
        )
        with plans.one_warning():
            try:
                answer = tagger._decode(request)
            except NoPathError as error:
                raise explained(error, tagger, request, named) from None
            if on_no_path == "relax" and answer.dead.any():
                answer = relaxed(answer, tagger, request)
            plans.warn_unproven(tagger._count_unproven(answer), len(answer))
        return answer

    @abstractmethod
    def _decode(self, request: Request) -> Answer:
        """Return the answer to a request, without a warning about unproven paths."""

    @abstractmethod
    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Tagger[LabelsT]:
        """Return the tagger under one more grammar; same as ``tagger & grammar``."""

    def __and__(self, grammar: Grammar) -> Tagger[LabelsT]:
        """Return ``self.constrained(grammar)``, which writes only labellings that it accepts."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, grammars.Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def _searched(self, search: Search) -> Tagger[LabelsT]:
        """Return the tagger with another search for best paths under a grammar."""
        del search  # only a grammar needs a search
        return self

    def without_grammar(self) -> Tagger[LabelsT] | None:
        """Return the tagger without its grammar, or `None` if it has no grammar."""
        return None

    def _count_unproven(self, answer: Answer) -> int:
        """Return the number of sentences that the warning about unproven paths counts."""
        return answer.unproven

    def _joint(self) -> JointCRF | None:
        """Return the joint decoder of all tapes, or `None` if the tagger is no `JointCRF`."""
        return None

    def _as_transducer(self) -> Tagger:
        """Return a tagger with the same legal labellings, whose `NoPathError` names the token."""
        return self

    def tag(
        self,
        sentence: SentenceLike,
        *,
        forced: Forced | None = None,
        bias: Bias | None = None,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> LabelsT:
        """Return the best labels of one sentence: a list, or a tuple of lists for several tapes.

        Parameters
        ----------
        sentence : Sentence, mapping, list of rows, or list of attribute lists or feature dicts
        forced, bias, search, budget
            As for `decode`; `forced` is the list of one sentence.

        Raises
        ------
        DataError, LabelError, NoPathError
            As `decode`.
        """
        rows = None if forced is None else [forced]
        return self.tag_all([sentence], forced=rows, bias=bias, search=search, budget=budget)[0]

    def tag_all(self, sentences: Data, **options: Unpack[TagOptions]) -> list[LabelsT]:
        """Return the best labels of each sentence: a list, or a tuple of lists for several tapes.

        Options and errors as for `decode`: forced, bias, search, budget, on_no_path, threads.
        """
        answer = self._answer(sentences, scores=False, **options)
        tapes = [answer[tape].labels(0) for tape in answer.tapes]
        rows: Any = tapes[0] if len(tapes) == 1 else list(zip(*tapes, strict=True))
        return cast("list[LabelsT]", rows)

    def tag_columns(self, corpus: Corpus, **options: Unpack[TagOptions]) -> tuple[Column, ...]:
        """Return the best labels of a corpus, a column for each tape; options as for `tag_all`."""
        answer = self._answer(corpus, scores=False, **options)
        return tuple(answer[tape].column() for tape in answer.tapes)

    def tag_column(self, corpus: Corpus, **options: Unpack[TagOptions]) -> Column:
        """Return the best labels of a corpus as a column, for a tagger with one tape.

        Raises
        ------
        OptionError
            The tagger has several tapes.
        """
        return self._answer(corpus, scores=False, **options).column()

    def paths_all(self, sentences: Data, **options: Unpack[TagOptions]) -> list[Path | None]:
        """Return the best path of each sentence with its probability, or `None` without a path.

        Options as for `decode`, except that `on_no_path` is skip by default. Probabilities are
        normalised over the labellings that forced labels and the grammar allow. With
        ``normalize="chain"`` they are normalised over all labellings.
        """
        nbest = self.nbest_all(sentences, 1, **options)
        return [next(iter(paths), None) for paths in nbest]

    def nbest_all(self, sentences: Data, n: int, **options: Unpack[TagOptions]) -> list[list[Path]]:
        """Return the n best paths of each sentence, best first; [] if it has no path.

        Options and probabilities as for `paths_all`.
        """
        options.setdefault("on_no_path", "skip")
        return self._answer(sentences, n, probabilities=True, **options).ranked()

    def marginals_all(
        self,
        sentences: Data,
        *,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
        threads: int = 1,
        on_no_path: OnNoPath = "error",
    ) -> list[Any]:
        """Return the probability of each label at each token, float64 [T, L] for each sentence.

        A tagger with several tapes returns a tuple of arrays for each sentence.

        Parameters
        ----------
        sentences, forced, bias, threads, on_no_path
            As for `decode`. Probabilities are normalised over the labellings that forced labels and
            the grammar allow. A skipped sentence has zeros.

        Raises
        ------
        DataError, LabelError, NoPathError
            As `decode`.
        OptionError
            A composition with ``normalize="chain"``, which has marginals of its first tape only.
        """
        answer = self.decode(
            sentences, forced=forced, bias=bias, threads=threads, on_no_path=on_no_path
        )
        tables = [answer.marginals(tape) for tape in answer.tapes]
        return tables[0] if len(tables) == 1 else list(zip(*tables, strict=True))


# --- Taggers that score by lattices ---------------------------------------------------------------


class Composable(Tagger[LabelsT]):
    """A tagger that makes a lattice of each sentence, and so can be composed, ``a @ b``.

    All answers are computed from the lattices. Pipelines and taggers of documents are no
    `Composable`, because they have no lattice over all their labellings.
    """

    @property
    def _ambiguous(self) -> bool:
        """Whether several paths may have the same labels. The best such path is the answer."""
        return False

    @property
    def _lattice_tapes(self) -> tuple[Tape, ...]:
        """The tapes of the lattices."""
        make = engine.Tape
        return tuple(make(t, labels, segments=False) for t, labels in self.label_sets.items())

    @abstractmethod
    def _lattices(self, sentences: Data, evidence: Evidence | None) -> Sequence[Lattice]:
        """Return the lattice of each sentence, restricted and biased by the evidence."""

    def _encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind, the arrays and the metadata of the tagger's file."""
        raise OptionError(f"{self!r} cannot be saved: there is no file format for it")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tagger to a file. A failure leaves the old file unchanged.

        Raises
        ------
        OSError
            The file cannot be written.
        OptionError
            There is no file format for this tagger.
        """
        kind, arrays, metadata = self._encoded()
        write_arrays(path, arrays, metadata, kind=kind, version=VERSION)

    def _span_encoding(self, tape: str) -> SpanEncoding | None:  # noqa: ARG002
        """Return the encoding of a tape's segments as labels of tokens; `None` without segments."""
        return None

    def lattice(
        self,
        sentence: SentenceLike,
        *,
        forced: Forced | None = None,
        bias: Bias | None = None,
        n: int | None = None,
        samples: int | None = None,
        seed: int = 0,
        budget: int | Budget | None = None,
    ) -> AnyLattice:
        """Return the lattice of one sentence: all labellings, the n best, or samples.

        A composition with ``normalize="chain"`` has no lattice of all labellings: set `n` or
        `samples`.

        Parameters
        ----------
        sentence, forced, bias : as for `tag`
        n : int, optional
            Return the lattice of the n best labellings. Its log Z is the log of the sum over these.
        samples : int, optional
            Return the lattice of this number of samples, from which its answers are estimated.
            `Lattice.standard_error` returns the standard error of a probability.
        seed : int
            Seed of the samples.
        budget : int or Budget, optional
            Limit of the search for the n best labellings, as for `decode`.

        Raises
        ------
        OptionError
            Both `n` and `samples`; one of them for a tagger of segments; none of them with
            ``normalize="chain"``; samples of a chain with weights other than 1, a grammar, forced
            labels or biases.
        NoPathError
            `n` is set, and the sentence has no legal labelling.
        """
        each = None if forced is None else [forced]
        if (n is not None or samples is not None) and any(map(self._span_encoding, self.tapes)):
            raise OptionError(
                "n= and samples= are for taggers of tokens: the lattice of a tagger of "
                "segments contains all labellings"
            )
        if n is not None and samples is not None:
            raise OptionError("n= and samples= give different lattices: set only one of them")
        if n is not None:
            (paths,) = self.nbest_all(
                [sentence], n, budget=budget, forced=each, bias=bias, on_no_path="error"
            )
            return self._of_paths([p.labels for p in paths], [p.score for p in paths])
        if samples is not None:
            count = whole_number(samples, "samples", least=1, narrow=True)
            rows = Counter(self.sample(sentence, count, seed=seed, forced=forced, bias=bias))
            shares = [math.log(k / count) for k in rows.values()]
            return self._of_paths(list(rows), shares, samples=count)
        request = Request([sentence], forced=each, bias=bias)
        return self._lattices([sentence], request.evidence(self.tapes))[0]

    def _of_paths(
        self, labels: Labels, scores: Sequence[float], samples: int | None = None
    ) -> AnyLattice:
        several = labels if len(self.tapes) > 1 else [(one,) for one in labels]
        row = constructors.joint_paths(several, scores, self.label_sets)
        return lattices.Lattice(row, samples=samples)

    def _scorer(self, sentence: SentenceLike, forced: Forced | None, bias: Bias | None) -> Scored:
        """Return an object with the methods `score`, `probability` and `sample`, of a sentence."""
        return self.lattice(sentence, forced=forced, bias=bias)

    def sample(
        self,
        sentence: SentenceLike,
        n: int,
        *,
        seed: int = 0,
        forced: Forced | None = None,
        bias: Bias | None = None,
    ) -> list[Labels]:
        """Return n independent samples of the labels of a sentence, shaped as ``path.labels``.

        Raises
        ------
        OptionError
            A negative n or seed; a composition with ``normalize="chain"`` as for `lattice`.
        """
        return self._scorer(sentence, forced, bias).sample(n, seed=seed)

    def score(
        self,
        sentence: SentenceLike,
        labels: Labels,
        *,
        forced: Forced | None = None,
        bias: Bias | None = None,
    ) -> float:
        """Return the score of a labelling; with ``normalize="chain"`` a log probability.

        Raises
        ------
        ShapeError
            The number of tapes or of labels is wrong.
        LabelError
            An unknown label.
        """
        return self._scorer(sentence, forced, bias).score(labels)

    def probability(self, sentence: SentenceLike, labels: Labels) -> float:
        """Return the probability of a labelling; raises as `score`.

        With ``normalize="chain"`` it ignores weights and grammar.
        """
        return self._scorer(sentence, None, None).probability(labels)

    def __matmul__(
        self, later: Composable | Transducer | pynini.Fst
    ) -> Composition[tuple[list[str], ...]]:
        """Return the composition with another tagger, or with a transducer.

        The two taggers decide together; see `fstcrf.compose`. If a transducer of this composition
        writes the only tape of the other tagger, then that tagger scores the output of the
        transducer. A transducer reads a tape and writes another one; see
        `fstcrf.Lattice.__matmul__`.
        """
        if not isinstance(later, Composable | transducers.Transducer) and not is_fst(later):
            return NotImplemented
        return composition.compose(self, later)


class Composition(Composable[LabelsT]):
    """Taggers that decide together; made by `fstcrf.compose`.

    A composition of CRFs is a `fstcrf.taggers.JointCRF`. Other compositions are a product of the
    taggers' lattices.
    """

    taggers: tuple[Composable, ...]
    weights: tuple[float, ...]
    conjuncts: tuple[Acceptor, ...]
    normalize: Normalize

    if TYPE_CHECKING:
        # Subclasses implement these. Type checkers must not see an abstract class here, because
        # they refuse one as the second argument of `fstcrf.load(path, Composition)`.
        @property
        def tapes(self) -> tuple[str, ...]: ...  # noqa: D102
        @property
        def label_sets(self) -> dict[str, tuple[str, ...]]: ...  # noqa: D102
        def _decode(self, request: Request) -> Answer: ...
        def _lattices(self, sentences: Data, evidence: Evidence | None) -> Sequence[Lattice]: ...
        def __and__(self, grammar: Grammar) -> Self: ...
        def constrained(  # noqa: D102
            self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
        ) -> Self: ...
        def cascade(  # noqa: D102
            self,
            sentences: Data,
            *,
            threads: int = 1,
            forced: Sequence[Forced | None] | Columns | None = None,
            bias: Bias | None = None,
        ) -> tuple[Column, ...]: ...
        def with_weights(self, *weights: float) -> Self: ...  # noqa: D102

    def __repr__(self) -> str:
        sizes = ", ".join(f"{tape} ({len(labels)})" for tape, labels in self.label_sets.items())
        return f"<Composition: {sizes}; {self.normalize}>"

    @property
    def tape(self) -> str:
        """Name of the tape, if the composition has one tape.

        Raises
        ------
        OptionError
            There are several tapes.
        """
        if len(self.tapes) > 1:
            raise OptionError(
                f"the tagger has several tapes: choose one of {', '.join(self.tapes)}"
            )
        return self.tapes[0]

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels; for several tapes, a tuple of labels for each tape."""
        sets = tuple(self.label_sets.values())
        return sets if len(sets) > 1 else sets[0]

    @property
    def _order(self) -> tuple[str, ...]:
        """The tapes in the order of decision: a tape is before the tapes whose taggers read it."""
        return self.tapes

    @property
    def _conditional(self) -> bool:
        """Whether the composition is a product of conditional probabilities, by the chain rule."""
        return False

    def _facts(self) -> dict[str, display.Cell]:
        rules = [acceptor.name for acceptor in self.conjuncts]
        return {
            "taggers": display.listed([repr(tagger) for tagger in self.taggers]),
            "decide by": self.normalize,
            "weights": display.listed([f"{weight:g}" for weight in self.weights]),
            "grammar": display.listed(rules) or None,
        }

    def plan(self) -> Plan:
        """Return the compiled machine's sizes and costs.

        Raises
        ------
        OptionError
            One of the taggers tags segments.
        """
        raise OptionError(
            "this tagger has no plan, because its lattices are stored as arcs: "
            "lattice(sentence).plan() describes the lattice of one sentence"
        )

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return each feature's contribution to the score of each label at a token.

        Raises
        ------
        OptionError
            One of the taggers tags segments.
        """
        del sentence, token
        raise OptionError("explain() is for taggers of tokens, but one of these tags segments")

    def tune_weights(self, dev: Data, **options: Unpack[TuningOptions]) -> Self:
        """Return the composition with weights chosen on held-out data.

        Options as for `fstcrf.taggers.tune_weights`.

        Raises
        ------
        OptionError
            One of the taggers tags segments.
        """
        del dev, options
        raise OptionError(
            "tune_weights() is for taggers of tokens, but one of these tags segments: "
            "try weights with with_weights()"
        )

    def lattices(self, sentences: Data) -> Sequence[AnyLattice]:
        """Return the lattice of each sentence, over all tapes.

        Raises
        ------
        OptionError
            A composition with ``normalize="chain"``, which has no lattice of all labellings.
        """
        return self._lattices(sentences, None)
