"""Every door that takes a path refuses what is none, by an error of the package's own."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf import CRF, Corpus, Grammar, LatticeCRF, Lexicon, SegmentCRF, TokenDecoder
from fstcrf.errors import FstcrfError
from fstcrf.ext.calibration import Calibration
from fstcrf.ext.documents import Consistency, Fields, Violation, scores
from fstcrf.ext.feedback import FeedbackLearner
from fstcrf.ext.filling import fill_conllu
from fstcrf.ext.pipelines.trained import TrainedPipeline
from fstcrf.ext.report.history import History
from fstcrf.ext.rules import learn_rules
from fstcrf.taggers import JointCRF
from fstcrf.text.corpus import read_items
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.training import Run

Doors = Mapping[str, Callable[[Any], Any]]

TEMPLATE = "U:%x[0,word]\nB\n"
DATA = Corpus.from_sentences([{"word": ["a", "b"], "y": ["B-A", "O"]}])
TAGGER = CRF.train(DATA, "y", TEMPLATE, max_iterations=1)
LATTICE = TAGGER.lattice(DATA[0])
GRAMMAR = Grammar.from_text('export x = at_most[1, "A"];')
ROW = b"1\tGo\tgo\t_\t_\t_\t0\troot\t_\t_\n\n"

READERS: Doors = {
    "load": fstcrf.load,
    "CRF.load": CRF.load,
    "SegmentCRF.load": SegmentCRF.load,
    "TokenDecoder.load": TokenDecoder.load,
    "LatticeCRF.load": LatticeCRF.load,
    "Lexicon.load": Lexicon.load,
    "Calibration.load": Calibration.load,
    "Consistency.load": Consistency.load,
    "Fields.load": Fields.load,
    "scores.load": scores.load,
    "load_pipeline": fstcrf.load_pipeline,
    "load_crfsuite": fstcrf.load_crfsuite,
    "load_crfpp": fstcrf.load_crfpp,
    "load_wapiti": fstcrf.load_wapiti,
    "read_pipeline": fstcrf.read_pipeline,
    "read_template": fstcrf.read_template,
    "Grammar.from_file": Grammar.from_file,
    "read_columns": lambda path: fstcrf.read_columns(path, ["word"]),
    "stream_columns": lambda path: list(fstcrf.stream_columns(path, ["word"])),
    "read_conllu": fstcrf.read_conllu,
    "stream_conllu": lambda path: list(fstcrf.stream_conllu(path)),
    "read_items": read_items,
    "CorpusFiles": lambda path: CorpusFiles([path], ["word"]).read(),
    "fill_conllu, from": lambda path: fill_conllu(path, io.BytesIO(), {}),
    "learn_rules": lambda path: learn_rules(TAGGER, DATA, path),
    "History": History,
    "FeedbackLearner.open": FeedbackLearner.open,
    "tag_batches": lambda path: list(fstcrf.tag_batches(path, [])),
}

WRITERS: Doors = {
    "CRF.save": TAGGER.save,
    "Composition.save": (TAGGER & GRAMMAR).save,
    "SegmentCRF.save": SegmentCRF.train(DATA, "y", "U:%x[0,word]", max_iterations=1).save,
    "TokenDecoder.save": TokenDecoder(["O", "B-A", "I-A"]).save,
    "Lexicon.write": Lexicon.from_words(["a"]).write,
    "Consistency.save": Consistency([Violation("same", ("A", "B"), -1.0)]).save,
    "pipeline.save": TrainedPipeline(JointCRF((TAGGER,), (1.0,))).save,
    "FeedbackLearner.create": lambda path: FeedbackLearner.create(path, TAGGER),
    "write_columns": lambda path: fstcrf.write_columns(DATA, path),
    "fill_conllu, to": lambda path: fill_conllu(io.BytesIO(ROW), path, {}),
    "checkpoint": lambda path: CRF.train(
        DATA, "y", TEMPLATE, max_iterations=1, run=Run(checkpoint=path, checkpoint_every=1)
    ),
    "lattice.draw": LATTICE.draw,
    "grammar.draw": GRAMMAR.bound(TAGGER.labels).draw,
    "topology.draw": TAGGER.topology.draw,
}

ODD: list[Any] = [None, 3, True, 1.5, b"x", ["x"], "a\0b", "a\ud800"]
OPTIONAL = ("lattice.draw", "grammar.draw", "topology.draw", "checkpoint")  # of no path, none


@pytest.mark.parametrize("door", [*READERS, *WRITERS])
def test_what_is_no_path_is_refused(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ask = {**READERS, **WRITERS}[door]
    for odd in ODD[door in OPTIONAL :]:
        with pytest.raises(FstcrfError) as caught:
            ask(odd)
        assert str(caught.value).isprintable(), ascii(odd)
    assert list(tmp_path.iterdir()) == []
