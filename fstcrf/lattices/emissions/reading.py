"""Reading of scores from arrays of NumPy and other packages, padded or in lists.

Arrays are copied only if the kernel cannot read their memory: it reads rows of float32 and float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, check_fits, label_tuple, truth_array
from fstcrf.arrays import Array, Bools, Floats, Longs, Ragged
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.lazy import given_state, made_once

ScoresLike: TypeAlias = Any
"""[B, T, L], or a sequence of [T_i, L]: lists, or arrays with ``__array__`` or ``__dlpack__``."""

LabelNames: TypeAlias = str | Mapping[str, str] | Callable[[str], str]
"""Conversion of another tool's label names; see `usual_names`."""

_CPU = {1, 3, 11}
"""Device types of DLPack in the memory of the host: CPU, and pinned memory of CUDA and ROCm."""


# --- One array ------------------------------------------------------------------------------------


def host_array(values: Any, name: str) -> Array:
    """Convert an array of numbers of any package to a NumPy array, if possible without a copy.

    Parameters
    ----------
    values : array
        An array of NumPy or of JAX on the CPU, a tensor of torch, which may require gradients, an
        object with ``__array__`` or ``__dlpack__``, or nested lists.
    name : str
        Name of the array in error messages.

    Returns
    -------
    array
        float32 or float64. Half precision becomes float32, integers become float64.

    Raises
    ------
    OptionError
        A tensor is on another device.
    ShapeError
        The values are not an array of real numbers.
    """
    array: Array = values if isinstance(values, np.ndarray) else _on_host(values, name)
    kind = array.dtype.kind
    if kind == "f":
        if array.dtype.itemsize in (4, 8) and array.dtype.isnative:
            return array
        return array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    if array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):  # ml_dtypes
        return array.astype(np.float32)
    if kind in "biu":
        return array.astype(np.float64)
    if kind == "c":
        raise ShapeError(f"{name} is complex, expected real numbers: take their .real, or abs()")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        advice = ": numpy.load(path)['scores'] reads one" * (kind == "U")
        raise ShapeError(
            f"{name} is no array of numbers, its dtype is {array.dtype}{advice}"
        ) from None


def _on_host(values: Any, name: str) -> Array:
    if hasattr(values, "detach"):  # torch: NumPy cannot read gradients and bfloat16
        values = values.detach()
        if str(values.dtype) == "torch.bfloat16" and _device(values, name) is None:
            values = values.float()
    # Asking PyTorch by its attributes takes a third of the time.
    on_cpu = getattr(values, "is_cpu", False) and not values.is_sparse
    device = None if on_cpu else _device(values, name)
    if device is not None:
        raise OptionError(f"{name} is on {device}: first move it to the CPU, with .cpu() or so")
    try:
        if on_cpu or hasattr(values, "__array__") or not hasattr(values, "__dlpack__"):
            return np.asarray(values.numpy() if on_cpu else values)
        return np.from_dlpack(values)
    except (TypeError, ValueError, BufferError, RuntimeError) as problem:
        text = " ".join(str(problem).split())
        raise ShapeError(f"{name} is no array of numbers: {text}") from None


def _device(values: Any, name: str) -> str | None:
    """Return the device of an array; None if it is in the memory of the host."""
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
    """The scores of a batch of sentences, usually without a copy of the caller's array.

    Parameters
    ----------
    rows : float32 or float64 array
        Padded scores [B, T, L], or scores of concatenated sentences [N, L]. The labels of a token
        are contiguous; tokens may have any stride.
    lengths : int64 [B]
        Number of tokens of each sentence.
    width : int
        T for padded scores; otherwise the length of the longest sentence.
    first : int
        Number of the first sentence, for error messages.
    """

    rows: Array
    lengths: Longs
    width: int
    first: int = 0

    __getstate__ = given_state

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)

    @made_once
    def sentences(self) -> Ragged:
        """The bounds of the sentences after concatenation."""
        return Ragged.from_lengths(self.lengths)

    @property
    def offsets(self) -> Longs:
        """The offsets of the sentences after concatenation, int64 [B + 1]."""
        return self.sentences.offsets

    @made_once
    def inside(self) -> Bools:
        """Whether a cell of the padded array is a token, bool [B, T]."""
        mask: Bools = np.arange(self.width) < self.lengths[:, None]
        return mask

    @made_once
    def flat(self) -> Floats:
        """The scores of all tokens, concatenated, float64 [N, L]."""
        return np.ascontiguousarray(self._tokens, dtype=np.float64)

    def padded(self, flat: Array) -> Array:
        """Pad an array with an entry per token, [N, ...], with zeros to [B, T, ...]."""
        out = np.zeros((len(self), self.width, *flat.shape[1:]), dtype=flat.dtype)
        out[self.inside] = flat
        return out

    def part(self, first: int, end: int) -> Scores:
        """Return the scores of consecutive sentences, without a copy."""
        bounds = (first, end) if self.rows.ndim == 3 else self.offsets[[first, end]]
        return Scores(self.rows[slice(*bounds)], self.lengths[first:end], self.width, first)

    def select(self, which: Bools | Longs) -> Scores:
        """Return a copy of the scores of some sentences, by their numbers or a mask, bool [B]."""
        rows, lengths = self._tokens[self.sentences.entries(which)], self.lengths[which]
        return Scores(np.ascontiguousarray(rows), lengths, int(lengths.max(initial=0)))

    def masked(self, allowed: Bools) -> Scores:
        """Return the scores with −inf for labels that a mask, bool [N, L], does not allow."""
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
        Number of tokens of each sentence in a padded array; T by default.
    mask : bool [B, T], optional
        Alternative to `lengths`: true for tokens and false for the padding that follows them.
    n_labels : int
        L.

    Raises
    ------
    ShapeError
        Shapes disagree, the mask has holes, or a length exceeds T.
    OptionError
        Both `lengths` and `mask` are present, or a tensor is on another device.
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
        counts = np.empty(size, dtype=np.int64)
        counts.fill(width)
    return Scores(rows, counts, width)


def _readable(rows: Array) -> Array:
    """Return padded scores in a layout that the kernel can read; copy them if necessary."""
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
    """Return checked lengths of sentences in an array [B, T], int64 [B]."""
    counts = host_integers(lengths, "lengths")
    if counts.shape != (size,):
        raise ShapeError(f"lengths are {list(counts.shape)}, expected [{size}], one per sentence")
    wrong = np.flatnonzero((counts < 0) | (counts > width))
    if len(wrong):
        b = int(wrong[0])
        raise ShapeError(
            f"sentence {b}: its length is {int(counts[b])}, expected 0 to {width}, the "
            "number of padded tokens"
        )
    return counts


def host_integers(values: Any, name: str) -> Longs:
    """Convert an array of whole numbers of any package to int64."""
    array = values if isinstance(values, np.ndarray) else _on_host(values, name)
    if array.dtype.kind not in "iu" and array.size:
        finite = array.dtype.kind == "f" and np.isfinite(array).all()
        if not finite or (array != np.rint(array)).any():
            raise ShapeError(f"{name} are {array.dtype}, expected whole numbers")
    check_fits(array, name, np.int64)
    return array.astype(np.int64)


def _masked(mask: ArrayLike, size: int, width: int) -> Longs:
    array = mask if isinstance(mask, np.ndarray) else _on_host(mask, "mask")
    if array.shape != (size, width):
        raise ShapeError(f"mask is {list(array.shape)}, expected [{size}, {width}] as the scores")
    tokens = truth_array(array, "mask")
    counts: Longs = tokens.sum(axis=1, dtype=np.int64)
    holes = (np.arange(width) < counts[:, None]) != tokens
    if holes.any():
        b, t = (int(i[0]) for i in np.nonzero(holes))
        fault = "it does not start at the first token" if t == 0 else f"it has a hole at token {t}"
        raise ShapeError(
            f"mask of sentence {b}: {fault}; a mask must be true at the tokens of the "
            "sentence and false at the padding after them: remove masked tokens first, "
            "or pass a list of arrays"
        )
    return counts


# --- Names of labels ------------------------------------------------------------------------------


def usual_names(labels: LabelSet, names: LabelNames | None) -> tuple[str, ...]:
    """Return labels in the usual form, such as ``B-PER``.

    Parameters
    ----------
    labels : sequence of L str, or mapping of id to str
        The labels, in the order of the last axis of the scores; or a mapping from 0 to L − 1 to the
        labels, such as ``id2label``.
    names : str, mapping of str to str, or callable, optional
        The form of another tool's labels: its name of ``B-PER``, such as ``"B_PER"`` or
        ``"PER-B"``; or a mapping or function from its labels to the usual form.

    Raises
    ------
    OptionError
        Two labels are equal; ids have gaps; a form does not contain ``B`` and ``PER``; a key of a
        mapping is not a label.
    """
    original = label_tuple(labels)
    if not original:
        raise OptionError("labels are empty, expected at least one label")
    if names is None:
        converted = original
    elif isinstance(names, str):
        converted = tuple(map(_form(names), original))
    elif isinstance(names, Mapping):
        odd = [name for name in names if name not in original]
        if odd:
            raise OptionError(f"names contains {odd[0]!r}, which is not one of the labels")
        converted = tuple(str(names.get(label, label)) for label in original)
    else:
        converted = tuple(str(names(label)) for label in original)
    if len(set(converted)) < len(converted):
        i = next(i for i, label in enumerate(converted) if label in converted[:i])
        first = converted.index(converted[i])
        both = f"{original[first]!r} and {original[i]!r}"
        raise OptionError(f"labels {both} get one name, {converted[i]!r}, by names=")
    return converted


def _form(example: str) -> Callable[[str], str]:
    """Return a function that renames labels; the example is the other tool's name of B-PER."""
    prefix = re.fullmatch(r"B([^A-Za-z0-9]*)PER", example)
    form = prefix or re.fullmatch(r"PER([^A-Za-z0-9]*)B", example)
    if form is None:
        raise OptionError(
            f"names is {example!r}, expected how the labels write B-PER, such as 'B_PER' or 'PER-B'"
        )
    between = re.escape(form.group(1))
    pattern = f"([A-Z]){between}(.+)" if prefix else f"(.+){between}([A-Z])"

    def renamed(label: str) -> str:
        match = re.fullmatch(pattern, label)
        if match is None:
            return label
        letter, kind = match.groups() if prefix else reversed(match.groups())
        return f"{letter}-{kind}"

    return renamed
