"""Feature functions: cascades, pipelines, files, and bad input."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import fstcrf
from fstcrf import CRF, Corpus, Sentence
from fstcrf.constraints import at_most
from fstcrf.errors import DataError, FstcrfError, OptionError
from fstcrf.taggers.pipelines import Pipeline, Task, load_pipeline, read_pipeline
from fstcrf.text.features.function import function_name
from fstcrf.training import Run
from fstcrf.training.executors import LocalExecutor
from tests.support.training import flat_train

DATA = [
    {"word": ["the", "dog", "ran"], "pos": ["D", "N", "V"], "chunk": ["B", "I", "O"]},
    {"word": ["a", "dog"], "pos": ["D", "N"], "chunk": ["B", "I"]},
    {"word": ["ran"], "pos": ["V"], "chunk": ["O"]},
] * 3
CORPUS = Corpus.from_sentences(DATA)
TEXT: list[Any] = [{"word": ["a", "dog", "ran"]}, {"word": []}, {"word": ["the", "ran"]}]
TEMPLATE = "U:%x[0,word]\nB\n"


def words(sentence: Sentence) -> list[list[str]]:
    return [[f"w={word}"] for word in sentence["word"]]


def tags(sentence: Sentence) -> list[dict[str, str]]:
    """Look at the tag of the token, and at those around it."""
    pos = ["^", *sentence["pos"], "$"]
    return [
        {"pos": pos[i], "before": pos[i - 1], "after": pos[i + 1]} for i in range(1, len(pos) - 1)
    ]


def pos_tagger(**options: Any) -> CRF:
    return flat_train(CORPUS, "pos", template=words, max_iterations=9, **options)


def chunker(pos: CRF, **options: Any) -> CRF:
    return flat_train(
        CORPUS,
        "chunk",
        template=tags,
        reads=[pos],
        max_iterations=9,
        **options,
    )


# --- Cascades -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"jackknife": 3}, {"passing": "nbest", "candidates": 2}])
def test_a_function_sees_predicted_labels_as_a_template_does(options: dict[str, Any]) -> None:
    def as_template(sentence: Sentence) -> list[list[str]]:
        return [[f"U:{label}"] for label in sentence["pos"]]

    pos = pos_tagger()
    computed = flat_train(
        CORPUS,
        "chunk",
        template=as_template,
        reads=[pos],
        max_iterations=9,
        **options,
    )
    template = flat_train(
        CORPUS,
        "chunk",
        "U:%y[0,pos]\nB\n",
        reads=[pos],
        max_iterations=9,
        **options,
    )
    assert [tape.name for tape in computed.reads] == ["pos"]
    assert computed.space.size == template.space.size
    assert computed.theta.tolist() == pytest.approx(template.theta.tolist(), abs=1e-6)


def test_gold_labels_of_the_text_are_replaced_by_predictions() -> None:
    wrong = CRF.train(
        [{"word": s["word"], "pos": ["N"] * len(s["word"])} for s in DATA]
        + [{"word": ["x"], "pos": ["Q"]}],
        "pos",
        features=words,
        max_iterations=9,
    )
    seen: set[str] = set()

    def curious(sentence: Sentence) -> list[list[str]]:
        seen.update(sentence["pos"])
        return words(sentence)

    CRF.train(CORPUS, "chunk", features=curious, reads=[wrong], max_iterations=2)
    assert seen == {"N"}


@pytest.mark.parametrize("grammar", [None, at_most(1, "B", tape="chunk")])
def test_a_cascade_is_the_taggers_one_after_the_other(grammar: Any) -> None:
    pos = pos_tagger()
    chunk = chunker(pos)
    both = fstcrf.compose(pos, chunk, grammar=grammar)
    expected = pos.tag_all(TEXT)
    given = [{**s, "pos": labels} for s, labels in zip(TEXT, expected, strict=True)]
    ruled: Any = chunk if grammar is None else chunk & at_most(1, "B")
    columns = both.cascade(TEXT)
    assert columns[0].strings() == [label for labels in expected for label in labels]
    assert columns[1].strings() == [label for labels in ruled.tag_all(given) for label in labels]


def test_joint_decoding_of_what_reads_labels_is_refused() -> None:
    pos = pos_tagger()
    for normalize in ("product", "chain"):
        both = fstcrf.compose(pos, chunker(pos), normalize=normalize)
        for question in (both.tag_all, both.decode):
            with pytest.raises(OptionError, match=r"tags of tape 'chunk' .* 'pos'.*\.cascade\("):
                question(TEXT)


def test_the_function_is_called_once_for_each_sentence() -> None:
    calls: list[int] = []

    def counted(sentence: Sentence) -> list[list[str]]:
        calls.append(len(sentence))
        return words(sentence)

    pos = CRF.train(CORPUS, "pos", features=counted, max_iterations=3)
    calls.clear()
    assert len(pos.decode(TEXT * 5, n=2).probabilities) == 15
    assert sorted(calls) == [2] * 5 + [3] * 5, "not of empty sentences"


def test_a_cascade_costs_little_more_than_its_taggers() -> None:
    text = [{"word": ["a", "dog", "ran", "the", "dog"] * 4}] * 300
    pos = pos_tagger()
    chunk = chunker(pos)
    both = fstcrf.compose(pos, chunk)
    plain: list[Any] = [CRF(**{**_parts(t), "index": _literal(t)}) for t in (pos, chunk)]

    def by_hand() -> None:
        found = plain[0].tag_all([words(Sentence(s)) for s in text])
        given = zip(text, found, strict=True)
        plain[1].tag_all([tags(Sentence({**s, "pos": labels})) for s, labels in given])

    def once(call: Callable[[], object]) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    hand, cascade = (
        min(once(call) for _ in range(5)) for call in (by_hand, lambda: both.cascade(text))
    )
    assert cascade < 2 * hand  # 1.1 on a quiet machine


def _parts(tagger: CRF) -> dict[str, Any]:
    return tagger.__getstate__()


def _literal(tagger: CRF) -> Any:
    return tagger.index.attributes_by_name  # type: ignore[union-attr]  # it has a function


# --- Pipelines and files --------------------------------------------------------------------------


def tasks() -> list[Task]:
    options = {"max_iterations": 9}
    return [
        Task("chunk", CORPUS, features=tags, reads=["pos"], options={**options, "jackknife": 3}),
        Task("pos", CORPUS, features=words, options=options),
    ]


def test_a_pipeline_of_functions(tmp_path: Path) -> None:
    told: list[str] = []
    trained = Pipeline(tasks(), decode="cascade").train(tmp_path / "p", told=told.append)
    expected = trained.tag_all(TEXT)
    assert [trained.tag(sentence) for sentence in TEXT] == expected
    assert trained.decode(TEXT)["chunk"].labels() is not None
    with pytest.raises(OptionError, match=r"with features=\{'pos': …, 'chunk': …\}"):
        load_pipeline(tmp_path / "p")
    functions: dict[str, Any] = {"pos": words, "chunk": tags}
    for loaded in (
        load_pipeline(tmp_path / "p", features=functions),
        fstcrf.load(tmp_path / "p", features=functions),
    ):
        assert loaded.tag_all(TEXT) == expected
    told.clear()
    Pipeline(tasks(), decode="cascade").train(tmp_path / "p", told=told.append)
    assert told == ["pos: finished before", "chunk: finished before"]


def test_a_changed_function_is_trained_again(tmp_path: Path) -> None:
    told: list[str] = []
    ending = "words"

    def changing(sentence: Sentence) -> list[list[str]]:
        return [[f"{ending}={word}"] for word in sentence["word"]]

    task = Task("pos", CORPUS, features=changing, options={"max_iterations": 2})
    Pipeline([task]).train(tmp_path / "p")
    ending = "other"
    Pipeline([task]).train(tmp_path / "p", told=told.append)
    assert told[0].startswith("pos: training")


def test_marginals_of_a_pipeline_are_refused() -> None:
    trained = Pipeline(tasks()).train()
    with pytest.raises(OptionError, match="decode='cascade'"):
        trained.tag_all(TEXT, decode="marginals")


def test_a_file_holds_the_name_only(tmp_path: Path) -> None:
    path = tmp_path / "pos.fstcrf"
    pos_tagger().save(path)
    message = (
        r"pos\.fstcrf: features=: this model was trained with the feature function "
        r".*test_feature_functions\.words; load it in Python with features=$"
    )
    for load in (fstcrf.load, CRF.load):
        with pytest.raises(OptionError, match=message):
            load(path)
    loaded = fstcrf.load(path, CRF, features=words)
    assert loaded.tag_all(TEXT) == pos_tagger().tag_all(TEXT)
    assert "words()" in str(loaded._facts()["reads"])


def test_names_of_functions() -> None:
    class Called:
        def __call__(self, sentence: Sentence) -> list[list[str]]:
            return words(sentence)

    assert function_name(words).endswith("test_feature_functions.words")
    assert function_name(partial(words)).endswith("test_feature_functions.words")
    assert function_name(Called()).endswith("Called")


# --- Bad input ------------------------------------------------------------------------------------


def odd(value: Any, at: int = 1) -> Callable[[Sentence], Any]:
    """Return a function whose entry for one token of sentences of three tokens is odd."""

    def features(sentence: Sentence) -> Any:
        rows: list[Any] = list(words(sentence))
        if len(rows) == 3:
            rows[at] = value
        return rows

    return features


def raising(sentence: Sentence) -> Any:
    return [1 / 0 for _ in sentence["word"]]


BAD: list[tuple[Callable[[Sentence], Any], str]] = [
    (raising, r"raising raises ZeroDivisionError: division by zero"),
    (lambda _: None, r"returns None, expected a list"),
    (lambda _: "abc", r"returns 'abc', expected a list"),
    (lambda _: {"a": 1}, r"returns \{'a': 1\}, expected a list"),
    (lambda s: words(s)[: 4 - len(words(s))], r"token 1: .*returns 1 entries, .* 3 tokens"),
    (lambda s: [*words(s), *[[]] * (len(words(s)) - 1)], r"returns 5 entries, .* 3 tokens"),
    (lambda s: s["lemma"], r"no column 'lemma'; there are 'word'"),
    (odd({"a": float("nan")}), r"token 1: .*attribute 'a' is nan"),
    (odd({"a": object()}), r"token 1: .*attribute 'a' is <object"),
    (odd({1: "b"}), r"token 1: .*the key 1 is not a string"),
    (odd(None), r"token 1: .*None is neither a list of attributes nor a dict"),
    (odd([1, 2]), r"token 1: .*\[1, 2\] holds something that is not a string"),
    (odd(("a", "b")), r"token 1: .*is a row of columns"),
]


@pytest.mark.parametrize(("function", "message"), BAD)
def test_errors_name_the_function_and_the_place(
    function: Callable[[Sentence], Any], message: str, tmp_path: Path
) -> None:
    data = [{"word": [w], "pos": ["N"]} for w in "ab"] + [DATA[0]]
    first = r"sentence [02](, token \d)?: features=: the function \S+ "
    with pytest.raises(DataError, match=message) as caught:
        CRF.train(data, "pos", features=function)
    assert "\n" not in str(caught.value)
    assert re.match(first, str(caught.value))
    tagger = pos_tagger().with_features(function)
    with pytest.raises(DataError, match=first):
        tagger.tag_all([{"word": ["a"]}, {"word": ["b"]}, {"word": ["a", "dog", "ran"]}])
    path = tmp_path / "text"
    path.write_text("a\n\nb\n\na\ndog\nran\n")
    with pytest.raises(DataError, match=rf"^{path}:\d: features="):
        tagger.tag_all(fstcrf.read_columns(path, ["word"]))


def test_the_error_of_a_function_is_kept() -> None:
    with pytest.raises(DataError) as caught:
        CRF.train(CORPUS, "pos", features=raising)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_labels_that_no_earlier_tagger_writes() -> None:
    plain = Corpus.from_sentences([{"word": s["word"], "chunk": s["chunk"]} for s in DATA])
    with pytest.raises(DataError, match=r"tags stops: no column 'pos'; there are 'word'; reads="):
        CRF.train(plain, "chunk", features=tags)
    chunk = chunker(pos_tagger())
    with pytest.raises(DataError, match="labels of tape 'pos'"):
        chunk.tag_all(TEXT)
    with pytest.raises(DataError, match=r"token 1: tape 'pos' has the label 'X'"):
        chunk.tag({"word": ["a", "b"], "pos": ["D", "X"]})


def _saved(tmp_path: Path, tagger: Any) -> Path:
    tagger.save(tmp_path / "saved.fstcrf")
    return tmp_path / "saved.fstcrf"


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "neither": (lambda _: CRF.train(CORPUS, "pos"), "or a feature function: features=f"),
    "attribute lists": (
        lambda _: CRF.train([[["a"]]], [["N"]], features=words),
        "need columns, not attribute lists",
    ),
    "marginals": (lambda _: chunker(pos_tagger(), passing="marginals"), "passing='best'"),
    "in parts": (
        lambda _: CRF.train(CORPUS, "pos", features=words, run=Run(memory_limit=10**9)),
        "a feature function needs all of the text in memory, without an executor or a limit of mem",
    ),
    "on several processes": (
        lambda _: CRF.train(CORPUS, "pos", features=words, run=Run(executor=LocalExecutor())),
        "a feature function needs all of the text in memory.*: pass templates",
    ),
    "warm start of a template": (
        lambda _: pos_tagger(start=CRF.train(CORPUS, "pos", TEMPLATE, max_iterations=2)),
        "start reads a template",
    ),
    "warm start of a function": (
        lambda _: CRF.train(CORPUS, "pos", TEMPLATE, start=pos_tagger()),
        "start has a feature function",
    ),
    "load: no function": (
        lambda path: fstcrf.load(_saved(path, pos_tagger()), features=cast("Any", "words")),
        "features is 'words', expected a function",
    ),
    "load: another tape": (
        lambda path: fstcrf.load(_saved(path, pos_tagger()), features={"ner": words}),
        "features= has 'ner'; the tapes are pos",
    ),
    "load: a template": (
        lambda path: fstcrf.load(
            _saved(path, CRF.train(CORPUS, "pos", TEMPLATE, max_iterations=2)), features=words
        ),
        "the model reads templates, not a function",
    ),
    "load: one function for two": (
        lambda path: fstcrf.load(
            _saved(path, pos_tagger() @ pos_tagger().renamed("other")), features=words
        ),
        "pass a dict from tape to function; the tapes are pos, other",
    ),
    "task: both": (
        lambda _: Task("pos", CORPUS, TEMPLATE, features=words),
        "task 'pos': template and features both compute attributes",
    ),
    "task: neither": (lambda _: Task("pos", CORPUS), "task 'pos': .*features=f"),
    "task: no function": (
        lambda _: Task("pos", CORPUS, features="words"),  # type: ignore[arg-type]
        "features is 'words', expected a function",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    call, message = REFUSED[case]
    with pytest.raises(FstcrfError, match=message) as caught:
        call(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_toml_file_cannot_hold_a_function(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a N\n\n")
    (tmp_path / "t.tpl").write_text(TEMPLATE)
    task = '[task.pos]\ndata = "text"\ncolumns = ["word", "pos"]\ntemplate = "t.tpl"\n'
    (tmp_path / "p.toml").write_text(task + 'features = "module.words"\n')
    with pytest.raises(OptionError, match=r"\[task.pos\] has features: a TOML file cannot hold"):
        read_pipeline(tmp_path / "p.toml")
    pos_tagger().save(tmp_path / "m")
    (tmp_path / "p.toml").write_text('[task.pos]\nmodel = "m"\n')
    with pytest.raises(OptionError, match=r"\[task.pos\].*in Python with features="):
        read_pipeline(tmp_path / "p.toml")
