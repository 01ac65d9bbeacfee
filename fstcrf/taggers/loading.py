"""`load`: taggers and token decoders from files of every supported format."""

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
else:  # imported on first use, so that loading a CRF is fast
    product = LazyModule("fstcrf.taggers.product")
    pipelines = LazyModule("fstcrf.taggers.pipelines")

# Packages of the ring are imported on first use: the core does not depend on them.
foreign = LazyModule("fstcrf.ext.foreign")
tokens = LazyModule("fstcrf.ext.tokens")
words = LazyModule("fstcrf.ext.words.tagger")

_LATTICE_CRF = "fstcrf-words"

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
    """Load a tagger from a file or folder. The first bytes of the file determine its format.

    A model file of fstcrf holds a `CRF`, a `Composition`, a `SegmentCRF`, a `Product`, a
    `WordTagger` or a `LatticeCRF`, which tags texts instead of sentences. The folder of a pipeline
    holds a `TrainedPipeline`. A JSON file holds a `TokenDecoder`, which tags logits. Models of
    CRFsuite, CRF++ and Wapiti become a `CRF`; `load_crfsuite`, `load_crfpp` and `load_wapiti`
    explain the sentences that it reads, and have options.

    Parameters
    ----------
    path : path
    kind : type, optional
        The expected class, such as `CRF` or `TokenDecoder`; type checkers infer it. By default any
        class is accepted, and type checkers infer `Tagger`.
    mmap : bool, optional
        Whether to map a model file of fstcrf instead of reading it. Processes then share its pages,
        but the file must not be changed while it is in use. By default files of 64 MB or more are
        mapped.
    features : callable or dict of str to callable, optional
        The feature function of the tagger, as for `CRF.train`; a model file contains only its
        name. For several taggers, a dict from tape to function. A tagger over attribute lists, such
        as a model of CRFsuite, also accepts a function: it then reads columns.

    Raises
    ------
    ModelFileError
        The file has an unknown format, another version or damage; a pipeline is not finished; the
        class is not `kind`.
    OptionError
        A tagger needs its feature function, or no tagger of the file accepts one.
    OSError
        The file cannot be opened.
    """
    tagger = _loaded(path, mmap=mmap, features=features)
    if kind is not None and not isinstance(tagger, kind):
        raise ModelFileError(
            f"{os.fspath(path)}: holds a {type(tagger).__name__}, expected a {kind.__name__}"
        )
    return tagger


def is_decoder(head: bytes) -> bool:
    """Return whether a file with these first bytes holds a `TokenDecoder`: only that is JSON."""
    return head.lstrip()[:1] == b"{"


def _loaded(
    path: str | os.PathLike[str], *, mmap: bool | None, features: FeatureFunctions | None
) -> Any:
    if os.path.isdir(path_name(path)):  # noqa: PTH112 (the path may be any str)
        return pipelines.load_pipeline(path, features=features)
    tagger = _other(path, read_head(path), mmap=mmap)
    if tagger is None:
        return load_own(path, mmap=mmap, features=features)
    with_features = getattr(tagger, "with_features", None)
    if with_features is not None:
        return with_features(features, os.fspath(path))
    if features is not None:
        kind = type(tagger).__name__
        raise OptionError(f"{os.fspath(path)}: features=: a {kind} has no feature function")
    return tagger


def _other(path: str | os.PathLike[str], head: bytes, *, mmap: bool | None) -> Any:
    """Load a file; return `None` for a CRF or a composition of CRFs in the format of fstcrf."""
    if is_decoder(head):
        return tokens.TokenDecoder.load(path)
    cut = len(head) < HEAD
    kind = file_kind(path) if not cut and is_native(head) else ""
    if kind == _LATTICE_CRF:
        return words.LatticeCRF.load(path, mmap=mmap)
    if kind in (PRODUCT, SEGMENTS, WORDS):
        return product.read(path, mapped=mmap)
    return None if is_native(head) or cut else foreign.read_tagger(path)
