"""All questions to a lattice: paths, sums, marginals, spans, labellings, confidence.

`Questions` is the part of `fstcrf.lattices.lattice.Lattice` that answers. It asks the row of the
lattice, or the engine of the row, and puts the answers into the form that a caller gets. The same
code serves lattices of all kinds. `Lattice` adds the constructors and the changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import one_of, real_array, whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.kernel import Budget
from fstcrf.lattices.engine import Labelling, Segment, Tape
from fstcrf.lattices.paths import LabelsT_co, Path, labels_by_tape, share, shown_tapes
from fstcrf.lattices.results import (
    Confidence,
    Interval,
    Method,
    MinimumRisk,
    ProbableSpans,
    SegmentCounts,
    check_share,
)
from fstcrf.lazy import LazyModule
from fstcrf.machines.plans import Search, warn_unproven

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from fstcrf.lattices import gradients
    from fstcrf.lattices.engine import Row
    from fstcrf.text.corpus import Scheme

    ArrayT_co = TypeVar("ArrayT_co", default=Any, covariant=True)
else:  # only type checkers read the default of a type variable
    from typing import TypeVar

    gradients = LazyModule("fstcrf.lattices.gradients")
    ArrayT_co = TypeVar("ArrayT_co", covariant=True)

Loss = Literal["token", "span"]


class Questions(Generic[LabelsT_co, ArrayT_co]):
    """A lattice that can be asked.

    A lattice of one tape answers with one array, or one tuple of labels. A lattice of several tapes
    answers with a tuple that has one entry for each tape.
    """

    def __init__(self, row: Row, samples: int | None = None) -> None:
        self.row, self.samples = row, samples

    def _with_row(self, row: Row) -> Self:
        """Return the lattice of another row."""
        return type(self)(row)

    def __len__(self) -> int:
        """Tokens of each path; raises ShapeError if paths differ in length."""
        return len(self.row)

    @property
    def length(self) -> int:
        """Tokens of the text; without a text, of the longest path."""
        return self.row.length

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the shortest and of the longest path; zeros without a path."""
        covers_text, length = self.row.covers_text, self.row.length
        return (length, length) if covers_text else self.row.arcs().lengths

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes."""
        return self.row.on

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return tuple([tape.name for tape in self.on])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of labels of each tape."""
        return tuple([len(tape.labels) for tape in self.on])

    @property
    def labels(self) -> LabelsT_co:
        """The labels, in the order of the label axis of `marginals` and of masks."""
        return cast("LabelsT_co", self._by_tape([tape.labels for tape in self.on]))

    @property
    def segmented(self) -> bool:
        """Whether a tape has segments. Paths then have the positions of the segments."""
        return self.row.segmented

    def _by_tape(self, answers: Sequence[Any]) -> Any:
        """Return the answer for the only tape, or a tuple of the answers for several tapes."""
        return tuple(answers) if len(answers) > 1 else answers[0]

    def number(self, tape: str) -> int:
        """Return the number of a tape; OptionError if there is no such tape."""
        if tape not in self.tapes:
            raise OptionError(f"no tape {tape!r}: the tapes are {', '.join(self.tapes)}")
        return self.tapes.index(tape)

    def _spanned(self, tape: str | None) -> str:
        """Return a tape; if absent, the first tape with segments, or the only tape."""
        segmented = next((one.name for one in self.on if one.segments), None)
        return segmented if tape is None and segmented else self.tapes[self._chosen(tape)]

    def _chosen(self, tape: str | None) -> int:
        """Return the number of a tape; if absent, of the only tape."""
        if tape is not None:
            return self.number(tape)
        if len(self.on) > 1:
            several = ", ".join(self.tapes)
            raise OptionError(f"the lattice has several tapes: choose one of {several}")
        return 0

    def _labels_on(self, labels: Any, tape: str) -> tuple[str, ...]:
        """Return the labels of one tape from `Path.labels`."""
        row: tuple[str, ...] = labels if len(self.on) == 1 else labels[self.number(tape)]
        return row

    # --- Paths --------------------------------------------------------------------------------

    def best(
        self, budget: Budget | None = None, *, search: Search | None = None
    ) -> Path[LabelsT_co]:
        """Return the best path.

        Ties are decided at the earliest token where the paths differ: the smaller label index wins.
        In lattices of arcs, the path that ends there wins, then the smaller label, then the shorter
        segment.

        Parameters
        ----------
        budget : Budget, optional
            Limit of a lazy search under a grammar. If it is reached, the path is the best one
            found: ``exact`` is False, no other path scores more than ``bound``, and an
            `InexactWarning` is given. If absent, the budget of `constrained`.
        search : {"auto", "lazy", "expanded"}, optional
            Method of the search. If absent, the method of `constrained`.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden, with the first token at which all have died; or the
            search found no path within the budget.
        OptionError
            A budget or a search for a lattice that is stored as arcs.
        """
        engine, paths = self.row.searched(1, budget, search)
        if not len(paths.score):
            raise self.row.no_path(paths)
        (path,) = self.row.paths(engine, paths, lambda: self.row.log_partition(engine))
        warn_unproven(int(not path.exact), 1)
        return path

    @overload
    def nbest(
        self,
        n: int,
        budget: Budget | None = None,
        *,
        search: Search | None = None,
        tapes: None = None,
    ) -> list[Path[LabelsT_co]]: ...
    @overload
    def nbest(
        self,
        n: int,
        budget: Budget | None = None,
        *,
        search: Search | None = None,
        tapes: Sequence[str],
    ) -> list[Path]: ...
    def nbest(
        self,
        n: int,
        budget: Budget | None = None,
        *,
        search: Search | None = None,
        tapes: Sequence[str] | None = None,
    ) -> list[Path[LabelsT_co]] | list[Path]:
        """Return the n best paths, best first, or all paths if there are fewer.

        Parameters
        ----------
        n : int
        budget, search
            As for `best`.
        tapes : sequence of str, optional
            Return the n best labellings of these tapes. Each has the score and the probability of
            its best path. `string_probability` sums over all paths of a labelling, and `strings`
            ranks the labels of a tape by that sum.

        Raises
        ------
        OptionError
            `n` is below 1, or there is no such tape; other errors as for `best`.
        """
        shown = None if tapes is None else shown_tapes(self.tapes, tapes)
        n = whole_number(n, "n", least=1, narrow=True)
        if shown is not None:
            return self.row.labellings(n, shown, budget, search)
        return self.row.nbest(n, budget, search)

    def strings(
        self, tape: str | None = None, n: int = 1, *, budget: int | None = None
    ) -> list[Path[tuple[str, ...]]]:
        """Return the n most probable label sequences, each by the sum over all its paths.

        The search is best-first over prefixes. No sequence that begins with a prefix scores more
        than the bound of the prefix.

        Parameters
        ----------
        tape : str, optional
            The tape; by default, the only one.
        n : int
        budget : int, optional
            Number of prefixes to expand; by default as many as take about a second, up to 10,000.
            If it is reached, sequences are not proven to be the best: ``exact`` is False, and no
            other sequence scores more than ``bound``.

        Returns
        -------
        list of Path
            Best first. ``score`` is the log of the sum over the paths with these labels.

        Raises
        ------
        OptionError
            `n` or `budget` is below 1; there is no such tape, or none of several was chosen.
        """
        number = self._chosen(tape)
        n = whole_number(n, "n", least=1)
        budget = None if budget is None else whole_number(budget, "budget", least=1)
        log_z = float(self.row.engine.log_z[0])
        return self.row.strings(number, n, budget, log_z) if log_z > -np.inf else []

    def sample(self, n: int, *, seed: int = 0) -> list[LabelsT_co]:
        """Return n independent exact samples: labels, or `Path` objects if there are segments.

        Raises
        ------
        OptionError
            `n` or `seed` is negative.
        NoPathError
            There is no path.
        """
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        self.row.check_alive()
        paths = self.row.engine.sample(n, [np.random.default_rng(seed)])
        return cast("list[LabelsT_co]", self.row.samples(self.row.engine, paths))

    def standard_error(self, probability: ArrayLike) -> Floats:
        """Return the standard error √(p (1 − p) / n) of probabilities of a sampled lattice.

        Parameters
        ----------
        probability : float or array of float
            Answers of the lattice.

        Raises
        ------
        OptionError
            The lattice is not made of samples, or was changed since, so that the number of samples
            is unknown; or a number is not a probability.
        """
        if self.samples is None:
            raise OptionError(
                "this lattice has no standard errors, its answers are exact: only sampled "
                "lattices have them, tagger.lattice(sentence, samples=1000)"
            )
        p = real_array(probability, "probability")
        if not ((p >= 0) & (p <= 1)).all():
            raise OptionError("probability has numbers outside [0, 1]")
        return np.sqrt(p * (1 - p) / self.samples)

    # --- Sums ---------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf without a path."""
        return float(self.row.engine.log_z[0])

    def entropy(self) -> float:
        """Return the entropy of the distribution over paths, in nats; NoPathError without a path.

        It needs memory for each joint state of each token.
        """
        self.row.check_alive()
        return float(self.row.engine.entropies()[0])

    @overload
    def marginals(self, tape: None = None) -> ArrayT_co: ...
    @overload
    def marginals(self, tape: str) -> Floats: ...
    def marginals(self, tape: str | None = None) -> Any:
        """Return the probability of each label at each token, float64 [T, L].

        Parameters
        ----------
        tape : str, optional
            One tape; all tapes if absent. For a tape that a transducer writes, the result is
            `expected`.

        Raises
        ------
        OptionError
            There is no such tape.
        NoPathError
            There is no path.
        """
        numbers = range(len(self.on)) if tape is None else [self.number(tape)]
        tables = self.row.engine.time_aligned.marginals(numbers)
        self.row.check_alive()
        for k, number in enumerate(numbers):
            if self.on[number].output:
                tables[k] = self.row.arcs().expected_output(number)
        return self._by_tape(tables)

    def expected(self, tape: str) -> Floats:
        """Return the expected number of each label at each position of a tape.

        For a tape that a transducer writes, the result is float64 [T + 1, L]: the expected number
        of times that each label is written at each boundary, 0 to T. It can be more than 1. For
        other tapes, the result is `marginals`. Errors as for `marginals`.
        """
        return self.marginals(tape)

    def _check_no_output(self, question: str) -> None:
        name = next((tape.name for tape in self.on if tape.output), None)
        if name is not None:
            raise OptionError(
                f"{question} need labels of tokens, but a transducer writes tape {name!r} "
                f"between tokens: use expected({name!r}), or compose "
                "transducer.project('input'), which has the same scores and no output tape"
            )

    def max_marginals(self) -> ArrayT_co:
        """Return the score of the best path with each label at each token, float64 [T, L].

        The score is −inf if no path has the label there.

        Raises
        ------
        OptionError
            A transducer writes one of the tapes, so its labels are not labels of tokens.
        """
        self._check_no_output("max_marginals")
        tables = self.row.engine.time_aligned.highest(range(len(self.on)))
        if len(tables[0]) < self.length:  # no path reaches the last tokens
            tables = [np.full((self.length, size), -np.inf) for size in self.sizes]
        return cast("ArrayT_co", self._by_tape(tables))

    def arc_marginals(self) -> ArrayT_co:
        """Return the probability of each pair of neighbouring labels, float64 [T − 1, L, L].

        Entry (t, i, j): token t is under label i and token t + 1 under label j.

        Raises
        ------
        NoPathError
            There is no path.
        OptionError
            A transducer writes one of the tapes, so its labels are not labels of tokens.
        """
        self._check_no_output("arc_marginals")
        self.row.check_alive()
        tables = self.row.engine.time_aligned.successions(range(len(self.on)))
        return cast("ArrayT_co", self._by_tape([table[1:] for table in tables]))

    def expectations(self) -> SegmentCounts:
        """Return the gradient of log Z: expected numbers of arcs, transitions, beginnings and ends.

        Raises NoPathError without a path.
        """
        return self.row.arcs().expectations()

    def gradient(self) -> dict[str, Floats]:
        """Return the derivatives of log Z with respect to the input scores of the lattice.

        Each derivative is the expected number of times that the score counts. The result has no
        scores of a grammar, and no scores of a lattice for the output of a transducer.

        Returns
        -------
        dict of str to float64
            - Labels at tokens: ``"emission"`` [T, L]; ``"transition"`` [L, L], or [T − 1, L, L] if
              each token has its own; ``"initial"`` and ``"final"`` [L]. For lattices of taggers
              these are derivatives with respect to scores of labels. CTC frames have only
              ``"emission"``.
            - Segments, arcs or paths: ``"arc"`` [E], in the order of the input. Segments also have
              ``"transition"``, ``"initial"`` and ``"final"``, and spans have ``"outside"`` [T].
            - With several tapes, names begin with the tape: ``"pos.emission"``. Input arcs belong
              to the first tape.
            - Each transducer, by the name of the tape that it writes: [A + Q], its A arcs, and at
              A + q the paths that end in its state q. An acceptor writes no tape: its name is
              ``"acceptor k"`` if k transducers were composed before it.

        Raises
        ------
        NoPathError
            There is no path.
        AmbiguousError
            A tropical transducer has several runs over one string, of which only the best counts:
            the machine of the sum has other arcs.
        OptionError
            A transducer was composed before lattices were composed, so its arcs are not known.
        """
        return gradients.gradient(self.row)

    def arc_probabilities(self) -> Floats:
        """Return the probability of each input arc, float64 [E]; NoPathError without a path."""
        return self.row.arcs().arc_probabilities()

    # --- One labelling ------------------------------------------------------------------------

    def score(self, labels: Labelling) -> float:
        """Return the score of the best path with exactly these labels, or −inf.

        Parameters
        ----------
        labels : sequence of str or of (start, end, label), mapping of str to such, or Path
            Labels; for several tapes with a label for each token, a sequence of such sequences.
            Or segments of the first tape that has segments, or the labels of the first tape in
            their order. A mapping, or a path, has the labels of tapes by name; tapes that it lacks
            can have any labels.

        Raises
        ------
        LabelError
            The lattice does not have a label.
        ShapeError
            The number of labels is not the number of tokens, or of tapes.
        OptionError
            A segment is outside the text.
        """
        return float(self._clamped(labels).engine.best_scores[0])

    def probability(self, labels: Labelling) -> float:
        """Return the probability of all paths with exactly these labels; raises as `score`."""
        return share(float(self._clamped(labels).engine.log_z[0]), self.log_partition())

    def _clamped(self, labels: Labelling) -> Row:
        return self.row.clamped(labels_by_tape(labels, self.tapes))

    def string_log_partition(
        self, labels: Sequence[str] | Mapping[str, Sequence[str]], *, tape: str | None = None
    ) -> float:
        """Return the log of the sum over all paths with these labels; −inf if there is no path.

        Parameters
        ----------
        labels : sequence of str, or mapping of tape to such
            The labels of one tape, or of several. The sum is over all labels of the other tapes.
        tape : str, optional
            The tape of a sequence; by default, the only one.

        Raises
        ------
        LabelError
            The tape does not have a label, or a label is the blank.
        OptionError
            There is no such tape; none of several was chosen; a tape and a mapping were given.
        """
        if isinstance(labels, Mapping):
            if tape is not None or not labels:
                raise OptionError(
                    f"tape={tape!r} cannot be combined with a mapping of tape to labels: give "
                    "one of the two"
                )
            return self.row.labels_sum({self.number(name): row for name, row in labels.items()})
        return self.row.labels_sum({self._chosen(tape): labels})

    def string_probability(
        self, labels: Sequence[str] | Mapping[str, Sequence[str]], *, tape: str | None = None
    ) -> float:
        """Return the probability of labels, summed over all paths that have them.

        Parameters and errors as for `string_log_partition`.
        """
        return share(self.string_log_partition(labels, tape=tape), self.log_partition())

    # --- Spans --------------------------------------------------------------------------------

    def span_probability(
        self,
        start: int,
        end: int,
        type: str,  # noqa: A002
        *,
        tape: str | None = None,
        scheme: str | Scheme | None = None,
    ) -> float:
        """Return the probability that the lattice has exactly this segment.

        Parameters
        ----------
        start, end : int
            First token of the segment, and the token after its last.
        type : str
            ``"NP"``; for a tape of segments, the label.
        tape : str, optional
            The tape; if absent, the first tape with segments, or the only tape.
        scheme : str or Scheme, optional
            Scheme that reads labels of tokens as spans, "conlleval" if absent; GrammarError if it
            allows no span. Segments, and labels of arcs without prefixes, need no scheme.

        Raises
        ------
        OptionError
            The sentence has no such span, no label has this type, there is no such tape, or a
            scheme is not needed.
        LabelError
            The segments do not have this label.
        NoPathError
            There is no path.
        """
        return float(self.span_probabilities([(start, end, type)], tape=tape, scheme=scheme)[0])

    def span_probabilities(
        self,
        spans: Sequence[Segment],
        *,
        tape: str | None = None,
        scheme: str | Scheme | None = None,
    ) -> Floats:
        """Return the probability of each of several segments; see `span_probability`."""
        return self.row.span_probabilities(spans, self.number(self._spanned(tape)), scheme)

    def probable_spans(
        self,
        above: float = 0.01,
        *,
        tape: str | None = None,
        scheme: str | Scheme | None = None,
    ) -> ProbableSpans:
        """Return all spans, of all types, with a probability above a threshold, by their ends.

        One backward and one forward pass; at most 1 / `above` spans are open at a token.

        Parameters
        ----------
        above : float
            Threshold, 0 to 1. At 0 the result has all possible spans, a number quadratic in the
            tokens.
        tape, scheme : str, optional
            As for `span_probability`.

        Raises
        ------
        OptionError
            The threshold is outside [0, 1], or there is no such tape or scheme.
        NoPathError
            There is no path.
        TooLargeError
            The grammar is too large to multiply out, or memory cannot hold the spans.
        """
        check_share(above)
        return self.row.probable_spans(above, self.number(self._spanned(tape)), scheme)

    @overload
    def minimum_risk(
        self,
        loss: Literal["token"] | None = None,
        *,
        tape: str | None = None,
        scheme: str | Scheme | None = None,
    ) -> MinimumRisk[LabelsT_co]: ...
    @overload
    def minimum_risk(
        self,
        loss: Literal["span"],
        *,
        tape: str | None = None,
        scheme: str | Scheme | None = None,
    ) -> MinimumRisk[tuple[str, ...]]: ...
    def minimum_risk(
        self,
        loss: Loss | None = None,
        *,
        tape: str | None = None,
        scheme: str | Scheme | None = None,
    ) -> MinimumRisk[Any]:
        """Return the labels with the least expected loss rather than the largest probability.

        Parameters
        ----------
        loss : {"token", "span"}, optional
            token: the legal labelling with the largest expected number of correct labels, on all
            tapes together. span: the set of spans of one tape that maximises
            2 E[correct] / E[found + true], the ratio of expectations in F; for segments, among the
            spans of a path. If absent, span if there are segments, otherwise token.
        tape, scheme : str, optional
            As for `span_probability`. The scheme also writes the spans.

        Returns
        -------
        MinimumRisk
            Its labels are as `Path.labels`, or segments if there are any.

        Raises
        ------
        OptionError
            The loss is another word.
        NoPathError
            There is no path.
        """
        if loss is None:
            loss = "span" if self.segmented else "token"
        one_of("loss", loss, Loss)
        if loss == "span":
            return self.row.span_risk(self.number(self._spanned(tape)), scheme)
        self.row.check_alive()
        engine = self.row.reweight(self.row.engine.time_aligned.marginals(range(len(self.on))))
        paths = engine.nbest(1)
        if not len(paths.score):
            raise self.row.no_path(paths)
        warn_unproven(int(paths.proven is not None and not paths.proven[0]), 1)
        most = self.length * sum(not tape.output for tape in self.on)
        expected = float(paths.score[0]) / most if most else 1.0
        return MinimumRisk(self.row.labels_of(engine, paths.elements), expected)

    def confidence(
        self,
        *,
        method: Method = "auto",
        n: int = 100,
        samples: int = 1000,
        level: float = 0.95,
        seed: int = 0,
        budget: Budget | None = None,
    ) -> Confidence:
        """Return the probability of the best legal path, and the legal mass of the model.

        Parameters
        ----------
        method : {"auto", "exact", "n-best", "sampling"}
            exact: by sums over the expanded product. n-best: bounds from the n best paths with and
            without the grammar. sampling: from labellings drawn from the model without the
            grammar. auto: exact if the product is small, otherwise n-best, and sampling as well if
            the bounds are more than 0.02 apart.
        n : int
            Number of best paths.
        samples : int
            Number of labellings to draw.
        level : float
            Probability that sampled bounds hold.
        seed : int
        budget : Budget, optional
            Limit of the search.

        Raises
        ------
        NoPathError
            No label sequence is legal, or the search found no legal one.
        OptionError
            The method is another word, or a number is outside its range; or n-best or sampling for
            a lattice of arcs, which has exact sums.
        TooLargeError
            ``method="exact"`` and a grammar too large to multiply out.
        """
        one_of("method", method, Method)
        if n < 1 or samples < 1 or not 0 < level < 1:
            raise OptionError(
                f"n={n}, samples={samples}, level={level}: expected counts from 1 and a level "
                "between 0 and 1"
            )
        row = self.row
        if not (method == "exact" or (method == "auto" and (row.summable or not row.length))):
            return row.bounded_confidence(method, n, samples, level, seed, budget)
        path = self.best(budget)
        legal, total = row.without_scores().engine.log_z[0], row.without_grammar().engine.log_z[0]
        parts = share(path.score, self.log_partition()), share(float(legal), float(total))
        probability, mass = (Interval(part, part) for part in parts)
        return Confidence(path, probability, mass, "exact", 1.0)
