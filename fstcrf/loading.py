"""Taggers from files of any format that is read."""

from __future__ import annotations

import os
from typing import Any

from fstcrf import interop, pipelines
from fstcrf.interop.formats import HEAD, is_native
from fstcrf.joint import Tagger
from fstcrf.joint import load as load_own


def load(path: str | os.PathLike[str]) -> Tagger[Any, Any]:
    """Load a tagger from a file or folder, whose format is told from its first bytes.

    A `CRF` or a `Composition` from a file of fstcrf's own, a `TrainedPipeline` from the folder of a
    pipeline, a `CRF` from a model of CRFsuite, CRF++ or Wapiti. Those read the sentences that
    `load_crfsuite`, `load_crfpp` and `load_wapiti` say, which also take options.

    Parameters
    ----------
    path : path

    Raises
    ------
    ModelFileError
        Of no known format, of another version, or damaged; a pipeline that is not finished.
    OSError
        It cannot be opened.
    """
    if os.path.isdir(path):  # noqa: PTH112 (the path may be any str)
        return pipelines.load_pipeline(path)
    with open(path, "rb") as file:  # noqa: PTH123 (the path may be any str)
        head = file.read(HEAD)
    cut = len(head) < HEAD
    return load_own(path) if is_native(head) or cut else interop.read_tagger(path)
