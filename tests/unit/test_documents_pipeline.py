"""Documents by the taggers of a pipeline: all of them together, or one after those before it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.support.command as program
from fstcrf import Pipeline, Task
from fstcrf.errors import OptionError
from fstcrf.ext.documents import Annealing, Consistency, DocumentTagger, Violation
from fstcrf.taggers.pipelines import TrainedPipeline
from fstcrf.text.corpus import Corpus, read_columns

TEXT = """\
-DOCSTART- O O

Rotor N B-ORG
won V O

-DOCSTART- O O

Anna N B-PER
Rotor N I-PER

Rotor N B-PER
lost V O
"""
COLUMNS = ("word", "pos", "ner")
SAME = [Violation("same", ("ORG", "PER"), -2.0), Violation("within", ("PER", "ORG"), -2.0)]
SWEEPS = Annealing(20)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "text.txt").write_text(TEXT)
    return read_columns(tmp_path / "text.txt", COLUMNS)


def pipeline(corpus: Corpus, **options: str) -> Pipeline:
    names = "U0:%x[0,word]\nU1:%x[1,word]\nU2:%y[0,pos]\nB"
    return Pipeline(
        [
            Task("pos", corpus, "U0:%x[0,word]\nB"),
            Task("ner", corpus, names, reads=["pos"], options={"scheme": "iob2"}),
        ],
        **{"normalize": "product", **options},  # type: ignore[arg-type]
    )


@pytest.fixture
def trained(corpus: Corpus, tmp_path: Path) -> TrainedPipeline:
    return pipeline(corpus).train(tmp_path / "news")


def test_a_pipeline_decides_as_its_composition(corpus: Corpus, trained: TrainedPipeline) -> None:
    models = [Consistency(SAME, tape="ner")]
    found = DocumentTagger(trained, models, SWEEPS)
    assert found.tapes == ("pos", "ner")
    wanted = DocumentTagger(trained.composition, models, SWEEPS)
    assert found.tag_all(corpus) == wanted.tag_all(corpus)
    alone = DocumentTagger(trained).tag_all(corpus)
    assert alone == trained.tag_all(corpus, decode="joint")


def test_chains_are_refused(corpus: Corpus) -> None:
    chain = pipeline(corpus, normalize="chain").train()
    with pytest.raises(OptionError, match="normalize='chain' cannot be used with documents"):
        DocumentTagger(chain)


def test_one_task_after_those_before_it(
    corpus: Corpus, trained: TrainedPipeline, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("".join(f"{line.split(' ')[0]}\n" for line in TEXT.splitlines()))
    Consistency(SAME).save(tmp_path / "names.json")
    tags = program.done("tag", str(tmp_path / "news"), str(words), "--tape", "pos")
    given = ("--columns", "word,pos", "--set", "sweeps=20")
    more = ("--documents", str(tmp_path / "names.json"))
    ner = str(tmp_path / "news" / "ner.fstcrf")
    printed = program.run("tag", ner, *given, *more, given=tags).stdout.splitlines()
    text = read_columns(words, ("word",)).with_interned("pos", trained.tag_columns(corpus)[0])
    wanted = DocumentTagger(trained["ner"], [Consistency(SAME)], SWEEPS).tag_all(text)
    labels = [label for sentence in wanted for label in sentence]
    assert [x.split(" ")[2] for x in printed if x and "DOCSTART" not in x] == labels
