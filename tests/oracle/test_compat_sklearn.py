"""The drop-in estimator beside sklearn-crfsuite: signature, answers, pickles."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compat_data import sequences

real = pytest.importorskip("sklearn_crfsuite", reason="sklearn-crfsuite is not installed")
ours = importlib.import_module("fstcrf.ext.compat.sklearn_crfsuite")


def test_the_same_parameters_and_attributes() -> None:
    assert real.__name__ == "sklearn_crfsuite"  # not the drop-in itself
    parameters = [list(inspect.signature(p.CRF.__init__).parameters) for p in (real, ours)]
    assert parameters[1] == parameters[0]
    assert ours.CRF().get_params() == real.CRF().get_params()
    public = {name for name in dir(real.CRF) if not name.startswith("_")}
    assert public <= set(dir(ours.CRF))
    for module in ("metrics", "scorers", "utils"):
        theirs = getattr(__import__(f"sklearn_crfsuite.{module}"), module)
        functions = {n for n in dir(theirs) if n.startswith(("flat", "sequence"))}
        assert functions <= set(dir(getattr(ours, module)))


@pytest.mark.thorough
def test_its_pickles_load_where_the_drop_in_is_installed(tmp_path: Path) -> None:
    every, target = sequences(22)
    theirs = real.CRF(c2=0.25).fit(every, target)
    path = tmp_path / "crf.pickle"
    path.write_bytes(pickle.dumps((theirs, every)))
    code = (
        "import pickle, sys, fstcrf.ext.compat\n"
        "fstcrf.ext.compat.install('pycrfsuite', 'sklearn_crfsuite')\n"
        "crf, X = pickle.load(open(sys.argv[1], 'rb'))\n"
        "import fstcrf.ext.compat.pycrfsuite as ours\n"
        "assert type(crf.tagger_) is ours.Tagger and crf.c2 == 0.25\n"
        "print(*[label for y in map(crf.predict_single, X) for label in y])\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code, str(path)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.split() == [label for x in every for label in theirs.predict_single(x)]
