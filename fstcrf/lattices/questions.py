"""What is asked of a lattice beside its paths, once for all kinds: sums, labellings, spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from fstcrf.arguments import one_of
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.kernel import Budget
from fstcrf.lattices.engine import Labelling, Row, Segment
from fstcrf.lattices.pathquestions import ArrayT_co, PathQuestions
from fstcrf.lattices.paths import LabelsT_co, said_by_tapes, share
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
from fstcrf.machines.plans import warn_unproven

if TYPE_CHECKING:
    from fstcrf.text.corpus import Scheme

if TYPE_CHECKING:
    from fstcrf.lattices import gradients
else:  # few ask for them
    gradients = LazyModule("fstcrf.lattices.gradients")

Loss = Literal["token", "span"]


class Questions(PathQuestions[LabelsT_co, ArrayT_co]):
    """A weighted set of paths, and all that is asked of it."""

    # --- Sums ---------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf where there is none."""
        return float(self.engine.log_z[0])

    def entropy(self) -> float:
        """Return the entropy of the distribution over paths, in nats.

        Costs a row of joint states for each joint state and token.

        Raises
        ------
        NoPathError
            There is no path.
        """
        self.row.check_alive()
        return float(self.engine.entropies()[0])

    @overload
    def marginals(self, tape: None = None) -> ArrayT_co: ...
    @overload
    def marginals(self, tape: str) -> Floats: ...
    def marginals(self, tape: str | None = None) -> Any:
        """Return the probability of each label at each token, float64 [T, L].

        Parameters
        ----------
        tape : str, optional
            Of this tape; of all tapes a tuple when absent. Of those that a transducer writes,
            `expected`.

        Raises
        ------
        OptionError
            No such tape.
        NoPathError
            There is no path.
        """
        tapes = range(len(self.on)) if tape is None else [self.number(tape)]
        found = self.engine.time_aligned.marginals(tapes, self.sizes)
        self.row.check_alive()
        for k, number in enumerate(tapes):
            if self.on[number].output:
                found[k] = self.row.arcs().expected_output(number)
        return self._by_tape(found.__getitem__) if tape is None else found[0]

    def expected(self, tape: str) -> Floats:
        """Return how many of each label are expected at each place of a tape.

        Of a tape that a transducer writes, float64 [T + 1, L]: how often each label is written at
        each boundary, 0 to T; that may be more than 1. Of others, the `marginals`.

        Raises
        ------
        OptionError
            No such tape.
        NoPathError
            There is no path.
        """
        return self.marginals(tape)

    def _check_unwritten(self, question: str) -> None:
        name = next((tape.name for tape in self.on if tape.output), None)
        if name is not None:
            raise OptionError(
                f"{question} need labels of tokens, but a transducer writes tape {name!r} "
                f"between tokens: use expected({name!r}), or compose "
                "transducer.project('input'), which has the same scores and no output tape"
            )

    def max_marginals(self) -> ArrayT_co:
        """Return the score of the best path through each label, float64 [T, L]; −inf: none.

        Raises
        ------
        OptionError
            A tape that a transducer writes, whose labels are not those of tokens.
        """
        self._check_unwritten("max_marginals")
        found = self.engine.time_aligned.highest(range(len(self.on)), self.sizes, self.length)
        return cast("ArrayT_co", self._by_tape(found.__getitem__))

    def arc_marginals(self) -> ArrayT_co:
        """Return the probability of each succession of labels, float64 [T − 1, L, L].

        Entry (t, i, j): token t is under label i and token t + 1 under label j.

        Raises
        ------
        NoPathError
            There is no path.
        OptionError
            A tape that a transducer writes, whose labels are not those of tokens.
        """
        self._check_unwritten("arc_marginals")
        self.row.check_alive()
        found = self.engine.time_aligned.successions(range(len(self.on)), self.sizes)
        return cast("ArrayT_co", self._by_tape(lambda k: found[k][1:]))

    def expectations(self) -> SegmentCounts:
        """Return what is expected of the lattice: the gradient of log Z.

        Raises
        ------
        NoPathError
            There is no path.
        """
        return self.row.arcs().expectations()

    def gradient(self) -> dict[str, Floats]:
        """Return the derivatives of log Z in the scores that the lattice was made of.

        They are how often each score is expected to count. Those of a grammar are not among them,
        nor those of what scores the tape that a transducer writes.

        Returns
        -------
        dict of str to float64
            Of labels at tokens: ``"emission"`` [T, L]; ``"transition"`` [L, L], or [T − 1, L, L]
            where each token has its own; ``"initial"`` and ``"final"`` [L]. Of taggers these are
            the derivatives in scores of labels. Of frames ``"emission"`` alone. Of segments, arcs
            or paths: ``"arc"`` [E], as they were given; of segments ``"transition"``,
            ``"initial"`` and ``"final"``, too; of spans ``"outside"`` [T]. Where there are several
            tapes, the name of the tape is in front, ``"pos.emission"``; given arcs are those of the
            first. Of each transducer, by the name of the tape that it writes, [A + Q]: its A arcs,
            and at A + q that a path ends in its state q. An acceptor writes no tape: it is
            ``"acceptor k"``, k transducers having been composed before it.

        Raises
        ------
        NoPathError
            There is no path.
        AmbiguousError
            Of several runs of a tropical transducer over one string only the best one counts: its
            arcs are not those of the machine that is summed over.
        OptionError
            A transducer that was composed before lattices were put beside each other, where it is
            not known which arcs it takes.
        """
        return gradients.gradient(self.row)

    def arc_probabilities(self) -> Floats:
        """Return the probability of each arc that was given, float64 [E].

        Raises
        ------
        NoPathError
            There is no path.
        """
        return self.row.arcs().arc_probabilities()

    # --- One labelling ------------------------------------------------------------------------

    def score(self, said: Labelling) -> float:
        """Return the score of the best path that says this and nothing else; −inf: there is none.

        Parameters
        ----------
        said : sequence of str, or of (start, end, label), mapping of str to such, or Path
            Labels, of several tapes that have one for each token a sequence of such; segments of
            the first tape that has such, or labels of the first tape in their order. A path, or a
            mapping, gives the labels of tapes by name; tapes that it lacks may have any labels.

        Raises
        ------
        LabelError
            A label that the lattice does not have.
        ShapeError
            Another number of labels than tokens, or of tapes.
        OptionError
            A segment outside the text.
        """
        return float(self._saying(said).engine.best_scores[0])

    def probability(self, said: Labelling) -> float:
        """Return the probability of all paths that say this and nothing else; raises as `score`."""
        return share(float(self._saying(said).engine.log_z[0]), self.log_partition())

    def _saying(self, said: Labelling) -> Row:
        return self.row.clamped(said_by_tapes(said, self.tapes))

    def string_log_partition(
        self, labels: Sequence[str] | Mapping[str, Sequence[str]], *, tape: str | None = None
    ) -> float:
        """Return the log of the sum over all paths with these labels; −inf if there is no path.

        Parameters
        ----------
        labels : sequence of str, or mapping of tape to such
            The labels of one tape, or of several; the sum is over all labels of the other tapes.
        tape : str, optional
            The tape of a sequence; the first one when absent.

        Raises
        ------
        LabelError
            A label that the tape does not have, or that strings do not: the blank.
        OptionError
            No such tape; a tape beside a mapping.
        """
        if isinstance(labels, Mapping):
            if tape is not None or not labels:
                raise OptionError(
                    f"tape={tape!r} cannot be combined with a mapping of tape to labels: give "
                    "one of the two"
                )
            return self.row.labels_sum({self.number(name): row for name, row in labels.items()})
        return self.row.labels_sum({0 if tape is None else self.number(tape): labels})

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
        """Return the probability that exactly this segment is there.

        Parameters
        ----------
        start, end : int
            First token and the one behind the last.
        type : str
            ``"NP"``; the label of a tape of segments.
        tape : str, optional
            The tape, where there are several; the first of segments when absent.
        scheme : str or Scheme, optional
            How labels of tokens are read as spans, "conlleval" when absent; one that allows none is
            a GrammarError. Segments, and labels of arcs that write none, are read as they stand.

        Raises
        ------
        OptionError
            No such span in a sentence of this length, no label of this type, or no such tape; a
            scheme where nothing is read by one.
        LabelError
            A label that the segments do not have.
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
        """Return the probabilities of many segments at once; see `span_probability`."""
        return self.row.span_probabilities(spans, self._segment_tape(tape), scheme)

    def probable_spans(
        self,
        above: float = 0.01,
        *,
        tape: str | None = None,
        scheme: str | Scheme | None = None,
    ) -> ProbableSpans:
        """Return all spans, of all types, with a probability above a number, by their ends.

        One backward and one forward pass; at most 1 / `above` spans are open at a token.

        Parameters
        ----------
        above : float
            0 to 1; at 0 all spans that there may be, a number quadratic in the tokens.
        tape, scheme : str, optional
            As for `span_probability`.

        Raises
        ------
        OptionError
            Another number, no such tape or scheme.
        NoPathError
            There is no path.
        TooLargeError
            A grammar too large to multiply out, or too many spans for memory.
        """
        check_share(above)
        return self.row.probable_spans(above, self._segment_tape(tape), scheme)

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
            token: the legal labelling with the largest expected number of tokens under the right
            label, all tapes together. span: the set of spans of one tape that maximises
            2 E[right] / E[found + true], the ratio of expectations that F is; of segments, those of
            a path. When absent, span where there are segments.
        tape, scheme : str, optional
            As for `span_probability`; how spans are written, too.

        Returns
        -------
        MinimumRisk
            Its labels are as `Path.labels`; segments where there are such.

        Raises
        ------
        OptionError
            Another loss.
        NoPathError
            There is no path.
        """
        if loss is None:
            loss = "span" if self.segmented else "token"
        one_of("loss", loss, Loss)
        if loss == "span":
            return self.row.span_risk(self._segment_tape(tape), scheme)
        self.row.check_alive()
        tables = self.engine.time_aligned.marginals(range(len(self.on)), self.sizes)
        engine = self.row.reweight(tables)
        runs = engine.nbest(1)
        if not len(runs.score):
            raise self.row.no_path(runs)
        warn_unproven(int(runs.proven is not None and not runs.proven[0]), 1)
        most = self.length * sum(not tape.output for tape in self.on)
        expected = float(runs.score[0]) / most if most else 1.0
        return MinimumRisk(self._labels_along(engine, runs.elements), expected)

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
        """Return how sure the best legal path is, and how much of the model is legal at all.

        Parameters
        ----------
        method : {"auto", "exact", "n-best", "sampling"}
            exact: by sums over the expanded product. n-best: bounds from the n best paths with and
            without the grammar. sampling: from labellings drawn from the model without the
            grammar. auto: exact where the product is small, else from the n best paths, and from
            samples where those leave more than 0.02 open.
        n : int
            Best paths to look at.
        samples : int
            Labellings to draw.
        level : float
            Probability that sampled bounds hold.
        seed : int
        budget : Budget, optional
            When to give up searching.

        Raises
        ------
        NoPathError
            No label sequence is legal, or none was found.
        OptionError
            Another method, or numbers outside what they may be; n-best or sampling of arcs, which
            are written out and so summed.
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
        legal, free = row.without_scores().engine.log_z[0], row.without_grammar().engine.log_z[0]
        parts = share(path.score, self.log_partition()), share(float(legal), float(free))
        own, mass = (Interval(part, part) for part in parts)
        return Confidence(path, own, mass, "exact", 1.0)
