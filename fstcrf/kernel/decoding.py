"""Questions about a batch of sentences under a machine.

All results are exact, in float64; scores are natural logs. They do not depend on the order of a
batch or on the number of threads, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.blocks import LongSentence, portions, runs
from fstcrf.kernel.graphs import Domain, domain_number
from fstcrf.kernel.machines import Bound, Residual, allocated
from fstcrf.kernel.native import CALL_STEPS, array_in, array_out, check, ffi, lib, patiently
from fstcrf.lazy import made_once

_RANKED = 64  # cost of a token of each further path, in multiply-adds

_DOMAINS = {"auto": (lib.FC_SUM, lib.FC_LOGS), "linear": (lib.FC_SUM,), "log": (lib.FC_LOGS,)}


class NBestPaths(NamedTuple):
    """The n best paths of each sentence.

    Parameters
    ----------
    n_paths : int64 [B]
        Number of paths, at most n.
    score : float64 [B, n]
        Falling; −inf beyond the last path.
    path : int32 [n, N]
        Joint states; −1 beyond the last path.
    """

    n_paths: Longs
    score: Floats
    path: Ints


class AxisPosterior(NamedTuple):
    """Posterior probabilities.

    Parameters
    ----------
    log_z : float64 [B]
        −inf if no path exists; then the probabilities are 0.
    node : tuple of float64 [N, S_c]
        For every axis, the probability of its states at each token.
    arc : tuple of (float64 [N, arcs], or [arcs], or None)
        For every requested axis, the probability of its arcs into each token, or their sum.
    entropy : float64 [B], optional
        Entropy of the paths, in nats, if requested.
    """

    log_z: Floats
    node: tuple[Floats, ...]
    arc: tuple[Floats | None, ...]
    entropy: Floats | None = None


@dataclass(frozen=True, eq=False)
class Variants:
    """Sentences with other node potentials at some tokens.

    Parameters
    ----------
    sentence : int64 [C]
        The sentence that each variant changes; not falling.
    ptr : int64 [C + 1]
        Bounds of each variant's changes.
    token : int32 [changes]
        Positions in the sentence, ascending within a variant.
    place : int32 [changes]
        Row of `node` with all node potentials of that token. Variants of a sentence that begin with
        the same changes are cheaper.
    node : float64 [rows, S]
    """

    sentence: Longs
    ptr: Longs
    token: Ints
    place: Ints
    node: Floats

    @made_once
    def order(self) -> Longs:
        """The variants by sentence, and within it by changes, last first, int64 [C].

        So a variant precedes those that end with the changes that it begins with, or branch off
        from it at an earlier token.
        """
        count = np.diff(self.ptr)
        changes = np.full((int(count.max(initial=0)), len(count)), -1, np.int64)
        variant = np.repeat(np.arange(len(count)), count)
        change = np.arange(len(self.token)) - self.ptr[variant]
        changes[change, variant] = self.token * np.int64(len(self.node)) + self.place
        return np.lexsort((*-changes[::-1], self.sentence))


def best_paths(batch: Bound) -> tuple[Ints, Floats]:
    """Return the best path of each sentence and its score.

    Ties: the smaller joint state, at the earliest token where the candidates differ.

    Returns
    -------
    path : int32 [N]
        Joint states; −1 throughout a sentence that has no path.
    score : float64 [B]
        −inf if no path exists.
    """
    path, score = np.empty(batch.n_tokens, dtype=np.int32), np.empty(batch.n_sentences)
    for sentences, tokens, portion in portions(batch):
        if isinstance(portion, LongSentence):
            path[tokens], score[sentences] = portion.best()
            continue
        status = lib.fc_machine_best(
            *portion.inputs, array_out(path[tokens]), array_out(score[sentences]), portion.scratch()
        )
        check(status, "best")
    return path, score


def nbest_paths(
    batch: Bound, n: int, *, above: Floats | None = None, within: float = np.inf
) -> NBestPaths:
    """Return the n best paths of each sentence, best first.

    Parameters
    ----------
    batch : Bound
    n : int
    above : float64 [B], optional
        Except for the best path, only paths with a higher score are returned: the search for others
        takes time.
    within : float
        Only paths whose score is less than this below the best one's are returned.

    Raises
    ------
    OptionError
        n below 1; `within` below 0.
    ShapeError
        `above` does not have one number for each sentence.
    TooLargeError
        The search needs more memory than the machine has.
    """
    if n < 1:
        raise OptionError(f"n is {n}, expected at least 1")
    if not within >= 0.0:
        raise OptionError(f"within is {within}, expected at least 0")
    room = int(lib.fc_queue_size(batch.view, n, batch.longest))
    batch.check_paths(n, room)
    if above is not None:
        array_in(above, np.float64, (batch.n_sentences,), "above")
    parts = [
        _nbest_paths(batch.part(*run), n, None if above is None else above[slice(*run)], within)
        for run in runs(batch, 1 + _RANKED * n // batch.machine.steps)
    ]
    if len(parts) == 1:
        return parts[0]
    counts, score, path = zip(*parts, strict=True)
    return NBestPaths(np.concatenate(counts), np.concatenate(score), np.concatenate(path, axis=1))


def _nbest_paths(batch: Bound, n: int, above: Floats | None, within: float) -> NBestPaths:
    count = np.empty(batch.n_sentences, dtype=np.int64)
    score = np.empty((batch.n_sentences, n))
    path = np.empty((n, batch.n_tokens), dtype=np.int32)
    what = f"the {n:,} best paths of {batch.longest:,} tokens"
    room = int(lib.fc_queue_size(batch.view, n, batch.longest))
    queue = allocated(room, what, batch.longest)
    status = patiently(
        batch.n_tokens * (batch.machine.steps + _RANKED * n),
        lib.fc_machine_nbest,
        *batch.inputs,
        n,
        ffi.NULL if above is None else array_in(above, np.float64, count.shape, "above"),
        within,
        array_out(path),
        array_out(score),
        array_out(count),
        batch.scratch(),
        array_out(queue),
    )
    check(status, "nbest")
    return NBestPaths(count, score, path)


def log_partitions(batch: Bound, *, domain: Domain = "auto") -> Floats:
    """Return log Z of each sentence, float64 [B]; −inf if no path exists.

    Raises
    ------
    NumericError
        ``domain="linear"`` was forced and cannot represent a sentence.
    """
    log_z = np.empty(batch.n_sentences)
    where = ffi.new("int64_t *")
    for sentences, _, portion in portions(batch):
        if isinstance(portion, LongSentence):
            log_z[sentences] = portion.sums(_DOMAINS[domain]).total
            continue
        status = lib.fc_machine_log_partition(
            *portion.inputs,
            domain_number(domain),
            array_out(log_z[sentences]),
            portion.scratch(lanes=True),
            where,
        )
        check(status, "log_partition: sentence", where[0])
    return log_z


def axis_posterior(
    batch: Bound,
    *,
    arcs: tuple[int, ...] = (),
    summed: bool = False,
    entropy: bool = False,
    domain: Domain = "auto",
) -> AxisPosterior:
    """Return log Z and posterior probabilities.

    Parameters
    ----------
    batch : Bound
    arcs : tuple of int
        Axes whose arcs are also wanted.
    summed : bool
        Sum the probabilities of arcs over all tokens.
    entropy : bool
        Whether to compute the entropy; it needs a row of joint states for each token.
    domain : {"auto", "linear", "log"}

    Raises
    ------
    NumericError
        ``domain="linear"`` was forced and cannot represent a sentence.
    """
    axes = len(batch.machine.axes)
    if any(not 0 <= c < axes for c in arcs):
        raise OptionError(f"arcs of the axes {list(arcs)}: the machine has {axes}")
    log_z = np.empty(batch.n_sentences)
    node = _per_axis(batch)
    arc = tuple(
        (np.zeros(axis.n_arcs) if summed else np.empty((batch.n_tokens, axis.n_arcs)))
        if c in arcs
        else None
        for c, axis in enumerate(batch.machine.axes)
    )
    nats = np.empty(batch.n_sentences) if entropy else None
    where = ffi.new("int64_t *")
    for sentences, tokens, portion in portions(batch):
        node_part = tuple(a[tokens] for a in node)
        into = arc if summed else tuple(None if a is None else a[tokens] for a in arc)
        if isinstance(portion, LongSentence):
            sums = portion.marginals(node_part, into, entropy=entropy, domains=_DOMAINS[domain])
            log_z[sentences] = sums[0]
            if nats is not None:
                nats[sentences] = sums[1]
            continue
        parts = [a if a is None or not summed else np.empty_like(a) for a in into]
        wanted = [ffi.NULL if a is None else array_out(a) for a in parts]
        nothing = [ffi.NULL] * axes
        status = lib.fc_machine_marginals(
            *portion.inputs,
            domain_number(domain),
            ffi.NULL,
            array_out(log_z[sentences]),
            [array_out(a) for a in node_part],
            *((nothing, wanted) if summed else (wanted, nothing)),
            ffi.NULL if nats is None else array_out(nats[sentences]),
            portion.scratch(lanes=True),
            where,
        )
        check(status, "marginals: sentence", where[0])
        for total, part in zip(arc, parts, strict=True):
            if summed and total is not None and part is not None:
                np.add(total, part, out=total)
    return AxisPosterior(log_z, node, arc, nats)


def axis_max_marginals(batch: Bound) -> tuple[Floats, ...]:
    """Return, for every axis, the score of the best path through each state, float64 [N, S_c]."""
    node = _per_axis(batch)
    for _, tokens, portion in portions(batch):
        node_part = tuple(a[tokens] for a in node)
        if isinstance(portion, LongSentence):
            portion.max_marginals(node_part)
            continue
        status = lib.fc_machine_max_marginals(
            *portion.inputs,
            [array_out(a) for a in node_part],
            *(ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL),
            portion.scratch(lanes=True),
        )
        check(status, "max_marginals")
    return node


def sample_paths(batch: Bound, uniform: Floats) -> Ints:
    """Return independent samples from the distribution over paths.

    Parameters
    ----------
    batch : Bound
    uniform : float64 [n, N]
        Numbers in [0, 1), one for each choice.

    Returns
    -------
    int32 [n, N]
        Joint states; −1 throughout a sentence that has no path.
    """
    if uniform.ndim != 2 or uniform.shape[1] != batch.n_tokens:
        raise ShapeError(f"uniform is {list(uniform.shape)}, expected [n, N]")
    if not ((uniform >= 0.0) & (uniform < 1.0)).all():
        raise NumericError("uniform holds a number outside [0, 1)")
    shape = (len(uniform), batch.n_tokens)
    path = np.empty(shape, dtype=np.int32)
    for _, tokens, portion in portions(batch):
        draws = np.ascontiguousarray(uniform[:, tokens])
        if isinstance(portion, LongSentence):
            path[:, tokens] = portion.sample(draws)
            continue
        samples = np.empty(draws.shape, dtype=np.int32)
        status = lib.fc_machine_sample(
            *portion.inputs,
            shape[0],
            array_in(draws, np.float64, draws.shape, "uniform"),
            array_out(samples),
            portion.scratch(),
        )
        check(status, "sample")
        path[:, tokens] = samples
    return path


def rescored(batch: Bound, variants: Variants, *, best: bool) -> Floats:
    """Return totals of sentences with other node potentials at some tokens.

    Parameters
    ----------
    batch : Bound
        Of one axis.
    variants : Variants
    best : bool
        Return the best score instead of log Z.

    Returns
    -------
    float64 [C]
        −inf if the sentence, or the variant, has no path.

    Raises
    ------
    ShapeError
        Arrays that disagree.
    """
    sentence, ptr, token = variants.sentence, variants.ptr, variants.token
    place, node, order = variants.place, variants.node, variants.order
    count, changes = len(sentence), len(token)
    total = np.empty(count)
    where = ffi.new("int64_t *")
    if len(ptr) != count + 1 or int(ptr[-1]) != changes:
        raise ShapeError(f"ptr ends at {int(ptr[-1])}, expected the number of changes, {changes}")
    for first, end in _runs_of_variants(batch, variants, order):
        begin, stop = 0, batch.n_sentences
        if end - first < count:
            begin, stop = (sentence[order[[first, end - 1]]] + [0, 1]).tolist()
        part, some = batch.part(begin, stop), order[first:end]
        ask = partial(
            lib.fc_machine_rescore,
            *part.inputs,
            end - first,
            array_in(some, np.int64, some.shape, "order"),
            array_in(sentence - begin if begin else sentence, np.int64, (count,), "sentence"),
            array_in(ptr, np.int64, (count + 1,), "ptr"),
            array_in(token, np.int32, (changes,), "token"),
            array_in(place, np.int32, (changes,), "place"),
            len(node),
            array_in(node, np.float64, (len(node), batch.machine.width), "node"),
            best,
            array_out(total),
        )
        check(ask(ffi.NULL, where), "rescored: sentence", where[0])
        check(ask(part.scratch(where[0]), where), "rescored: sentence", where[0])
    return total


def _runs_of_variants(batch: Bound, variants: Variants, order: Longs) -> Iterator[tuple[int, int]]:
    """Yield bounds of runs of ordered variants that keep a call of the kernel short."""
    count, first, last = len(order), variants.ptr[order], variants.ptr[order + 1]
    if count and len(variants.token):
        span = variants.token[last - 1] - variants.token[np.minimum(first, len(variants.token) - 1)]
        sentence = variants.sentence[order]
        new = np.diff(sentence, prepend=-1) > 0  # plus a pass over its sentence
        tokens = np.where(last > first, span + 1, 0)
        tokens += np.where(new, Ragged(batch.bounds).lengths[sentence], 0)
        call = np.cumsum(tokens) * batch.machine.steps // CALL_STEPS
        ends = np.flatnonzero(np.diff(call)) + 1
    else:
        ends = np.empty(0, dtype=np.int64)
    yield from pairwise([0, *ends.tolist(), count])


def dead_tokens(batch: Bound) -> Longs:
    """Return the first token of each sentence at which every path has died, int64 [B].

    It is the last token if only the end is forbidden, or if paths are left.
    """
    machine, node = batch.machine, _per_axis(batch)
    shape = (batch.n_tokens, machine.n_residual, machine.outer, machine.width)
    begun = np.empty(shape)  # scores of beginnings up to a token
    status = lib.fc_machine_max_marginals(
        *batch.inputs,
        [array_out(a) for a in node],
        *(ffi.NULL, ffi.NULL, array_out(begun), ffi.NULL),
        batch.scratch(),
    )
    check(status, "dead tokens")
    alive = np.array([_passes(machine.residual, cells) for cells in begun], dtype=bool)
    runs_of = (alive[a : max(a, b - 1)] for a, b in pairwise(batch.bounds.tolist()))
    return np.array([np.argmin(np.append(run, False)) for run in runs_of], dtype=np.int64)


def _passes(residual: Residual | None, cells: Floats) -> bool:
    """Return whether any of the cells [Q, outer, S] survives the residual automaton."""
    if residual is not None:
        place = slice(None) if residual.place is None else residual.place
        cells = cells[residual.source] + residual.value[:, place]
    return bool(cells.max(initial=-np.inf) > -np.inf)


def _per_axis(batch: Bound) -> tuple[Floats, ...]:
    return tuple(np.empty((batch.n_tokens, axis.n_states)) for axis in batch.machine.axes)
