"""Batches of scores under labels, transitions and a grammar: what can be asked of them.

Sentences without a path are no error: ids are −1, scores and log Z −inf, probabilities 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf import kernel
from fstcrf.arguments import LabelSet, whole_number
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import LabelError, NumericError, OptionError, ShapeError
from fstcrf.kernel import Bound, Budget, EmissionRows
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.denserow import DenseRow
from fstcrf.lattices.emissions.reading import (
    LabelNames,
    Scores,
    ScoresLike,
    host_integers,
    read_scores,
    usual_names,
)
from fstcrf.lattices.emissions.structure import ChainScores, LegalStates, structure
from fstcrf.lattices.findings import Confidence, MinimumRisk, ProbableSpans
from fstcrf.lattices.lattice import Lattice, TapeLattice
from fstcrf.lattices.paths import Path
from fstcrf.lattices.spans import (
    known_probabilities,
    probable_spans,
    span_probabilities,
    span_reading,
)
from fstcrf.lattices.tapes import array_lattice, constrained
from fstcrf.lazy import given_state, made_once
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import Program, warn_unproven
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Scheme, Span, named_scheme
from fstcrf.text.corpus.schemes import SpanArrays

Tags = ArrayLike | Sequence[Sequence[str]]
"""int [B, T], of a list of sentences also a list of int [T_i]; or a list of lists of str."""


def decode(
    scores: ScoresLike,
    lengths: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    labels: LabelSet,
    transitions: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    final: ArrayLike | None = None,
    grammar: Grammar | None = None,
    n: int = 1,
    names: LabelNames | None = None,
    threads: int = 1,
    budget: Budget | None = None,
) -> Answer:
    """Return the best labels of a batch of sentences, of scores from anywhere.

    ``Emissions(scores, lengths, labels=..., ...)`` takes the same and answers whatever else can be
    asked.

    Parameters
    ----------
    scores, lengths, mask, labels, transitions, initial, final, grammar, names, threads
        As for `Emissions`.
    n : int
        So many paths of each sentence, best first.
    budget : Budget, optional
        When to give up, where a grammar is searched lazily.

    Returns
    -------
    Answer
        ``ids`` int32 [B, T], of n > 1 [B, n, T], −1 beyond a sentence's end; ``scores`` float64 [B]
        or [B, n], of float32 scores, too; ``labels()`` lists of str; ``probabilities`` when asked.
        ``dead`` says which sentences have no path: ids −1, score −inf.

    Raises
    ------
    ShapeError, NumericError, OptionError, GrammarError
        As `Emissions`; n below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fstcrf.constraints import bio
    >>> scores = np.array([[[1.0, 0.0, 3.0], [0.0, 0.0, 2.0]]], dtype=np.float32)
    >>> decode(scores, labels=["O", "B-X", "I-X"], grammar=bio()).labels()
    [['B-X', 'I-X']]
    """
    batch = Emissions(
        *(scores, lengths),
        mask=mask,
        labels=labels,
        transitions=transitions,
        initial=initial,
        final=final,
        grammar=grammar,
        names=names,
        threads=threads,
    )
    return batch.decode(n, budget=budget)


class Emissions:
    """A batch of sentences: scores of every label at every token, transitions, a grammar.

    Parameters
    ----------
    scores : [B, T, L], or sequence of B [T_i, L]
        Natural-log scores, −inf forbids: NumPy's, torch's or JAX's arrays on the CPU, whatever has
        ``__array__`` or ``__dlpack__``. float32 and float64 are read where they lie; tensors that
        require gradients by their values; half precision becomes float32.
    lengths : int [B], optional
        Tokens of each sentence of a padded array; all T when absent. What lies beyond is not read.
    mask : bool [B, T], optional
        Instead of `lengths`, true at each sentence's tokens, which come first.
    labels : sequence of L str, or mapping of int to str
        In their order; of a mapping such as ``id2label`` that of its keys 0 to L − 1.
    transitions : [L, L], optional
        Score of each succession, from row to column; zero when absent.
    initial, final : [L], optional
        Scores of the first and last label; zero when absent.
    grammar : Grammar, optional
        What labellings are legal, compiled once for these labels.
    names : str, mapping of str to str, or callable, optional
        Where the labels are not called ``B-PER``: how they write that (``"B_PER"``, ``"PER-B"``),
        or the usual name of each, or a function that returns it. Answers, grammar and spans have
        the usual names.
    threads : int
        No answer depends on it.

    Raises
    ------
    ShapeError
        Shapes that disagree, a mask with holes, lengths beyond T.
    NumericError
        NaN or +inf, with sentence, token and label.
    OptionError
        Labels twice or with gaps; a tensor that is not on the CPU; threads below 1.
    GrammarError
        A grammar of other labels.
    """

    def __init__(
        self,
        scores: ScoresLike,
        lengths: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        labels: LabelSet,
        transitions: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        final: ArrayLike | None = None,
        grammar: Grammar | None = None,
        names: LabelNames | None = None,
        threads: int = 1,
    ) -> None:
        whole_number(threads, "threads", least=1)
        if grammar is not None and not isinstance(grammar, Grammar):
            raise OptionError(
                f"grammar is {type(grammar).__name__}, expected a Grammar, such as "
                "fstcrf.constraints.bioes()"
            )
        self.labels, self.threads = usual_names(labels, names), threads
        self.scores = read_scores(scores, lengths, mask=mask, n_labels=len(self.labels))
        self.chain = ChainScores.of(len(self.labels), transitions, initial, final)
        self.grammar, self._written_out = grammar, True
        _ = self._structure  # what does not go together is said at once

    @classmethod
    def of(
        cls,
        scores: Scores,
        labels: tuple[str, ...],
        chain: ChainScores,
        grammar: Grammar | None,
        *,
        threads: int = 1,
        written_out: bool = True,
    ) -> Emissions:
        """Return the batch of what has been read and checked.

        `written_out` says whether arcs are written out, if they are few enough: then float32 scores
        are computed in float32. Else all is done in float64 by the machine of a lattice.
        """
        new = cls.__new__(cls)
        new.scores, new.labels, new.chain, new.grammar = scores, labels, chain, grammar
        new.threads, new._written_out = threads, written_out  # noqa: SLF001
        return new

    __getstate__ = given_state

    def __len__(self) -> int:
        """Sentences."""
        return len(self.scores)

    def __repr__(self) -> str:
        tokens, labels = int(self.scores.offsets[-1]), len(self.labels)
        return f"<Emissions: {len(self)} sentences, {tokens:,} tokens, {labels} labels>"

    @property
    def lengths(self) -> Longs:
        """Tokens of each sentence, int64 [B]."""
        return self.scores.lengths

    @made_once
    def _structure(self) -> LegalStates | None:
        return structure(self.labels, self.grammar) if self._written_out else None

    @made_once
    def program(self) -> Program:
        """The batch's composition, as lattices have it."""
        none, chain = np.empty((0, len(self.labels))), self.chain
        ends = (chain.transitions, chain.initial, chain.final)
        program, _ = array_lattice(self.labels, none, *ends, "label")
        return program if self.grammar is None else constrained(program, self.grammar.constraints)

    @made_once
    def rows(self) -> EmissionRows | None:
        """The batch as the kernel reads arrays; None where there are too many states for that."""
        if self._structure is None:
            return None
        chain = self._structure.emitter(self.chain)
        scores = self.scores
        return EmissionRows(chain, scores.rows, scores.lengths, scores.width, self.threads)

    @made_once
    def lattices(self) -> list[TapeLattice]:
        """The lattice of each sentence."""
        self.scores.check_numbers(self.labels)
        rows = Ragged(self.scores.offsets).split(self.scores.flat)
        return [cast("type[TapeLattice]", Lattice)(DenseRow(self.program, (own,))) for own in rows]

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say of scores that are no numbers where they are."""
        try:
            yield
        except NumericError:
            self.scores.check_numbers(self.labels)
            raise

    # --- Best labels --------------------------------------------------------------------------

    def decode(self, n: int = 1, *, budget: Budget | None = None) -> Answer:
        """Return the n best paths of each sentence; see `fstcrf.decode`."""
        n = whole_number(n, "n", least=1, narrow=True)
        if n == 1 and self.rows is not None:
            with self._named():
                path, best = self.rows.best()
            return self._answer(path[None], best[:, None])
        return self._searched_paths(n, budget)

    def _searched_paths(self, n: int, budget: Budget | None) -> Answer:
        """Return the n best paths over the machine of a lattice, or searched lazily."""
        searched = self.program.decoder.paths(self._searched, n, budget)
        score = np.full((len(self), n), -np.inf)
        path = np.full((n, int(self.scores.offsets[-1])), -1, dtype=np.int32)
        kept = searched.score.shape[1]
        score[:, :kept] = searched.score
        path[:kept] = np.where(searched.path < 0, -1, self._state_label[searched.path])
        exact = np.arange(n) < searched.proven[:, None]
        exact |= np.isneginf(searched.bound)[:, None]
        bounds = np.where(exact, score, np.maximum(searched.bound[:, None], score))
        warn_unproven(int(searched.unproven(n).sum()), len(self))
        return self._answer(path, score, exact, bounds)

    def _answer(
        self,
        path: Ints,
        score: Floats,
        exact: Bools | None = None,
        bounds: Floats | None = None,
    ) -> Answer:
        """Return the answer of paths, int32 [n, N], with scores [B, n]."""
        return EmissionAnswer(
            {"label": path},
            {"label": self.labels},
            self.scores.offsets,
            scores=score,
            exact=exact,
            bounds=bounds,
            log_z=self._usual_log_z,
            posterior=lambda: _Posterior(self),
            width=self.scores.width,
        )

    def minimum_risk(
        self, loss: Literal["token", "span"] = "token", *, scheme: str | Scheme = "conlleval"
    ) -> list[MinimumRisk | None]:
        """Return the labels of each sentence with the least expected loss; None: it has no path.

        Parameters and errors as for `Lattice.minimum_risk`.
        """
        return [
            None if dead else lattice.minimum_risk(loss, scheme=scheme)
            for lattice, dead in zip(self.lattices, self.dead.tolist(), strict=True)
        ]

    # --- Sums -------------------------------------------------------------------------------

    @made_once
    def log_z(self) -> Floats:
        """Log of the sum over all paths of each sentence, float64 [B]; −inf: there is none."""
        if self.rows is None:
            return kernel.log_partitions(self._bound)
        with self._named():
            sums = self.rows.sums()
        if sums.left.any():
            sums.log_z[sums.left] = self.select(sums.left).log_z
        return sums.log_z

    def select(self, which: Bools) -> Emissions:
        """Return some of the sentences, in float64 throughout, as the kernel runs lattices."""
        scores = self.scores.select(which)
        return Emissions.of(scores, self.labels, self.chain, self.grammar, written_out=False)

    @made_once
    def dead(self) -> Bools:
        """Sentences without a path, bool [B]."""
        return np.isneginf(self.log_z)

    def log_partition(self) -> Floats:
        """Return log Z of each sentence, float64 [B]; −inf where there is no path."""
        return self.log_z.copy()

    def marginals(self) -> Floats:
        """Return the probability of each label at each token, float64 [B, T, L].

        0 beyond a sentence's end, and throughout one without a path.
        """
        if self.rows is None:
            return self.scores.padded(self._label_sums(self._posteriors.node[0]))
        with self._named():
            sums = self.rows.sums(posteriors=True)
        posterior: Floats = sums.node.astype(np.float64, copy=False)
        if sums.left.any():
            rest = self.select(sums.left)
            posterior[sums.left, : rest.scores.width] = rest.marginals()
        return posterior

    def max_marginals(self) -> Floats:
        """Return the score of the best path through each label, float64 [B, T, L]; −inf: none."""
        (states,) = kernel.axis_max_marginals(self._bound)
        best = self.program.chain["label"].topology.label_max(states)
        return self.scores.padded(best, -np.inf)

    def entropy(self) -> Floats:
        """Return the entropy of each sentence's distribution over paths, in nats, float64 [B].

        0 for a sentence without a path. Costs a row of states for each state and token.
        """
        entropy = kernel.axis_posterior(self._bound, entropy=True).entropy
        assert entropy is not None  # noqa: S101 (it was to be computed)
        return np.where(self.dead, 0.0, entropy)

    def sample(self, n: int, *, seed: int = 0) -> Ints:
        """Return n independent samples from each sentence's distribution over paths.

        Parameters
        ----------
        n : int
        seed : int
            Of numpy's default generator; a sentence's samples depend on nothing but the seed and
            its place.

        Returns
        -------
        int32 [B, n, T]
            Label ids; −1 beyond a sentence's end, and throughout one without a path.

        Raises
        ------
        OptionError
            A negative n or seed.
        """
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        flat = np.full((n, int(self.scores.offsets[-1])), -1, dtype=np.int32)
        if n and len(self):
            uniform = [
                np.random.default_rng([seed, b]).random((n, length))
                for b, length in enumerate(self.lengths.tolist())
            ]
            drawn = kernel.sample_paths(self._bound, np.concatenate(uniform, axis=1))
            flat = np.where(drawn < 0, -1, self._state_label[drawn]).astype(np.int32)
        padded = self.scores.padded(np.ascontiguousarray(flat.T), -1)
        return np.ascontiguousarray(padded.transpose(0, 2, 1))

    # --- Given labels -------------------------------------------------------------------------

    def score(self, tags: Tags) -> Floats:
        """Return the score of given labels, float64 [B]; −inf where they are not legal.

        Parameters
        ----------
        tags : int [B, T], list of int [T_i], or list of lists of str
            Of partly labelled sentences −1 where the label is not known: then it is the log of the
            sum over all paths that have the others.

        Raises
        ------
        ShapeError
            Another number of sentences or tokens.
        LabelError
            A label that there is not.
        """
        return self.restricted(self.tag_ids(tags)).log_partition()

    def tag_ids(self, tags: Tags) -> Ints:
        """Return labels that are given as ids, int32 [B, T]; −1 where they are not known.

        Raises
        ------
        ShapeError, LabelError
            As `score`.
        """
        out = np.full((len(self), self.scores.width), -1, dtype=np.int32)
        if not isinstance(tags, list | tuple):
            given = host_integers(tags, "tags")
            if given.shape != out.shape:
                raise ShapeError(f"tags are {list(given.shape)}, expected {list(out.shape)}")
            np.copyto(out, given, where=self.scores.inside, casting="same_kind")
        else:
            if len(tags) != len(self):
                raise ShapeError(f"tags of {len(tags)} sentences, expected {len(self)}")
            for b, row in enumerate(tags):
                ids = self._ids_of(b, row)
                length = int(self.lengths[b])
                if len(ids) not in (length, self.scores.width):
                    raise ShapeError(f"sentence {b}: {len(ids)} tags for {length} tokens")
                out[b, :length] = ids[:length]
        wrong = (out < -1) | (out >= len(self.labels))
        if wrong.any():
            b, t = (int(i[0]) for i in np.nonzero(wrong))
            raise LabelError(
                f"sentence {b}, token {t}: label id {out[b, t]}, expected 0 to "
                f"{len(self.labels) - 1}, or -1 where it is not known"
            )
        return out

    def _ids_of(self, sentence: int, row: Any) -> Longs:
        if len(row) and isinstance(row[0], str):
            number = {label: i for i, label in enumerate(self.labels)}
            unknown = next((label for label in row if label not in number), None)
            if unknown is not None:
                raise LabelError(f"sentence {sentence}: no label {unknown!r}")
            return np.asarray([number[label] for label in row], dtype=np.int64)
        return host_integers(row, f"tags of sentence {sentence}")

    def restricted(self, tags: Ints) -> Emissions:
        """Return the batch of the paths that have given labels, int32 [B, T], −1: any."""
        return self.masked(
            (tags[:, :, None] < 0) | (tags[:, :, None] == np.arange(len(self.labels)))
        )

    def masked(self, allowed: Bools) -> Emissions:
        """Return the batch of the paths that have allowed labels only, bool [B, T, L]."""
        some = self.scores.masked(allowed)
        return Emissions.of(some, self.labels, self.chain, self.grammar, threads=self.threads)

    # --- Spans --------------------------------------------------------------------------------

    def probable_spans(
        self, above: float = 0.01, *, scheme: str | Scheme = "conlleval"
    ) -> list[ProbableSpans]:
        """Return all spans of each sentence with a probability above a number.

        None of a sentence without a path. Parameters and errors as for `Lattice.probable_spans`.
        """
        live = np.flatnonzero(~self.dead).tolist()
        some = [self.lattices[b] for b in live]
        found = probable_spans(some, above, scheme=scheme, threads=self.threads)
        types = found[0].types if found else ()
        none = np.empty(0, dtype=np.int32)
        out = [ProbableSpans(none, none, none, np.empty(0), types)] * len(self)
        for b, spans in zip(live, found, strict=True):
            out[b] = spans
        return out

    def span_probabilities(
        self,
        spans: Sequence[Sequence[tuple[int, int, str] | Span]],
        *,
        scheme: str | Scheme = "conlleval",
    ) -> list[Floats]:
        """Return the probability of each of given spans, float64 [M] of each sentence.

        0 in a sentence without a path. Parameters and errors as for
        `fstcrf.lattices.span_probabilities`.
        """
        if len(spans) != len(self):
            raise OptionError(f"{len(spans)} lists of spans for {len(self)} sentences")
        out = [np.zeros(len(own)) for own in spans]
        live = np.flatnonzero(~self.dead).tolist()
        asked = [[(s[0], s[1], s[2]) for s in spans[b]] for b in live]
        some = [self.lattices[b] for b in live]
        found = span_probabilities(some, asked, scheme=scheme, threads=self.threads)
        for b, probabilities in zip(live, found, strict=True):
            out[b] = probabilities
        return out

    def path_spans(self, path: Ints) -> list[Floats] | None:
        """Return the probabilities of the spans of given labels, int32 [N], in their order.

        Spans are read as conlleval reads them; None where the kernel cannot tell.
        """
        if self.rows is None:
            return None
        with self._named():
            spans = self.rows.spans(np.ascontiguousarray(path), _span_tables(self.labels))
        rows = Ragged(spans.ends)
        if spans.left[rows.lengths > 0].any():
            return None
        return rows.split(spans.probability)

    # --- How it is computed -------------------------------------------------------------------

    @made_once
    def _values(self) -> tuple[Longs, tuple[Floats, ...]]:
        self.scores.check_numbers(self.labels)
        return self.scores.offsets, self.program.per_token([self.scores.flat])

    @made_once
    def _searched(self) -> Bound:
        """What best paths are searched in."""
        return Bound(self.program.decoder.machine, *self._values)

    @made_once
    def _bound(self) -> Bound:
        """The whole product: for sums."""
        if not self.program.decoder.lazy:
            return self._searched
        return Bound(self.program.machine, *self._values)

    @made_once
    def _state_label(self) -> Ints:
        """Label of each joint state."""
        return self.program.axes.joint_labels()["label"].astype(np.int32)

    @made_once
    def _posteriors(self) -> kernel.AxisPosterior:
        return kernel.axis_posterior(self._bound)

    def _label_sums(self, states: Floats) -> Floats:
        return self.program.chain["label"].topology.label_sums(states)

    def _usual_log_z(self) -> Floats:
        """Return log Z of each sentence, float64 [B]; NaN of too large a product."""
        if self.rows is None and not self.program.summable:
            return np.where(self.lengths, np.nan, self.program.empty_score)
        return self.log_z


class EmissionAnswer(Answer):
    """The n best paths of a batch of scores: an `Answer`, its spans read off in the kernel."""

    def span_probabilities(self, tape: str | None = None, k: int = 0) -> list[Floats]:
        """Return the probability of each span of the k-th best paths, as `spans` lists them."""
        posterior = self.posterior
        if not isinstance(posterior, _Posterior) or tape not in (None, "label"):
            return super().span_probabilities(tape, k)
        probabilities = posterior.batch.path_spans(self.flat[k])
        return super().span_probabilities(tape, k) if probabilities is None else probabilities


class _Posterior:
    """The distributions that the paths of an `Answer` are from."""

    def __init__(self, batch: Emissions) -> None:
        self.batch = batch

    def marginals(self, tape: str) -> list[Floats | None]:  # noqa: ARG002 (there is one)
        rows = zip(self.batch.marginals(), self.batch.lengths.tolist(), strict=True)
        found = zip(self.batch.dead, rows, strict=True)
        return [None if dead else own[:length] for dead, (own, length) in found]

    def span_probabilities(self, tape: str, spans: SpanArrays, offsets: Longs) -> Floats:
        several = self.batch.lattices
        return known_probabilities(several, spans, offsets, tape=tape, threads=self.batch.threads)

    def confidence(self, sentence: int, path: Path) -> Confidence:  # noqa: ARG002
        return self.batch.lattices[sentence].confidence()

    def only(self, asked: Bools) -> _Posterior:  # noqa: ARG002 (nothing is kept of dead sentences)
        return self

    def with_part(self, where: Longs, part: Any) -> _Posterior:  # noqa: ARG002
        raise OptionError("answers of arrays are not put together with others")


@lru_cache(maxsize=64)
def _span_tables(labels: tuple[str, ...]) -> kernel.SpanRules:
    """Return how labels are read as spans, as the kernel wants it."""
    reading = span_reading(labels, named_scheme("conlleval"))
    flags = (reading.begins, reading.continues, reading.first, reading.last)
    return kernel.SpanRules(
        len(reading.types), reading.type.astype(np.int32), *(f.astype(np.uint8) for f in flags)
    )
