"""What all taggers have in common."""

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
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.paths import Path, shown_tapes
from fstcrf.lazy import LazyModule
from fstcrf.ragged import Ragged
from fstcrf.storage import VERSION, write_arrays
from fstcrf.taggers.evidence import Bias, Columns, Evidence, Forced, Request, budget_of, in_columns
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
    from fstcrf.taggers import JointCRF, JointExplanation, WeightTrial, composition, infeasible
    from fstcrf.taggers.spelling import Spelling
else:  # a tagger that is loaded does not wait for what few calls need
    composition = LazyModule("fstcrf.taggers.composition")
    infeasible = LazyModule("fstcrf.taggers.infeasible")
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
"""The labels of a sentence, of several tapes those of each."""
OnNoPath: TypeAlias = Literal["error", "skip", "relax"]
Normalize: TypeAlias = Literal["product", "chain"]


class TagOptions(TypedDict, total=False):
    """What the views of `Tagger.decode` take beside the sentences."""

    forced: Sequence[Forced | None] | Columns | None
    bias: Bias | None
    search: Search | None
    budget: int | Budget | None
    threads: int
    tapes: Sequence[str] | None
    on_no_path: OnNoPath


class TuningOptions(TypedDict, total=False):
    """What `Composition.tune_weights` takes beside held-out data."""

    targets: Mapping[str, str | Sequence[Sequence[str]]] | None
    metric: str
    grid: Sequence[float]
    threads: int
    report: Callable[[WeightTrial], None] | None


class DecodeOptions(TagOptions, total=False):
    """What `Tagger.decode` takes beside the sentences."""

    n: int


class Tagger(ABC, Generic[LabelsT]):
    """What tags sentences.

    The labels of a sentence are a list of str, its marginals an array; of several tapes, a tuple
    of one for each. The parameter of its type is what `tag` answers.
    """

    @property
    @abstractmethod
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes that it writes."""

    @property
    @abstractmethod
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""

    def _repr_html_(self) -> str:
        """Return tapes and labels, and what else is known of it, for notebooks."""
        rows: list[list[display.Cell]] = [
            [tape, len(labels), display.listed(labels)] for tape, labels in self.label_sets.items()
        ]
        return display.picture(
            display.heading(repr(self)),
            display.table(["tape", "labels", ""], rows, what="tapes"),
            display.facts(self.facts()),
        )

    def facts(self) -> dict[str, display.Cell]:
        """Return what there is to know of a tagger at a glance: names and values."""
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
        """Return the n best paths of each sentence, tape by tape.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        n : int
            How many paths; they differ in the labels of some tape.
        forced : sequence, or str or mapping of str to str, optional
            For each sentence its labels that are known beforehand: None or ``"_"`` where not,
            ``"a|b"`` for one of several. Of several tapes, a mapping of tape to that. None: nothing
            is known of a sentence. Or the column of a corpus that has them so, of several tapes a
            mapping of tape to column.
        bias : mapping of str to float, optional
            Added to the potential of a label at every token: positive for more of it. Of several
            tapes, a mapping of tape to that.
        on_no_path : {"error", "skip", "relax"}
            What to do where no label sequence is legal. skip: such a sentence is `Answer.dead`.
            relax: it is decoded without the grammar, then without forced labels, then without both;
            `Answer.changed` says what was given up.
        search : {"auto", "lazy", "expanded"}, optional
            How best paths under a grammar are found; as the tagger was made when absent.
        budget : int or Budget, optional
            When to give up on a sentence that is searched, a number of states: then the best path
            found is given, as not exact, with an `InexactWarning`.
        threads : int
            The answer does not depend on it.
        tapes : sequence of str, optional
            Paths of these tapes alone, which differ in them: each stands for all paths that have
            its labels there. Its score is that of the best of them, its probability their sum (NaN
            where that has no closed form).

        Raises
        ------
        DataError
            A sentence lacks a column, or is not what it should be; a column of known labels has
            what is no label.
        LabelError
            An unknown label in `forced` or `bias`.
        NoPathError
            No label sequence of a sentence is legal, and `on_no_path` is error. Where labels are
            forced, it says whether these, the grammar or the scheme are to blame.
        OptionError
            n below 1, another choice, or what the tagger has no way to do.
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
        asked = Request(
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
                answer = tagger.decoded(asked)
            except NoPathError as error:
                raise infeasible.explained(error, tagger, asked, named) from None
            if on_no_path == "relax" and answer.dead.any():
                answer = infeasible.relaxed(answer, tagger, asked)
            plans.warn_unproven(tagger.unproven(answer), len(answer))
        return answer

    @abstractmethod
    def decoded(self, asked: Request) -> Answer:
        """Return what `decode` does; sentences whose paths are not proven are not warned of."""

    @abstractmethod
    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Tagger[LabelsT]:
        """Return the tagger under one more grammar; ``tagger & grammar`` for short."""

    def __and__(self, grammar: Grammar) -> Tagger[LabelsT]:
        """Return ``self.constrained(grammar)``: only what the grammar accepts."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, grammars.Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def _searched(self, search: Search) -> Tagger[LabelsT]:
        """Return the tagger with another way of searching; one without a grammar has none."""
        del search
        return self

    def without_grammar(self) -> Tagger[LabelsT] | None:
        """Return the tagger without its grammar; None where it has none."""
        return None

    def unproven(self, answer: Answer) -> int:
        """Return of how many sentences a warning says that their paths are not proven."""
        return answer.unproven

    def decision(self) -> JointCRF | None:
        """Return the composition that decides all tapes together; None where there is none."""
        return None

    def as_transducer(self) -> Tagger:
        """Return a tagger with the same legal labellings that says where all of them have died."""
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
        """Return the best labels of one sentence: a list, of several tapes a tuple of lists.

        Parameters
        ----------
        sentence : Sentence, mapping, list of rows, or list of attribute lists or feature dicts
        forced, bias, search, budget
            As for `decode`, `forced` of the sentence.

        Raises
        ------
        DataError, LabelError, NoPathError
            As `decode`.
        """
        known = None if forced is None else [forced]
        return self.tag_all([sentence], forced=known, bias=bias, search=search, budget=budget)[0]

    def tag_all(self, sentences: Data, **options: Unpack[TagOptions]) -> list[LabelsT]:
        """Return the best labels of each sentence: a list, of several tapes a tuple of lists.

        Options and errors as for `decode`: forced, bias, search, budget, on_no_path, threads.
        """
        answer = self._answer(sentences, scores=False, **options)
        tapes = [answer[tape].labels(0) for tape in answer.tapes]
        found: Any = tapes[0] if len(tapes) == 1 else list(zip(*tapes, strict=True))
        return cast("list[LabelsT]", found)

    def tag_columns(self, corpus: Corpus, **options: Unpack[TagOptions]) -> tuple[Column, ...]:
        """Return the best labels of a corpus as one column for each tape; see `tag_all`."""
        answer = self._answer(corpus, scores=False, **options)
        return tuple(answer[tape].column() for tape in answer.tapes)

    def tag_column(self, corpus: Corpus, **options: Unpack[TagOptions]) -> Column:
        """Return the only one of `tag_columns`.

        Raises
        ------
        OptionError
            There are several tapes.
        """
        return self._answer(corpus, scores=False, **options).column()

    def paths_all(self, sentences: Data, **options: Unpack[TagOptions]) -> list[Path | None]:
        """Return the best path of each sentence, with its probability; None where there is none.

        Options as for `decode`, but that `on_no_path` is skip where absent. Probabilities are those
        among the label sequences that forced labels and a grammar allow; under
        ``normalize="chain"`` that of the labels without them.
        """
        ranked = self.nbest_all(sentences, 1, **options)
        return [next(iter(paths), None) for paths in ranked]

    def nbest_all(self, sentences: Data, n: int, **options: Unpack[TagOptions]) -> list[list[Path]]:
        """Return the n best paths of each sentence, best first; [] where there is none.

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
        """Return the probability of each label at each token, float64 [T, L], of each sentence.

        Of several tapes, a tuple of arrays for each sentence.

        Parameters
        ----------
        sentences, forced, bias, threads, on_no_path
            As for `decode`; the probabilities are those among the paths that forced labels allow.
            A sentence that is skipped has zeros.

        Raises
        ------
        DataError, LabelError, NoPathError
            As `decode`.
        OptionError
            What the tagger has no way to do: a chain rule has marginals of its first tape alone.
        """
        answer = self.decode(
            sentences, forced=forced, bias=bias, threads=threads, on_no_path=on_no_path
        )
        tables = [answer.marginals(tape) for tape in answer.tapes]
        return tables[0] if len(tables) == 1 else list(zip(*tables, strict=True))


# --- Taggers that score by lattices ---------------------------------------------------------------


class Composable(Tagger[LabelsT]):
    """What composes: ``a @ b``, and what a grammar constrains: ``a & grammar``.

    It scores sentences by lattices; everything else that is asked of it follows from these.
    """

    @property
    def ambiguous(self) -> bool:
        """Whether several paths may have the same labels; the best of them is the answer."""
        return False

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes of its lattices."""
        make = engine.Tape
        return tuple(make(t, labels, segments=False) for t, labels in self.label_sets.items())

    @abstractmethod
    def transducers(self, sentences: Data, known: Evidence | None) -> Sequence[Lattice]:
        """Return the lattice of each sentence, with what is known of its labels put in."""

    def encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind of its file, arrays and metadata: so it is a part of another file.

        Raises
        ------
        OptionError
            It has no file.
        """
        raise OptionError(f"{self!r} cannot be saved: there is no file format for it")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it, with all that it is made of, to one file, whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written.
        OptionError
            It has no file.
        """
        kind, arrays, metadata = self.encoded()
        write_arrays(path, arrays, metadata, kind=kind, version=VERSION)

    def spelling(self, tape: str) -> Spelling | None:  # noqa: ARG002
        """Return how segments of a tape are written as labels of tokens; None: it has none."""
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
        """Return one sentence's weighted transducer over all tapes, whole or some of its paths.

        ``normalize="chain"`` is no product of transducers: ask for the lattice of its n best
        labellings, or of samples.

        Parameters
        ----------
        sentence, forced, bias : as for `tag`
        n : int, optional
            The lattice of the n best labellings: what holds among these alone. Its log Z is the log
            of their mass.
        samples : int, optional
            The lattice of so many samples: every question is estimated from these.
            `Lattice.standard_error` says how far a probability may be off.
        seed : int
            Of the samples.
        budget : int or Budget, optional
            Of the search for the n best, as for `decode`.

        Raises
        ------
        OptionError
            Both `n` and `samples`, or a tagger of segments, whose lattice is whole; neither, under
            ``normalize="chain"``; samples of a chain with weights other than 1, a grammar, observed
            labels or biases.
        NoPathError
            No labelling is legal, where its n best are asked for.
        """
        each = None if forced is None else [forced]
        if (n is not None or samples is not None) and any(map(self.spelling, self.tapes)):
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
        asked = Request([sentence], forced=each, bias=bias)
        return self.transducers([sentence], asked.evidence(self.tapes))[0]

    def _of_paths(
        self, labels: Labels, scores: Sequence[float], samples: int | None = None
    ) -> AnyLattice:
        several = labels if len(self.tapes) > 1 else [(one,) for one in labels]
        row = constructors.joint_paths(several, scores, self.label_sets)
        return lattices.Lattice(row, samples=samples)

    def scored(self, sentence: SentenceLike, forced: Forced | None, bias: Bias | None) -> Scored:
        """Return what scores and samples labels of a sentence: its lattice."""
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
            A negative n or seed; of a chain as for `lattice`.
        """
        return self.scored(sentence, forced, bias).sample(n, seed=seed)

    def score(
        self,
        sentence: SentenceLike,
        labels: Labels,
        *,
        forced: Forced | None = None,
        bias: Bias | None = None,
    ) -> float:
        """Return the score of labels of all tapes; under the chain rule a log probability.

        Raises
        ------
        ShapeError
            Another number of tapes, or of labels than tokens.
        LabelError
            A label that a tape does not have.
        """
        return self.scored(sentence, forced, bias).score(labels)

    def probability(self, sentence: SentenceLike, labels: Labels) -> float:
        """Return the probability of labels of all tapes; raises as `score`.

        Under the chain rule it is that of the taggers, without weights and grammar.
        """
        return self.scored(sentence, None, None).probability(labels)

    def __matmul__(
        self, later: Composable | Transducer | pynini.Fst
    ) -> Composition[tuple[list[str], ...]]:
        """Return the composition with another tagger, or with a transducer.

        A tagger decides together with this one; see `fstcrf.compose`. But one whose only tape is
        written here, by a transducer, scores what is written. A transducer reads a tape and writes
        another one; see `fstcrf.Lattice.__matmul__`.
        """
        if not isinstance(later, Composable | transducers.Transducer) and not is_fst(later):
            return NotImplemented
        return composition.compose(self, later)


class Composition(Composable[LabelsT]):
    """Taggers that decide together; made by `fstcrf.compose`.

    Taggers of tokens are a `fstcrf.taggers.JointCRF`, others a product of their lattices.
    """

    if TYPE_CHECKING:
        taggers: tuple[Any, ...]  # each writes tapes of its own
        weights: tuple[float, ...]  # factors of their scores
        conjuncts: tuple[Acceptor, ...]  # the grammar
        normalize: Normalize

        # Abstract for nobody who checks types: `fstcrf.load(path, Composition)` names the class.
        @property
        def tapes(self) -> tuple[str, ...]: ...  # noqa: D102
        @property
        def label_sets(self) -> dict[str, tuple[str, ...]]: ...  # noqa: D102
        def decoded(self, asked: Request) -> Answer: ...  # noqa: D102
        def transducers(self, sentences: Data, known: Evidence | None) -> Sequence[Lattice]: ...  # noqa: D102
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
        """Name of the only tape.

        Raises
        ------
        OptionError
            There are several.
        """
        if len(self.tapes) > 1:
            raise OptionError(
                f"the tagger has several tapes: choose one of {', '.join(self.tapes)}"
            )
        return self.tapes[0]

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels; of several tapes, a tuple of them."""
        sets = tuple(self.label_sets.values())
        return sets if len(sets) > 1 else sets[0]

    @property
    def order(self) -> tuple[str, ...]:
        """The tapes as they are decided, where one is before another."""
        return self.tapes

    @property
    def conditional(self) -> bool:
        """Whether the tapes are normalised one by one, by the chain rule."""
        return False

    def facts(self) -> dict[str, display.Cell]:
        """Return how the taggers decide together, and under what."""
        rules = [acceptor.name for acceptor in self.conjuncts]
        return {
            "taggers": display.listed([repr(tagger) for tagger in self.taggers]),
            "decide by": self.normalize,
            "weights": display.listed([f"{weight:g}" for weight in self.weights]),
            "grammar": display.listed(rules) or None,
        }

    def plan(self) -> Plan:
        """Return what is run: the machine, and what it costs.

        Raises
        ------
        OptionError
            A tagger of segments is among them: lattices of arcs are written out.
        """
        raise OptionError(
            "this tagger has no plan, because its lattices are stored as arcs: "
            "lattice(sentence).plan() describes the lattice of one sentence"
        )

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return which features of which tagger pushed which label at a token, and by how much.

        Raises
        ------
        OptionError
            A tagger of segments is among them.
        """
        del sentence, token
        raise OptionError("explain() is for taggers of tokens, but one of these tags segments")

    def tune_weights(self, dev: Data, **options: Unpack[TuningOptions]) -> Self:
        """Return the composition with weights chosen on held-out data.

        Options as for `fstcrf.taggers.tune_weights`.

        Raises
        ------
        OptionError
            A tagger of segments is among them.
        """
        del dev, options
        raise OptionError(
            "tune_weights() is for taggers of tokens, but one of these tags segments: "
            "try weights with with_weights()"
        )

    def lattices(self, sentences: Data) -> Sequence[AnyLattice]:
        """Return the weighted transducer of each sentence, over all tapes.

        Raises
        ------
        OptionError
            ``normalize="chain"``, which is no transducer.
        """
        return self.transducers(sentences, None)

    def decide(
        self, sentences: Data, **options: Unpack[TagOptions]
    ) -> tuple[list[int], tuple[Column, ...], int]:
        """Return lengths, a column of labels for each tape, and how many answers are not proven.

        Options and errors as for `decode`.
        """
        answer = self._answer(sentences, scores=False, **options)
        columns = tuple(answer[tape].column() for tape in answer.tapes)
        return Ragged(answer.offsets).lengths.tolist(), columns, int((~answer.exact).sum())
