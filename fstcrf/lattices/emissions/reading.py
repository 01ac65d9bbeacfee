"""Arrays of scores as they come in: NumPy's, those of other packages, padded or a list of them.

Nothing is copied that need not be: the kernel reads float32 and float64 rows where they lie.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, check_fits, label_tuple, truth_array
from fstcrf.arrays import Array, Bools, Floats, Longs
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.lazy import given_state, made_once
from fstcrf.ragged import Ragged

ScoresLike: TypeAlias = Any
"""[B, T, L], or a sequence of [T_i, L]: whatever has ``__array__`` or ``__dlpack__``, or lists."""

LabelNames: TypeAlias = str | Mapping[str, str] | Callable[[str], str]
"""How a tool's names of labels become the usual ones; see `usual_names`."""

_CPU = {1, 3, 11}
"""Kinds of devices of DLPack whose memory is the host's: the CPU, and pinned for CUDA and ROCm."""


# --- One array ------------------------------------------------------------------------------------


def host_array(values: Any, name: str) -> Array:
    """Return an array of numbers of any package as NumPy's: the same memory where that is possible.

    Parameters
    ----------
    values : array
        NumPy's, torch's (also one that requires gradients), JAX's on the CPU, anything with
        ``__array__`` or ``__dlpack__``, nested lists.
    name : str
        What messages call it.

    Returns
    -------
    array
        float32 or float64: half precision becomes float32, integers float64.

    Raises
    ------
    OptionError
        A tensor on another device.
    ShapeError
        What is no array of real numbers.
    """
    given: Array = values if isinstance(values, np.ndarray) else _on_host(values, name)
    kind = given.dtype.kind
    if kind == "f":
        if given.dtype.itemsize in (4, 8) and given.dtype.isnative:
            return given
        return given.astype(np.float32 if given.dtype.itemsize < 4 else np.float64)
    if given.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):  # ml_dtypes
        return given.astype(np.float32)
    if kind in "biu":
        return given.astype(np.float64)
    if kind == "c":
        raise ShapeError(f"{name} is complex, expected real numbers: take their .real, or abs()")
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError):
        advice = ": numpy.load(path)['scores'] reads one" * (kind == "U")
        raise ShapeError(
            f"{name} is no array of numbers, its dtype is {given.dtype}{advice}"
        ) from None


def _on_host(values: Any, name: str) -> Array:
    if hasattr(values, "detach"):  # torch: NumPy refuses what requires gradients, and bfloat16
        values = values.detach()
        if str(values.dtype) == "torch.bfloat16" and _device(values, name) is None:
            values = values.float()
    where = _device(values, name)
    if where is not None:
        raise OptionError(
            f"{name} is on {where}: move it to the CPU first, with .cpu() or the like"
        )
    try:
        if hasattr(values, "__array__") or not hasattr(values, "__dlpack__"):
            return np.asarray(values)
        return np.from_dlpack(values)
    except (TypeError, ValueError, BufferError, RuntimeError) as problem:
        text = " ".join(str(problem).split())
        raise ShapeError(f"{name} is no array of numbers: {text}") from None


def _device(values: Any, name: str) -> str | None:
    """Return the device of an array that is not in the host's memory."""
    if not hasattr(values, "__dlpack_device__"):
        return None
    try:
        kind, _ = values.__dlpack_device__()
    except (AttributeError, RuntimeError, ValueError, BufferError) as problem:
        if getattr(values, "is_sparse", False):
            raise ShapeError(f"{name} is a sparse tensor: pass its .to_dense()") from problem
        kind = 0
    if int(kind) in _CPU:
        return None
    return str(getattr(values, "device", f"a device of DLPack's kind {int(kind)}"))


# --- A batch --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a batch of sentences, where they lie.

    Parameters
    ----------
    rows : float32 or float64 array
        [B, T, L] of any strides between rows, or [N, L] of sentences one behind the other; labels
        are contiguous.
    lengths : int64 [B]
        Tokens of each sentence.
    width : int
        T: tokens of a row of what is padded; the longest sentence's of a list.
    first : int
        The number of the first sentence.
    """

    rows: Array
    lengths: Longs
    width: int
    first: int = 0

    __getstate__ = given_state

    def __len__(self) -> int:
        """Sentences."""
        return len(self.lengths)

    @made_once
    def sentences(self) -> Ragged:
        """The sentences when they lie one behind the other."""
        return Ragged.from_lengths(self.lengths)

    @property
    def offsets(self) -> Longs:
        """Their bounds, int64 [B + 1]."""
        return self.sentences.offsets

    @made_once
    def inside(self) -> Bools:
        """Which places of a padded array are tokens, bool [B, T]."""
        found: Bools = np.arange(self.width) < self.lengths[:, None]
        return found

    @made_once
    def flat(self) -> Floats:
        """The scores of all tokens one behind the other, float64 [N, L]."""
        return np.ascontiguousarray(self._tokens, dtype=np.float64)

    def padded(self, flat: Array) -> Array:
        """Return what there is of each token, [N, ...], as [B, T, ...]; zeros beyond the end."""
        out = np.zeros((len(self), self.width, *flat.shape[1:]), dtype=flat.dtype)
        out[self.inside] = flat
        return out

    def part(self, first: int, end: int) -> Scores:
        """Return the scores of sentences in a row, where they lie."""
        bounds = (first, end) if self.rows.ndim == 3 else self.offsets[[first, end]]
        return Scores(self.rows[slice(*bounds)], self.lengths[first:end], self.width, first)

    def select(self, which: Bools | Longs) -> Scores:
        """Return the scores of some of the sentences, by numbers or bool [B]."""
        rows, lengths = self._tokens[self.sentences.entries(which)], self.lengths[which]
        return Scores(np.ascontiguousarray(rows), lengths, int(lengths.max(initial=0)))

    def masked(self, allowed: Bools) -> Scores:
        """Return the scores with −inf for labels that are not allowed, bool [N, L]."""
        rows = self._tokens
        rows = np.where(allowed, rows, rows.dtype.type(-np.inf))
        return Scores(rows, self.lengths, self.width)

    @property
    def _tokens(self) -> Array:
        return self.rows if self.rows.ndim == 2 else self.rows[self.inside]

    def check_numbers(self, labels: Sequence[str]) -> None:
        """Raise NumericError for the first score that is NaN, +inf or beyond 1e300."""
        wrong = ~((np.abs(self.flat) <= 1e300) | np.isneginf(self.flat))
        for token, label in np.argwhere(wrong)[:1].tolist() if wrong.any() else ():
            b = int(np.searchsorted(self.offsets, token, side="right")) - 1
            raise NumericError(
                f"sentence {self.first + b}, token {token - int(self.offsets[b])}: the score of "
                f"label {labels[label]!r} is {self.flat[token, label]:g}, expected a number below "
                "1e300; -inf forbids"
            )


def read_scores(
    scores: ScoresLike,
    lengths: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    n_labels: int,
) -> Scores:
    """Return the scores of a batch.

    Parameters
    ----------
    scores : [B, T, L], or sequence of B [T_i, L]
        See `host_array`.
    lengths : int [B], optional
        Tokens of each sentence of a padded array; all T when absent.
    mask : bool [B, T], optional
        Instead of `lengths`: true at the tokens of each sentence, which are its first ones.
    n_labels : int
        L.

    Raises
    ------
    ShapeError
        Shapes that disagree, a mask with holes, lengths that do not fit.
    OptionError
        Both lengths and mask; a tensor on another device.
    """
    if isinstance(scores, list | tuple) and (not scores or (lengths is None and mask is None)):
        return _listed(scores, n_labels)
    arrays = isinstance(scores, list | tuple) and all(hasattr(one, "shape") for one in scores)
    if arrays and len({tuple(one.shape) for one in scores}) > 1:
        raise ShapeError(
            "scores are a list of sentences with different lengths, so lengths= and "
            "mask= are not needed: leave them out, or pass one padded array"
        )
    rows = host_array(scores, "scores")
    if rows.ndim != 3 or rows.shape[2] != n_labels:
        hint = "; scores of one sentence are [scores]" if rows.ndim == 2 else ""
        raise ShapeError(
            f"scores are {list(rows.shape)}, expected [sentences, tokens, {n_labels} labels]{hint}"
        )
    rows = _readable(rows)
    size, width = rows.shape[:2]
    if lengths is not None and mask is not None:
        raise OptionError("lengths and mask are both given: give only one of them")
    if mask is not None:
        counts = _masked(mask, size, width)
    elif lengths is not None:
        counts = checked_lengths(lengths, size, width)
    else:
        counts = np.full(size, width, dtype=np.int64)
    return Scores(rows, counts, width)


def _readable(rows: Array) -> Array:
    """Return [B, T, L] with contiguous labels and rows that do not overlap, copied if need be."""
    item, (step, stride, last) = rows.dtype.itemsize, rows.strides
    fine = last == item and stride >= item * rows.shape[2] and step >= 0
    fine = fine and step % item == 0 and stride % item == 0 and rows.flags.aligned
    return rows if fine and rows.size else np.ascontiguousarray(rows)


def _listed(scores: Sequence[Any], n_labels: int) -> Scores:
    parts = [host_array(one, f"scores of sentence {b}") for b, one in enumerate(scores)]
    for b, part in enumerate(parts):
        if part.size == 0 and part.ndim <= 2 and (part.ndim < 2 or part.shape[0] == 0):
            parts[b] = np.empty((0, n_labels), dtype=np.float32)
        elif part.ndim != 2 or part.shape[1] != n_labels:
            raise ShapeError(
                f"scores of sentence {b} are {list(part.shape)}, expected [tokens, {n_labels} "
                "labels]"
            )
    sizes = np.asarray([len(part) for part in parts], dtype=np.int64)
    filled = [part for part in parts if len(part)]
    if len(filled) == 1:
        rows = np.ascontiguousarray(filled[0])
    else:
        rows = np.concatenate(filled) if filled else np.empty((0, n_labels), dtype=np.float32)
    return Scores(rows, sizes, int(sizes.max(initial=0)))


def checked_lengths(lengths: ArrayLike, size: int, width: int) -> Longs:
    """Return the tokens of each sentence of [B, T] as int64 [B]."""
    given = host_integers(lengths, "lengths")
    if given.shape != (size,):
        raise ShapeError(f"lengths are {list(given.shape)}, expected [{size}], one per sentence")
    wrong = np.flatnonzero((given < 0) | (given > width))
    if len(wrong):
        b = int(wrong[0])
        raise ShapeError(
            f"sentence {b}: its length is {int(given[b])}, expected 0 to {width}, the "
            "number of padded tokens"
        )
    return given


def host_integers(values: Any, name: str) -> Longs:
    """Return an array of whole numbers of any package, int64."""
    given = values if isinstance(values, np.ndarray) else _on_host(values, name)
    if given.dtype.kind not in "iu" and given.size:
        whole = given.dtype.kind == "f" and np.isfinite(given).all()
        if not whole or (given != np.rint(given)).any():
            raise ShapeError(f"{name} are {given.dtype}, expected whole numbers")
    check_fits(given, name, np.int64)
    return given.astype(np.int64)


def _masked(mask: ArrayLike, size: int, width: int) -> Longs:
    given = mask if isinstance(mask, np.ndarray) else _on_host(mask, "mask")
    if given.shape != (size, width):
        raise ShapeError(f"mask is {list(given.shape)}, expected [{size}, {width}] as the scores")
    there = truth_array(given, "mask")
    counts: Longs = there.sum(axis=1, dtype=np.int64)
    holes = (np.arange(width) < counts[:, None]) != there
    if holes.any():
        b, t = (int(i[0]) for i in np.nonzero(holes))
        what = "it does not start at the first token" if t == 0 else f"it has a hole at token {t}"
        raise ShapeError(
            f"mask of sentence {b}: {what}; a mask must be true at the tokens of the "
            "sentence and false at the padding after them: remove masked tokens first, "
            "or pass a list of arrays"
        )
    return counts


# --- Names of labels ------------------------------------------------------------------------------


def usual_names(labels: LabelSet, names: LabelNames | None) -> tuple[str, ...]:
    """Return the labels by their usual names, ``B-PER``.

    Parameters
    ----------
    labels : sequence of L str, or mapping of id to str
        In the order of the scores' last axis; of a mapping such as ``id2label`` that of its keys 0
        to L − 1.
    names : str, mapping of str to str, or callable, optional
        How a tool's names differ: its name of ``B-PER``, such as ``"B_PER"`` or ``"PER-B"``; or
        the usual name of each that differs; or a function that returns it.

    Raises
    ------
    OptionError
        Labels that are there twice; numbers with gaps; a form without ``B`` and ``PER``; a mapping
        with a name that is no label.
    """
    given = label_tuple(labels)
    if not given:
        raise OptionError("labels are empty, expected at least one label")
    if names is None:
        usual = given
    elif isinstance(names, str):
        usual = tuple(map(_form(names), given))
    elif isinstance(names, Mapping):
        odd = [name for name in names if name not in given]
        if odd:
            raise OptionError(f"names contains {odd[0]!r}, which is not one of the labels")
        usual = tuple(str(names.get(label, label)) for label in given)
    else:
        usual = tuple(str(names(label)) for label in given)
    if len(set(usual)) < len(usual):
        i = next(i for i, label in enumerate(usual) if label in usual[:i])
        first = usual.index(usual[i])
        both = f"{given[first]!r} and {given[i]!r}"
        raise OptionError(f"labels {both} get one name, {usual[i]!r}, by names=")
    return usual


def _form(example: str) -> Callable[[str], str]:
    """Return the function that renames labels of the form that an example for B-PER shows."""
    before = re.fullmatch(r"B([^A-Za-z0-9]*)PER", example)
    behind = re.fullmatch(r"PER([^A-Za-z0-9]*)B", example)
    form = before or behind
    if form is None:
        raise OptionError(
            f"names is {example!r}, expected how the labels write B-PER, such as 'B_PER' or 'PER-B'"
        )
    between = re.escape(form.group(1))
    pattern = f"([A-Z]){between}(.+)" if before else f"(.+){between}([A-Z])"

    def renamed(label: str) -> str:
        found = re.fullmatch(pattern, label)
        if found is None:
            return label
        letter, kind = found.groups() if before else reversed(found.groups())
        return f"{letter}-{kind}"

    return renamed
