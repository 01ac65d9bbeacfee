"""Checks of names, labels and numbers that callers pass."""

from __future__ import annotations

import operator
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arrays import Array, Bools, Floats, Ints
from fstcrf.errors import DataError, FstcrfError, LabelError, NumericError, OptionError, ShapeError
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    import difflib

    import pynini
else:  # only mistakes need it
    difflib = LazyModule("difflib")

LabelSet: TypeAlias = Sequence[str] | Mapping[int, str] | Mapping[str, str]
"""The labels of a tape: in their order, or by their ids, 0 to L - 1, which JSON has as strings."""

_T = TypeVar("_T", bound=np.signedinteger)

_STR, _DOUBLE = {str}, np.dtype(np.float64)
LARGEST_SCORE = 1e300
"""Largest absolute score or cost, so that sums of many remain finite."""

_REAL = "biuf"
"""Kinds of dtypes: bool, integers, floating point."""


_COMPARED, _CELLS = 200, 1_000_000
"""Limits of comparing names: characters of a name, and pairs of characters of all names."""


def closest(name: object, known: Iterable[str], n: int = 1) -> list[str]:
    """Return the known names that are most similar to another name, best first.

    Long names are skipped, and so are names beyond a limit, so that a message costs little time.
    """
    if not isinstance(name, str) or len(name) > _COMPARED:
        return []
    folded: dict[str, str] = {}
    left = _CELLS
    for one in known:
        if len(one) <= _COMPARED:
            left -= (len(one) + 1) * (len(name) + 1)
            if left < 0:
                break
            folded.setdefault(one.lower(), one)
    lower = name.lower()
    close = difflib.get_close_matches(lower, folded, n=n, cutoff=0.5)
    # Transposed letters are a smaller difference than other letters.
    close.sort(key=lambda each: -difflib.SequenceMatcher(None, lower, each).quick_ratio())
    return [folded[each] for each in close]


def first_twice(names: Iterable[str]) -> str | None:
    """Return the first repeated name, or `None`."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def one_of(name: str, value: Any, literal: Any) -> None:
    """Check that an option is one of the names in a Literal type."""
    if not isinstance(value, Hashable) or value not in get_args(literal):
        expected = ", ".join(map(repr, get_args(literal)))
        raise OptionError(f"{name} is {value!r}, expected one of {expected}")


def whole_number(value: Any, name: str, *, least: int = 0, narrow: bool = False) -> int:
    """Return an integer of at least `least`, below 2⁶³ (`narrow`: 2³¹)."""
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{name} is {value!r}, expected a whole number") from None
    if not least <= number < 1 << (31 if narrow else 63):
        below = "2³¹" if narrow else "2⁶³"
        raise OptionError(f"{name} is {number}, expected at least {least} and less than {below}")
    return number


def check_strings(values: Iterable[Any], what: str) -> None:
    """Refuse items that are not strings, or that no file can store; `what` describes an item."""
    for value in values:
        if not isinstance(value, str):
            raise DataError(f"{what} is {value!r}, expected a string")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise DataError(f"{what} {value!r} holds a lone surrogate: it is not Unicode")


def items_of(
    items: Any, what: str, expected: str, error: type[FstcrfError] = LabelError
) -> Iterable[Any]:
    """Return an ordered iterable; a string is refused, because it is not a list of its letters.

    `what` begins the message, including its verb: ``"the labels are"``.
    """
    unfit = isinstance(items, str | bytes | Mapping | AbstractSet)
    unfit = unfit or (isinstance(items, np.ndarray) and not items.ndim)
    if unfit or not isinstance(items, Iterable):
        shown = f"the string {_short(items)}" if isinstance(items, str) else _short(items)
        raise error(f"{what} {shown}, expected {expected}")
    return items


def name_tuple(names: object, what: str) -> tuple[str, ...]:
    """Return several names; `what` begins the message that refuses a string: "columns"."""
    return tuple(items_of(names, f"the {what} are", "a list of names", OptionError))


def check_items(
    items: Sequence[Any],
    what: str,
    *,
    sentence: int | None = None,
    error: type[FstcrfError] = LabelError,
) -> None:
    """Refuse items of a sentence that are not strings, and name the token."""
    if set(map(type, items)) <= _STR:
        return
    for token, string in enumerate(items):
        if not isinstance(string, str):
            place = f"token {token}" if sentence is None else f"sentence {sentence}, token {token}"
            raise error(f"{place}: {what} is {_short(string)}, expected a string")


def string_list(
    values: Any,
    what: str,
    *,
    sentence: int | None = None,
    error: type[FstcrfError] = LabelError,
) -> Sequence[str]:
    """Return the strings of one sentence, one for each token; lists and tuples are not copied.

    `what` describes an item, such as ``"gold label"``; `sentence` is the number in messages.
    """
    place = "" if sentence is None else f"sentence {sentence}: "
    items = items_of(values, f"{place}the {what}s are", "a list of strings", error)
    strings = items if isinstance(items, list | tuple) else list(items)
    check_items(strings, f"the {what}", sentence=sentence, error=error)
    return strings


def string_lists(
    values: Any, what: str, *, error: type[FstcrfError] = LabelError
) -> list[Sequence[str]]:
    """Return the strings of each sentence; arguments and errors as for `string_list`."""
    rows = items_of(values, f"the {what}s are", "a list for each sentence", error)
    return [string_list(row, what, sentence=number, error=error) for number, row in enumerate(rows)]


def label_tuple(
    labels: Any, *, place: str = "", error: type[FstcrfError] = OptionError
) -> tuple[str, ...]:
    """Return the labels of a tape, which are distinct strings.

    A mapping, such as ``model.config.id2label``, has the keys 0 to L − 1, as numbers or as the
    strings of JSON; label k is its value for k, in any order of keys. `place` is the beginning of
    messages, `error` the type of the error.
    """
    values = _numbered(labels, place, error) if isinstance(labels, Mapping) else labels
    try:
        names = None if isinstance(values, str | bytes | AbstractSet) else tuple(values)
    except TypeError:
        names = None
    kinds = set() if names is None else set(map(type, names))
    if names is None or not all(issubclass(kind, str) for kind in kinds):
        raise error(
            f"{place}labels are {_short(labels)}, expected a list of labels, or a dict of ids and "
            "labels"
        )
    if not kinds <= _STR:
        names = tuple(map(str, names))  # NumPy's strings are str, and shown as something else
    if len(set(names)) < len(names):
        places: dict[str, int] = {}
        for k, label in enumerate(names):
            first = places.setdefault(label, k)
            if first != k:
                raise error(f"{place}label {_short(label)} occurs twice, at {first} and {k}")
    return names


def is_by_tape(labels: object) -> bool:
    """Return whether a mapping has tapes as keys, and so is not a `LabelSet`."""
    if not isinstance(labels, Mapping) or not all(isinstance(key, str) for key in labels):
        return False
    plain = [isinstance(value, str | int | np.integer) for value in labels.values()]
    return not plain or not all(plain)


def _numbered(labels: Mapping[Any, Any], place: str, error: type[FstcrfError]) -> list[Any]:
    size = len(labels)
    numbers = {int(k) if isinstance(k, np.integer) else k: k for k in labels}
    numbers |= {k: str(k) for k in range(size) if str(k) in labels and k not in numbers}
    if len(numbers.keys() & set(range(size))) == size:
        return [labels[numbers[k]] for k in range(size)]
    if all(isinstance(value, int | np.integer) for value in labels.values()):
        raise error(f"{place}labels are {_short(labels)}: that is label2id, expected id2label")
    raise error(
        f"{place}labels are {_short(labels)}: a dict of labels has the keys 0 to {size - 1}, "
        "and labels as values"
    )


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def truth_array(values: ArrayLike, name: str) -> Bools:
    """Return an array of truth values as bool; numbers must be 0 or 1.

    Masks of another kind, with 0 and -10000 to be added to scores, would be read as the opposite.
    """
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return array
    wrong = [0] if array.dtype.kind not in _REAL else np.flatnonzero((array != 0) & (array != 1))
    if array.size and len(wrong):
        value = array.item(int(wrong[0]))
        raise ShapeError(f"{name} holds {_short(value)}, expected true and false, or 1 and 0")
    return array.astype(bool)


def real_array(values: ArrayLike, name: str, *, error: type[FstcrfError] = ShapeError) -> Floats:
    """Return a copy of an array as float64, in C order; complex numbers would lose a part."""
    if type(values) is np.ndarray and values.dtype is _DOUBLE:
        return values.copy(order="C")
    try:
        array = np.asarray(values)
        numbers = array if array.dtype.kind != "O" else _plain(array)
    except (TypeError, ValueError, OverflowError) as problem:
        raise error(f"{name} is no array of numbers: {problem}") from None
    if numbers.dtype.kind == "c":
        raise error(f"{name} is complex, expected real numbers: take their .real, or their abs()")
    if numbers.dtype.kind not in _REAL:
        raise error(f"{name} is no array of numbers: its dtype is {numbers.dtype}")
    return np.array(numbers, dtype=np.float64, order="C")


def integer_array(
    values: ArrayLike,
    name: str,
    dtype: type[_T],
    *,
    unit: str,
) -> NDArray[_T]:
    """Return a copy of a row of integers as a signed type; larger numbers would wrap around.

    `unit` describes the entries.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as problem:
        raise ShapeError(f"{name} is no array of numbers: {problem}") from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        actual = f"{array.dtype} {list(array.shape)}"
        raise ShapeError(f"{name} is {actual}, expected whole numbers [{unit}]")
    check_fits(array, name, dtype)
    return array.astype(dtype)


def check_fits(array: Array, name: str, dtype: type[np.signedinteger]) -> None:
    """Refuse whole numbers that an integer type cannot hold."""
    if np.can_cast(array.dtype, dtype):
        return
    limits = np.iinfo(dtype)
    for value in (array.min(), array.max()) if array.size else ():
        if not limits.min <= int(value) <= limits.max:
            raise ShapeError(
                f"{name} holds {value}, expected whole numbers from {limits.min} to {limits.max}"
            )


def _plain(objects: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects with a numeric type; everything that float() accepts is real."""
    if any(one is None for one in objects.flat):
        raise TypeError("None is none")
    if any(isinstance(one, complex | np.complexfloating) for one in objects.flat):
        return objects.astype(np.complex128)
    return objects.astype(np.float64)


def real_number(value: ArrayLike, name: str, *, error: type[FstcrfError] = OptionError) -> float:
    """Return a number as a float."""
    array = real_array(value, name, error=error)
    if array.ndim:
        raise error(f"{name} is {list(array.shape)}, expected a number")
    return float(array)


def is_fst(part: object) -> TypeGuard[pynini.Fst]:
    """Return whether an object is a pynini machine, without importing pynini."""
    loaded = (sys.modules.get(name) for name in ("_pywrapfst", "pywrapfst"))
    return any(module is not None and isinstance(part, module.Fst) for module in loaded)


AS_GRAMMAR = (
    "expected a fstcrf.Grammar, not a machine of pynini: make one of an acceptor, "
    "& Grammar.from_fst(fst)"
)
"""Advice for a machine in the place of a grammar."""


def refuse_fst(part: object, advice: str) -> None:
    """Raise OptionError for a pynini machine, whose own operators work on strings."""
    if is_fst(part):
        raise OptionError(advice)


# --- Arrays of a machine --------------------------------------------------------------------------


def check_array(what: str, name: str, array: Array, dtype: type[np.generic], size: int) -> None:
    """Check the type and the size of an array."""
    if not isinstance(array, np.ndarray):
        raise ShapeError(
            f"{what}: {name} is {_short(array)}, expected an array, {np.dtype(dtype)} [{size}]"
        )
    if array.dtype != dtype or array.shape != (size,):
        actual = f"{array.dtype} {list(array.shape)}"
        raise ShapeError(f"{what}: {name} is {actual}, expected {np.dtype(dtype)} [{size}]")


def check_range(what: str, name: str, array: Ints, limit: int, least: int = 0) -> None:
    """Check that all numbers are in a range."""
    if array.size and (int(array.min()) < least or int(array.max()) >= limit):
        raise ShapeError(f"{what}: {name} holds numbers outside [{least}, {limit})")


def check_scores(what: str, name: str, array: Floats) -> None:
    """Check that no score is NaN or +inf."""
    if not (array < np.inf).all():
        place = int(np.flatnonzero(~(array < np.inf))[0])
        raise NumericError(f"{what}: {name} has NaN or +inf at {place}; -inf forbids")


def check_named(what: str, named: object, size: int) -> None:
    """Check that each name has an array of `size` finite numbers."""
    if not isinstance(named, Mapping):
        raise OptionError(f"named is {_short(named)}, expected a mapping of names to arrays")
    for key, array in named.items():
        name = f"named[{key!r}]"
        check_array(what, name, array, np.float64, size)
        if not np.isfinite(array).all():
            place = int(np.flatnonzero(~np.isfinite(array))[0])
            value = array[place]
            raise NumericError(f"{what}: {name} has {value} at {place}, expected finite numbers")


def symbol_tuple(name: str, symbols: LabelSet) -> tuple[str, ...]:
    """Return the symbols of a machine: distinct names other than epsilon's."""
    symbols = label_tuple(symbols, place=f"{name}: ", error=LabelError)
    if len({*symbols, "<eps>"}) == len(symbols) + 1:
        return symbols
    if "<eps>" in symbols:
        raise LabelError(
            f"transducer: {name} holds '<eps>' at {symbols.index('<eps>')}, which is "
            "not a symbol: leave it out, and use the number -1 for an arc that reads "
            "or writes epsilon"
        )
    twice = first_twice(symbols)
    raise LabelError(f"transducer: {name} holds {twice!r} twice, expected distinct symbols")
