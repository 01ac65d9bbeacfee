"""Record batches and Parquet files: the same answers as from sentences, in columns of a schema."""

from __future__ import annotations

import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.constraints import exactly
from fstcrf.errors import DataError, ModelFileError, NoPathError, OptionError
from fstcrf.ext.arrow import tag_parquet, tagged_schema
from fstcrf.ext.calibration import Calibration, Events
from fstcrf.ext.tokens import Pieces, TokenDecoder
from fstcrf.text.corpus.collection import CorpusFiles
from tests.support.command import done, failure
from tests.support.joint_cases import TEST, taggers

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.extras

SENTENCES: list[dict[str, list[str]]] = [
    {"word": ["Anna", "Lee", "met", "Bob"], "pos": ["N", "N", "V", "N"]},
    {"word": [], "pos": []},
    {"word": ["it", "rained"], "pos": ["P", "V"]},
    {"word": ["Bob", "slept", "."], "pos": ["N", "V", "."]},
]
NER = [["B-PER", "I-PER", "O", "B-PER"], [], ["O", "O"], ["B-PER", "O", "O"]]


@pytest.fixture(scope="module")
def one() -> fstcrf.CRF:
    """A tagger that reads words."""
    return fstcrf.CRF.train(SENTENCES, NER, "U:%x[0,word]\nU1:%x[-1,word]\nB", l2=0.1)


@pytest.fixture(scope="module")
def both() -> fstcrf.CRF:
    """A tagger that reads words and parts of speech."""
    return fstcrf.CRF.train(SENTENCES, NER, "U:%x[0,word]\nU1:%x[0,pos]\nB", tape="ner", l2=0.1)


def rows(sentence: Any) -> list[dict[str, str]]:
    return [dict(zip(sentence, row, strict=True)) for row in zip(*sentence.values(), strict=True)]


def tokens(extra: Any = None, kind: Any = None) -> Any:
    kind = kind or pa.list_(pa.struct([("pos", pa.string()), ("word", pa.string())]))
    given = [rows(s) for s in SENTENCES]
    table = {"id": pa.array([7, 8, 9, 10]), "tokens": pa.array(given, type=kind)}
    return pa.RecordBatch.from_pydict(table | (extra or {}))


def gathered(batches: Any) -> dict[str, list[Any]]:
    return dict(pa.Table.from_batches(list(batches)).to_pydict())


# --- Feature functions ----------------------------------------------------------------------------


def of_words(sentence: Any) -> list[dict[str, Any]]:
    return [{"word": word, "ends": word[-1:]} for word in sentence["word"]]


def of_both(sentence: Any) -> list[list[str]]:
    return [[word, tag] for word, tag in zip(sentence["word"], sentence["pos"], strict=True)]


def imported(function: Any) -> Any:
    """A tagger over attribute lists that is given a function, whose columns are unknown."""
    given = [function(sentence) for sentence in SENTENCES]
    return fstcrf.CRF.train(given, NER, tape="ner", l2=0.1).with_features(function)


STRINGS = pa.list_(pa.string())
TABLES: dict[str, Any] = {
    "structs": tokens,
    "columns": lambda: pa.RecordBatch.from_pydict(
        {n: pa.array([s[n] for s in SENTENCES], type=STRINGS) for n in ("word", "pos")}
    ),
    "words of structs": lambda: tokens(kind=pa.list_(pa.struct([("word", pa.string())]))),
    "a column of words": lambda: pa.RecordBatch.from_pydict(
        {"word": pa.array([s["word"] for s in SENTENCES], type=STRINGS)}
    ),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("function", [of_words, of_both])
@pytest.mark.parametrize("trained", [True, False])
def test_functions_get_the_columns_of_the_table(table: str, function: Any, trained: bool) -> None:
    tagger = imported(function)
    if trained:
        tagger = fstcrf.CRF.train(SENTENCES, NER, function, tape="ner", l2=0.1)
    if function is of_both and "word" in table:
        with pytest.raises(DataError, match=r"function .*of_both stops: no column 'pos'"):
            gathered(fstcrf.tag_batches(tagger, [TABLES[table]()]))
        return
    both = fstcrf.compose(tagger, fstcrf.CRF.train(SENTENCES, NER, "U:%x[0,word]\nB", tape="x"))
    for one, tape in ((tagger, 0), (both, 0)):
        answers = gathered(fstcrf.tag_batches(one, [TABLES[table]()]))
        want = one.tag_all(SENTENCES)
        column = answers["labels" if one is tagger else "ner_labels"]
        assert column == (want if one is tagger else [labels[tape] for labels in want])


# --- Forms of sentences ---------------------------------------------------------------------------


def expected(tagger: Any, sentences: Any) -> dict[str, Any]:
    answer = tagger.decode(sentences)
    return {
        "labels": answer.labels(),
        "probability": answer.probabilities.tolist(),
        "spans": [
            [
                {"start": s.start, "end": s.end, "type": s.type, "probability": p}
                for s, p in zip(spans, shares.tolist(), strict=True)
            ]
            for spans, shares in zip(answer.spans(), answer.span_probabilities(), strict=True)
        ],
    }


def test_structs_have_the_columns_of_the_tagger(both: Any) -> None:
    found = gathered(fstcrf.tag_batches(both, iter([tokens()])))
    wanted = expected(both, SENTENCES)
    assert found["id"] == [7, 8, 9, 10]
    assert {name: found[name] for name in wanted} == wanted
    assert found["labels"] == NER


@pytest.mark.parametrize("kind", ["list", "large_list", "sliced", "dictionary", "large_string"])
def test_lists_of_strings_are_an_only_column(one: Any, kind: str) -> None:
    words = [s["word"] for s in SENTENCES]
    types = {
        "large_list": pa.large_list(pa.string()),
        "dictionary": pa.list_(pa.dictionary(pa.int32(), pa.string())),
        "large_string": pa.list_(pa.large_string()),
    }
    array = pa.array(words, type=types.get(kind, pa.list_(pa.string())))
    batch = pa.RecordBatch.from_pydict({"text": array})
    wanted = expected(one, SENTENCES)
    first = 0
    if kind == "sliced":
        batch, first = batch.slice(2, 2), 2
    found = gathered(fstcrf.tag_batches(one, [batch]))
    assert {name: found[name] for name in wanted} == {n: v[first:] for n, v in wanted.items()}


def test_several_lists_are_the_columns(both: Any) -> None:
    batch = pa.RecordBatch.from_pydict({n: [s[n] for s in SENTENCES] for n in ("pos", "word")})
    assert gathered(fstcrf.tag_batches(both, [batch]))["labels"] == NER


def test_text_is_cut_and_spans_know_its_characters(one: Any) -> None:
    text = ["Anna Lee met Bob.", None, "", "Bob   slept."]
    batch = pa.RecordBatch.from_pydict({"text": text})
    found = gathered(fstcrf.tag_batches(one, [batch]))
    assert found["tokens"][0] == ["Anna", "Lee", "met", "Bob", "."]
    assert found["tokens"][1] is None
    assert found["labels"][1] is found["probability"][1] is None
    assert found["labels"][2] == []
    spans = [text[0][s["start_char"] : s["end_char"]] for s in found["spans"][0]]  # type: ignore[index]
    assert spans == ["Anna Lee", "Bob"]
    assert (found["spans"][3][0]["start_char"], found["spans"][3][0]["end_char"]) == (0, 3)
    whole = fstcrf.tag_batches(one, [batch], tokenise=lambda t: [(0, len(t))] if t else [])
    assert gathered(whole)["tokens"][3] == ["Bob   slept."]


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([[{"w": "Anna", "n": 2.0}, {"w": "slept", "n": None}]], None),
        ([[["Anna", "big"], ["slept"]]], None),
        ([[[("Anna", 1.0)], [("slept", 2.0)]]], "map"),
    ],
)
def test_attributes_and_features(items: Any, kind: str | None) -> None:
    plain = [
        [
            dict(t) if kind else {k: v for k, v in t.items() if v} if isinstance(t, dict) else t
            for t in sentence
        ]
        for sentence in items
    ]
    tagger = fstcrf.CRF.train(plain, [["PER", "O"]], l2=0.1)
    type_ = pa.list_(pa.map_(pa.string(), pa.float64())) if kind else None
    batch = pa.RecordBatch.from_pydict({"tokens": pa.array(items, type=type_)})
    found = gathered(fstcrf.tag_batches(tagger, [batch]))
    assert found["labels"] == [["PER", "O"]]
    assert "spans" not in found
    assert found["probability"] == tagger.decode(plain).probabilities.tolist()


def test_tapes_have_columns_of_their_own(one: Any, both: Any) -> None:
    pos = fstcrf.CRF.train(SENTENCES, "pos", "U:%x[0,word]\nB", l2=0.1)
    joint = pos @ both
    kind = pa.list_(pa.struct([("word", pa.string()), ("pos", pa.string())]))
    found = fstcrf.tag_batches(joint, [tokens(kind=kind)])
    assert found.schema.names == [
        "id",
        "tokens",
        "pos_labels",
        "ner_labels",
        "ner_spans",
        "probability",
    ]
    assert gathered(found)["pos_labels"] == joint.decode(SENTENCES)["pos"].labels()


# --- What is asked --------------------------------------------------------------------------------


def test_outputs_and_names(one: Any) -> None:
    batch = pa.RecordBatch.from_pydict({"text": ["Anna slept"], "labels": ["x"]})
    with pytest.raises(OptionError, match="has a column 'labels' already: give another prefix"):
        fstcrf.tag_batches(one, [batch])
    found = fstcrf.tag_batches(one, [batch], prefix="ner_", outputs=["probabilities", "labels"])
    table = gathered(found)
    assert list(table) == ["text", "labels", "ner_tokens", "ner_labels", "ner_probabilities"]
    marginals = one.marginals_all([{"word": ["Anna", "slept"]}])[0]
    assert table["ner_probabilities"] == [marginals.max(axis=1).tolist()]


def test_the_schema_is_known_beforehand(one: Any, tmp_path: Path) -> None:
    one.save(tmp_path / "m.fstcrf")
    schema = pa.schema([("text", pa.string())])
    wanted = tagged_schema(one, schema)
    assert wanted.names == ["text", "tokens", "labels", "spans", "probability"]
    nothing = fstcrf.tag_batches(tmp_path / "m.fstcrf", iter([]), schema=schema)
    assert nothing.schema == wanted
    assert list(nothing) == list(fstcrf.tag_batches(one, iter([]))) == []
    some = fstcrf.tag_batches(one, [pa.RecordBatch.from_pydict({"text": ["a", "b"]})] * 3)
    assert [batch.schema == wanted for batch in some] == [True] * 3


def test_batches_are_read_as_they_are_asked_for(one: Any) -> None:
    asked = []

    def source() -> Any:
        for i in range(3):
            asked.append(i)
            yield pa.RecordBatch.from_pydict({"text": [f"Anna {i}"]})

    found = partial(fstcrf.tag_batches, one)(source())
    next(found)
    assert asked == [0]
    assert len(list(found)) == 2


def test_large_batches_and_threads_change_nothing(one: Any) -> None:
    words = [s["word"] for s in SENTENCES] * 2500
    batch = pa.RecordBatch.from_pydict({"tokens": words})
    found = list(fstcrf.tag_batches(one, [batch], threads=2))
    assert [b.num_rows for b in found] == [4096, 4096, 1808]
    assert gathered(found)["labels"] == NER * 2500


def test_sentences_without_a_path(one: Any) -> None:
    tagger = one & exactly(2, "PER")  # a single token has no two spans
    batch = pa.RecordBatch.from_pydict({"tokens": [["Anna", "met", "Bob"], ["Anna"]]})
    found = gathered(fstcrf.tag_batches(tagger, [batch], on_no_path="skip"))
    assert found["labels"] == [["B-PER", "I-PER", "B-PER"], None]
    assert found["spans"][1] is found["probability"][1] is None
    relaxed = gathered(fstcrf.tag_batches(tagger, [batch], on_no_path="relax"))
    assert relaxed["labels"][1] == ["B-PER"]
    with pytest.raises(NoPathError, match="sentence 3"):
        list(fstcrf.tag_batches(tagger, [batch.slice(0, 1), batch.slice(0, 1), batch]))


def test_frames_and_relations(one: Any) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    words = [s["word"] for s in SENTENCES]
    found = polars.DataFrame(fstcrf.tag_batches(one, polars.DataFrame({"tokens": words})))
    assert found["labels"].to_list() == NER
    frame = pandas.DataFrame({"text": ["Bob slept", "it rained"]})
    assert gathered(fstcrf.tag_batches(one, frame))["labels"] == [["B-PER", "O"], ["O", "O"]]
    duckdb = pytest.importorskip("duckdb")
    tagged = fstcrf.tag_batches(one, [pa.RecordBatch.from_pydict({"tokens": words})])  # noqa: F841
    counts = duckdb.sql("select sum(len(spans)) from tagged").fetchall()
    assert counts == [(3,)]


def test_dask_and_processes_elsewhere(one: Any, tmp_path: Path) -> None:
    dask, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    one.save(tmp_path / "m.fstcrf")
    job = pickle.loads(pickle.dumps(partial(fstcrf.tag_batches, tmp_path / "m.fstcrf")))
    meta = tagged_schema(one, pa.schema([("text", pa.string())])).empty_table().to_pandas()
    frame = dask.from_pandas(pandas.DataFrame({"text": ["Bob slept", "it rained"]}), npartitions=2)
    found = frame.map_partitions(
        lambda part: pa.table(job(part.reset_index(drop=True))).to_pandas(), meta=meta
    ).compute(scheduler="synchronous")
    assert [list(labels) for labels in found["labels"]] == [["B-PER", "O"], ["O", "O"]]


# --- What is too improbable -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibration() -> Any:
    events = Events.of([0.9, 0.9, 0.9, 0.1], [True, False, True, False], ["PER"] * 4)
    return Calibration.fit(events, "log-odds")


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("least", [0.0, 0.5, 0.6, 0.7, 1.0])
def test_parquet_is_as_sure_as_text(
    one: Any, calibration: Any, tmp_path: Path, least: float, calibrated: bool
) -> None:
    one.save(tmp_path / "m.fstcrf")
    words = [s["word"] for s in SENTENCES if s["word"]]
    (tmp_path / "in.txt").write_text("\n\n".join("\n".join(w) for w in words) + "\n\n")
    pq.write_table(pa.table({"tokens": words}), tmp_path / "in.parquet")
    options: list[object] = ["--min-confidence", least]
    if calibrated:
        calibration.save(tmp_path / "c.json")
        options += ["--calibration", tmp_path / "c.json"]
    text = done("tag", tmp_path / "m.fstcrf", tmp_path / "in.txt", "--columns", "word", *options)
    wanted = [[line.split()[1] for line in s.splitlines()] for s in text.strip().split("\n\n")]
    done(
        *("tag", tmp_path / "m.fstcrf", tmp_path / "in.parquet", *options),
        *("-o", tmp_path / "out.parquet"),
    )
    found = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert found["labels"] == wanted
    every = gathered(fstcrf.tag_batches(one, [pa.RecordBatch.from_pydict({"tokens": words})]))
    known = calibration if calibrated else lambda p, _: p
    for before, after in zip(every["spans"], found["spans"], strict=True):
        chances = [float(known(np.asarray([s["probability"]]), [s["type"]])[0]) for s in before]
        pairs = [(s, p) for s, p in zip(before, chances, strict=True) if p >= least]
        assert [(s["start"], s["end"], s["type"], s["probability"]) for s in after] == [
            (s["start"], s["end"], s["type"], p) for s, p in pairs
        ]


def test_improbable_labels_of_no_span_become_null(calibration: Any) -> None:
    pos = fstcrf.CRF.train(SENTENCES, "pos", "U:%x[0,word]\nB", l2=1.0)
    words = [s["word"] for s in SENTENCES]
    batch = pa.RecordBatch.from_pydict({"tokens": words})
    chances = [row.max(axis=1) for row in pos.marginals_all([{"word": w} for w in words])]
    least = float(np.median(np.concatenate(chances)))
    asked: Any = {"outputs": ["labels", "probabilities"], "min_confidence": least}
    found = gathered(fstcrf.tag_batches(pos, [batch], **asked))
    labels = gathered(fstcrf.tag_batches(pos, [batch]))["labels"]
    for k, row in enumerate(chances):
        sure = (row >= least).tolist()
        pairs = zip(labels[k], row.tolist(), sure, strict=True)
        wanted = [(label, p) if yes else (None, None) for label, p, yes in pairs]
        assert list(zip(found["labels"][k], found["probabilities"][k], strict=True)) == wanted
    assert None in found["labels"][0] + found["labels"][2] + found["labels"][3]
    other = gathered(fstcrf.tag_batches(pos, [batch], calibration=calibration, **asked))
    assert other["labels"] != found["labels"]


def test_confidence_that_cannot_be(one: Any, tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"tokens": [["Anna"]]})
    with pytest.raises(OptionError, match=r"min_confidence is 1\.5, expected a probability"):
        fstcrf.tag_batches(one, [batch], min_confidence=1.5)
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"c\.json"):
        fstcrf.tag_batches(one, [batch], calibration=tmp_path / "c.json")
    chain = fstcrf.compose(*taggers("pair"), normalize="chain")
    batch = pa.RecordBatch.from_pydict({"word": [s["word"] for s in TEST]})
    with pytest.raises(OptionError, match="normalize='chain' has no probabilities of spans"):
        fstcrf.tag_batches(chain, [batch], min_confidence=0.5)
    spans = gathered(fstcrf.tag_batches(chain, [batch]))
    assert "pos_labels" in spans


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        (
            {"a": [1], "b": ["x"], "c": ["y"]},
            None,
            "no column 'tokens' or 'text'.*set column= to one of a, b, c",
        ),
        ({"a": [1]}, "words", "no column 'words'; the columns are a"),
        ({"tokens": [3]}, None, "column 'tokens' is int64, expected text or lists of tokens"),
        ({"tokens": [[{"form": "x"}]]}, None, "no field 'word'; the fields are form"),
        ({"tokens": [["x"], ["y", None]]}, None, "sentence 1, token 1: 'word' is null"),
        ({"tokens": [[["x"]]]}, None, "'word' is list<.*> for each token, expected a string"),
    ],
)
def test_bad_tables_are_named(one: Any, table: Any, column: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        list(fstcrf.tag_batches(one, [pa.RecordBatch.from_pydict(table)], column=column))


def test_what_is_no_table(one: Any, both: Any) -> None:
    for given, words in (
        (3, "batches are int"),
        (["x"], "a batch is str"),
        ("ab", "batches are str"),
    ):
        with pytest.raises(DataError, match=words):
            fstcrf.tag_batches(one, given)  # type: ignore[arg-type]
    text = pa.RecordBatch.from_pydict({"text": ["x"]})
    with pytest.raises(DataError, match="is text, and the tagger reads the columns word, pos"):
        fstcrf.tag_batches(both, [text])
    with pytest.raises(OptionError, match="outputs is 'labels', expected some of"):
        fstcrf.tag_batches(one, [text], outputs="labels")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"sentence 0: the tokens .* overlap"):
        list(fstcrf.tag_batches(one, [text], tokenise=lambda _: [(0, 3)]))
    uneven = pa.RecordBatch.from_pydict({"word": [["a"], ["b"]], "pos": [["X"], ["X", "Y"]]})
    with pytest.raises(DataError, match="sentence 1: columns 'word' and 'pos' have lists of diff"):
        list(fstcrf.tag_batches(both, [uneven]))


def test_the_page_of_the_documentation_runs() -> None:
    pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    page = (ROOT / "docs" / "guides" / "serving.md").read_text(encoding="utf-8")
    part = page.partition("\n## Tables\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)
    assert len(blocks) == 2
    space: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "serving.md", "exec"), space)
    assert space["tagged"].schema.names[-3:] == ["labels", "spans", "probability"]


# --- Parquet --------------------------------------------------------------------------------------


def test_a_parquet_file_is_tagged_into_another(both: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.Table.from_batches([tokens()] * 3), source, row_group_size=2)
    assert tag_parquet(both, source, target) == 12
    found = pq.read_table(target)
    assert found.to_pydict()["labels"] == NER * 3
    assert found.schema.names == ["id", "tokens", "labels", "spans", "probability"]
    told: list[tuple[int, int]] = []
    assert tag_parquet(both, source, source, report=lambda *counts: told.append(counts)) == 12
    assert pq.read_table(source).equals(found)
    assert told[-1] == (12, 12)
    assert told == sorted(told)


def test_row_groups_are_large_and_their_order_stays(
    both: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    batches = [tokens().set_column(0, "id", pa.array(range(4 * k, 4 * k + 4))) for k in range(3000)]
    pq.write_table(pa.Table.from_batches(batches), source, row_group_size=700)
    tag_parquet(both, source, target)
    assert pq.ParquetFile(target).num_row_groups == 1
    assert pq.read_table(target)["id"].to_pylist() == list(range(12000))
    monkeypatch.setattr("fstcrf.ext.arrow.tables._GROUP_BYTES", 1)
    tag_parquet(both, source, source)
    assert pq.ParquetFile(source).num_row_groups > 2
    assert pq.read_table(source).equals(pq.read_table(target))


def test_nothing_is_written_where_something_fails(both: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    target.write_bytes(b"before")
    good, bad = SENTENCES[0]["word"], [*SENTENCES[0]["word"][:3], None]
    batch = pa.table({"word": [good] * 5000 + [bad], "pos": [SENTENCES[0]["pos"]] * 5001})
    pq.write_table(batch, source)
    with pytest.raises(DataError, match=r"in\.parquet, sentence 5000, token 3: 'word' is null"):
        tag_parquet(both, source, target)
    pq.write_table(pa.table({"id": [1]}), source)
    with pytest.raises(
        DataError, match=r"in\.parquet: no column 'tokens' or 'text'.*set column= to one of id"
    ):
        tag_parquet(both, source, target)
    source.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match=r"in\.parquet: no sound Parquet file"):
        tag_parquet(both, source, target)
    assert target.read_bytes() == b"before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_weights_count_in_parquet_files_too(tmp_path: Path) -> None:
    joint = fstcrf.compose(*taggers("pair"), normalize="product")
    joint.save(tmp_path / "m.fstcrf")
    words = [sentence["word"] for sentence in TEST]
    pq.write_table(pa.table({"word": words}), tmp_path / "in.parquet")
    model, source, target = (str(tmp_path / n) for n in ("m.fstcrf", "in.parquet", "out.parquet"))
    done("tag", model, source, "-o", target, "--weights", "1,0")
    found = pq.read_table(target).to_pydict()["pos_labels"]
    assert found == [list(labels) for labels, _ in joint.with_weights(1, 0).tag_all(TEST)]
    assert found != [list(labels) for labels, _ in joint.tag_all(TEST)]


def test_the_command_tags_parquet_files(both: Any, tmp_path: Path) -> None:
    both.save(tmp_path / "m.fstcrf")
    pq.write_table(pa.Table.from_batches([tokens()]), tmp_path / "in.parquet")
    model, source, target = (str(tmp_path / n) for n in ("m.fstcrf", "in.parquet", "out.parquet"))
    done("tag", model, source, "-o", target, "--probabilities", "--grammar", "bio")
    table = pq.read_table(target).to_pydict()
    assert table["labels"] == NER
    assert np.concatenate(table["probabilities"]).min() > 0.3
    for more, words in (
        (["-o", "out.txt"], "tagged into another: -o OUT.parquet"),
        (["-o", target, "--nbest", "2"], "--nbest is for text"),
        (["-o", target, "--set", "sweeps=2"], "--set sweeps is for text"),
        (["-o", target, "--format", "conllu"], "--format is for text"),
        (["-o", target, "--columns", "words"], "no column 'words'; the columns are id, tokens"),
        (["-o", target, "--columns", "id"], "column 'id' is int64"),
    ):
        status = 2 if words.startswith(("--", "tagged")) else 1
        assert words in failure("tag", model, source, *more, status=status)


def test_damaged_files_are_data_errors(one: fstcrf.CRF, tmp_path: Path) -> None:
    """Wherever they are cut or changed: by this package, also where pyarrow says it otherwise."""
    good, bad, out = (tmp_path / name for name in ("good.parquet", "bad.parquet", "out.parquet"))
    pq.write_table(pa.table({"word": [["Anna", "met"], ["it"]] * 9, "ä": ["x", "y"] * 9}), good)
    data, refused = good.read_bytes(), 0
    draw = np.random.default_rng(0)
    for trial in range(300):
        odd = bytearray(data[: draw.integers(len(data))] if trial % 3 == 0 else data)
        for place in draw.integers(max(1, len(odd)), size=3 if trial % 3 else 0).tolist():
            odd[place] = draw.integers(256)
        bad.write_bytes(odd)
        for read in (
            lambda: tag_parquet(one, bad, out),
            lambda: CorpusFiles([bad], ["word"]).read(),
        ):
            try:
                read()
            except (DataError, OptionError) as error:
                refused += "\n" not in str(error)
    assert refused > 300


# --- Decoders of token classifiers ----------------------------------------------------------------

LABELS = ["O", "B-PER", "I-PER"]
TEXTS = ["Anna met Bob", "it rained", "", None, "Ann Lee"]


def logits_of(text: str) -> list[list[float]]:
    return [[0.0, 3.0, 1.0] if word.istitle() else [2.0, 0.0, 0.0] for word in text.split()]


def places_of(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S+", text)]


def pieces_of(texts: Any) -> list[Pieces]:
    return [Pieces(logits_of(text), places_of(text), text=text) for text in texts]


def scored(texts: Any = TEXTS, **columns: Any) -> Any:
    """A table of scores of word pieces, as a model leaves them."""
    there = [text for text in texts if text is not None]
    table = {
        "text": pa.array(texts, pa.string()),
        "logits": pa.array([None if t is None else logits_of(t) for t in texts]),
        "offsets": pa.array([None if t is None else places_of(t) for t in texts]),
        "word_ids": pa.array(
            [None if t is None else list(range(len(t.split()))) for t in texts],
            pa.list_(pa.int64()),
        ),
    }
    assert there
    kept = table | columns
    return pa.RecordBatch.from_pydict({n: c for n, c in kept.items() if c is not None})


def shown(found: Any) -> list[Any]:
    rows = pa.table(found)["spans"].to_pylist()
    return [None if row is None else [tuple(span.values()) for span in row] for row in rows]


@pytest.fixture(scope="module")
def decoder() -> TokenDecoder:
    return TokenDecoder(LABELS, "bio", biases={"background_to_start": 0.5})


def wanted(decoder: TokenDecoder) -> list[Any]:
    found = iter(decoder.decode_all(pieces_of([text for text in TEXTS if text is not None])))
    return [None if text is None else [tuple(s) for s in next(found)] for text in TEXTS]


@pytest.mark.parametrize("way", ["scores", "no words", "other lists", "texts", "a file", "slices"])
def test_a_decoder_tags_tables(decoder: TokenDecoder, way: str, tmp_path: Path) -> None:
    model: Any = decoder
    options: dict[str, Any] = {}
    batch = scored()
    if way == "no words":
        batch = scored(word_ids=None)
    elif way == "other lists":
        fixed = pa.list_(pa.list_(pa.int32(), 2))
        batch = scored(offsets=None, offset_mapping=batch["offsets"].cast(fixed))
    elif way == "texts":
        batch, options = scored(logits=None, offsets=None, word_ids=None), {"pieces": pieces_of}
    elif way == "a file":
        model = tmp_path / "decoder.json"
        decoder.save(model)
    source = [batch.slice(k, 1) for k in range(5)] if way == "slices" else [batch]
    found = pa.table(fstcrf.tag_batches(model, source, **options))
    assert found.schema == tagged_schema(model, batch.schema, **options)
    assert found.column_names == [*batch.schema.names, "spans"]
    assert shown(found) == wanted(decoder)


def test_a_decoder_tags_files_and_leaves_out_what_is_not_sure(
    decoder: TokenDecoder, tmp_path: Path
) -> None:
    pq.write_table(pa.table(scored()), tmp_path / "in.parquet")
    assert tag_parquet(decoder, tmp_path / "in.parquet", tmp_path / "out.parquet", prefix="x_") == 5
    rows = pq.read_table(tmp_path / "out.parquet")["x_spans"].to_pylist()
    every = [s["probability"] for row in rows for s in row or ()]
    least = sorted(every)[len(every) // 2]
    sure = shown(fstcrf.tag_batches(decoder, scored(), min_confidence=least))
    assert [s[3] for row in sure for s in row or ()] == [p for p in every if p >= least]


def test_documents_without_a_labelling(decoder: TokenDecoder) -> None:
    two = decoder & exactly(2, "PER")
    with pytest.raises(NoPathError, match=r"^sentence 2: the grammar, or scores of -inf"):
        list(fstcrf.tag_batches(two, [scored(TEXTS[:1]), scored(TEXTS[1:])]))
    found = shown(fstcrf.tag_batches(two, scored(), on_no_path="skip"))
    assert [row and len(row) for row in found] == [2, 2, None, None, 2]


WRONG: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no scores": (lambda: scored(logits=None), {}, DataError, "no columns 'logits' and 'offsets'"),
    "flat": (
        *(lambda: scored(logits=pa.array([[1.0]] * 5)), {}, DataError),
        "'logits' is list<item: double>, expected lists of lists",
    ),
    "other labels": (
        *(lambda: scored(["it"] * 2, logits=pa.array([[[1.0] * 3], [[1.0] * 2]])), {}, DataError),
        "sentence 1: 'logits' is null or ragged, expected 3 numbers",
    ),
    "no number": (
        lambda: scored(["a", "b"], logits=pa.array([[[1.0] * 3], [[float("nan")] * 3]])),
        *({}, DataError, "sentence 1: piece 0 .* label 'O' is nan"),
    ),
    "labels": (scored, {"outputs": ["labels"]}, OptionError, r"a TokenDecoder gives spans"),
    "relax": (scored, {"on_no_path": "relax"}, OptionError, "'relax' is for taggers of sentences"),
    "tokens": (scored, {"tokenise": str.split}, OptionError, "tokenise= is for taggers"),
    "column": (scored, {"column": "text"}, OptionError, "pieces= is missing"),
    "no text": (scored, {"pieces": pieces_of, "column": "x"}, DataError, "no column 'x' of text"),
    "too few": (scored, {"pieces": lambda _: []}, DataError, "returned 0 documents for 4 texts"),
    "spans": (lambda: scored(spans=[1] * 5), {}, OptionError, "has a column 'spans' already"),
}


@pytest.mark.parametrize("case", WRONG)
def test_tables_that_a_decoder_cannot_tag(decoder: TokenDecoder, case: str) -> None:
    batch, options, error, says = WRONG[case]
    with pytest.raises(error, match=says):
        list(fstcrf.tag_batches(decoder, batch(), **options))


def test_pieces_are_for_decoders(one: fstcrf.CRF) -> None:
    with pytest.raises(OptionError, match="pieces= is for a TokenDecoder, and this is <CRF"):
        fstcrf.tag_batches(one, scored(), pieces=pieces_of)
