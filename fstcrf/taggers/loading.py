"""Taggers, and decoders of token classifiers, from files of any format that is read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fstcrf.errors import ModelFileError, OptionError
from fstcrf.files import path_name
from fstcrf.lazy import LazyModule
from fstcrf.storage import HEAD, PRODUCT, SEGMENTS, WORDS, file_kind, is_native, read_head
from fstcrf.taggers import Tagger
from fstcrf.taggers import load as load_own

if TYPE_CHECKING:
    from fstcrf.taggers import pipelines, product
    from fstcrf.text.features import FeatureFunctions
else:  # who loads a CRF does not wait for them
    product = LazyModule("fstcrf.taggers.product")
    pipelines = LazyModule("fstcrf.taggers.pipelines")

# Readers of the ring, by name: the core imports none of it.
foreign = LazyModule("fstcrf.ext.foreign")
tokens = LazyModule("fstcrf.ext.tokens")
words = LazyModule("fstcrf.ext.words.tagger")

_WORDS = "fstcrf-words"

T = TypeVar("T")


@overload
def load(
    path: str | os.PathLike[str],
    *,
    mmap: bool | None = None,
    features: FeatureFunctions | None = None,
) -> Tagger[Any]: ...
@overload
def load(
    path: str | os.PathLike[str],
    kind: type[T],
    *,
    mmap: bool | None = None,
    features: FeatureFunctions | None = None,
) -> T: ...
def load(
    path: str | os.PathLike[str],
    kind: type[T] | None = None,
    *,
    mmap: bool | None = None,
    features: FeatureFunctions | None = None,
) -> Any:
    """Load a tagger from a file or folder, whose format is told from its first bytes.

    A `CRF`, a `Composition`, a `SegmentCRF` or a `Product` from a file of fstcrf's own, a
    `TrainedPipeline` from the folder of a pipeline, a `CRF` from a model of CRFsuite, CRF++ or
    Wapiti. Those read the sentences that `load_crfsuite`, `load_crfpp` and `load_wapiti` say, which
    also take options. A `TokenDecoder` from the JSON file of one: it tags no sentences but logits.
    A `LatticeCRF` from its file: it tags texts. A `WordTagger` from its file.

    Parameters
    ----------
    path : path
    kind : type, optional
        The class that is expected: `CRF`, `TokenDecoder` and so on; anything when absent. Type
        checkers then know it, and take anything else for a tagger.
    mmap : bool, optional
        Map a file of fstcrf's own rather than read it: processes then share its pages, but nobody
        may change it in place while it is used. By default files are mapped from 64 MB on.
    features : callable or dict of str to callable, optional
        The feature function of the tagger, as of `CRF.train`: a file holds its name only. A dict
        from tape to function for several taggers. A tagger over attribute lists, such as a model
        of CRFsuite, takes a function, too, and then reads columns.

    Raises
    ------
    ModelFileError
        Of no known format, of another version, or damaged; a pipeline that is not finished; not of
        the kind that is expected.
    OptionError
        A tagger needs its feature function, or none of them has a use for one.
    OSError
        It cannot be opened.
    """
    found = _loaded(path, mmap=mmap, features=features)
    if kind is not None and not isinstance(found, kind):
        raise ModelFileError(
            f"{os.fspath(path)}: holds a {type(found).__name__}, expected a {kind.__name__}"
        )
    return found


def is_decoder(head: bytes) -> bool:
    """Tell whether the first bytes of a file are those of a decoder: JSON, and no model is."""
    return head.lstrip()[:1] == b"{"


def is_words(path: str | os.PathLike[str], head: bytes) -> bool:
    """Tell whether a file that begins like this is of a `LatticeCRF`."""
    try:
        return is_native(head) and file_kind(path) == _WORDS
    except ModelFileError:  # another reader says what is wrong
        return False


def _loaded(
    path: str | os.PathLike[str], *, mmap: bool | None, features: FeatureFunctions | None
) -> Any:
    if os.path.isdir(path_name(path)):  # noqa: PTH112 (the path may be any str)
        return pipelines.load_pipeline(path, features=features)
    found = _other(path, read_head(path), mmap=mmap)
    if found is None:
        return load_own(path, mmap=mmap, features=features)
    with_features = getattr(found, "with_features", None)
    if with_features is not None:
        return with_features(features, os.fspath(path))
    if features is not None:
        kind = type(found).__name__
        raise OptionError(f"{os.fspath(path)}: features=: a {kind} has no feature function")
    return found


def _other(path: str | os.PathLike[str], head: bytes, *, mmap: bool | None) -> Any:
    """Return what a file holds; None for a CRF or a composition of CRFs in fstcrf's own format."""
    if is_decoder(head):
        return tokens.TokenDecoder.load(path)
    if is_words(path, head):
        return words.LatticeCRF.load(path, mmap=mmap)
    cut = len(head) < HEAD
    kind = file_kind(path) if not cut and is_native(head) else ""
    if kind in (PRODUCT, SEGMENTS, WORDS):
        return product.read(path, mapped=mmap)
    return None if is_native(head) or cut else foreign.read_tagger(path)
