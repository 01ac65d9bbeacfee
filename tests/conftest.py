"""Hypothesis profiles, the corpora, and the kernel variants."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fstcrf import kernel

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a background job of a script
    # What ignores Ctrl-C hands that on to its processes, and those that tests interrupt never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("check", max_examples=10, deadline=None)
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the corpora, which FSTCRF_DATA names."""
    folder = os.environ.get("FSTCRF_DATA")
    if not folder:
        pytest.skip("FSTCRF_DATA is not set: no corpora")
    path = Path(folder).resolve()
    if not path.is_dir():
        pytest.fail(f"FSTCRF_DATA is no folder: {folder}")
    return path


@pytest.fixture(params=kernel.variants())
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each kernel variant that this processor runs, in use for one test."""
    before = kernel.variant()
    yield kernel.use(request.param)
    kernel.use(before)
