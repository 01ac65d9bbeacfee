"""Wrong arguments of training are refused alike by all doors, in one line, before anything runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf import CRF, LatticeCRF, SegmentCRF
from fstcrf.errors import DataError, FstcrfError, OptionError, TemplateError
from fstcrf.ext.rules import learn_rules, train_with_rules
from fstcrf.ext.segments.structure import Segments
from fstcrf.ext.sklearn import CRFTagger
from fstcrf.ext.tune import tune
from fstcrf.ext.words import Annotation, Words
from fstcrf.taggers.pipelines import Pipeline, Task, read_pipeline
from fstcrf.training import Chain, Dev, Features, Gold, Reads, Run
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.likelihood import LikelihoodSettings
from tests.golden.cases import lexicon
from tests.support.command import run

SENTENCES = [
    {"word": ["the", "oak"], "pos": ["D", "N"], "case": ["x", "y"], "np": ["B-NP", "I-NP"]},
    {"word": ["she", "ran"], "pos": ["N", "V"], "case": ["x", "x"], "np": ["B-NP", "O"]},
] * 3
CORPUS = fstcrf.Corpus.from_sentences(SENTENCES)
COLUMNS = list(CORPUS.columns)
WORDS = "U:%x[0,word]\nB\n"
FEW: dict[str, Any] = {"max_iterations": 2}


def tagger(target: str, template: str = WORDS, **options: Any) -> CRF:
    return CRF.train(CORPUS, target, template, **FEW, **options)


# --- Taggers of reads= that a template needs ------------------------------------------------------


def by_task(template: str, names: list[str]) -> None:
    earlier = [Task(name, CORPUS, WORDS, options=FEW) for name in names]
    Pipeline([*earlier, Task("np", CORPUS, template, reads=names, options=FEW)]).train()


def by_toml(folder: Path) -> Callable[[str, list[str]], None]:
    def declared(template: str, names: list[str]) -> None:
        fstcrf.write_columns(CORPUS, folder / "text", COLUMNS)
        (folder / "np.tpl").write_text(template)
        (folder / "words.tpl").write_text(WORDS)
        columns = json.dumps(COLUMNS)
        head = f'[task.{{}}]\ndata = "text"\ncolumns = {columns}\ntemplate = "{{}}"\n'
        tasks = [head.format(name, "words.tpl") for name in names]
        reads = f"reads = {json.dumps(names)}\n"
        (folder / "p.toml").write_text("".join([*tasks, head.format("np", "np.tpl"), reads]))
        read_pipeline(folder / "p.toml").train()

    return declared


def by_shell(folder: Path) -> Callable[[str, list[str]], None]:
    def trained(template: str, names: list[str]) -> None:
        fstcrf.write_columns(CORPUS, folder / "text", COLUMNS)
        (folder / "np.tpl").write_text(template)
        options = ["--columns", ",".join(COLUMNS), "--target", "np", "--max-iterations", "2"]
        for name in names:
            tagger(name).save(folder / f"{name}.fstcrf")
            options += ["--reads", str(folder / f"{name}.fstcrf")]
        paths = ["--template", folder / "np.tpl", "--output", folder / "np.fstcrf"]
        result = run("train", folder / "text", *paths, *options)
        if result.exit_code:
            line = result.stderr.strip().removeprefix("fstcrf: ").removeprefix("error: ")
            raise TemplateError(line)

    return trained


Reading = Callable[[str, list[str]], Any]


def reading_doors(folder: Path) -> Iterator[tuple[str, Reading]]:
    def taggers(names: list[str]) -> list[CRF]:
        return [tagger(name) for name in names]

    yield "CRF.train", lambda template, names: tagger("np", template, reads=taggers(names))
    yield (
        "train",
        lambda template, names: fstcrf.train(
            CORPUS, "np", Features(template), reads=Reads(taggers(names)), **FEW
        ),
    )
    yield (
        "tune",
        lambda template, names: tune(
            CORPUS, "np", template, folds=2, reads=taggers(names), l2=[0.1, 1.0], l1=0, **FEW
        ),
    )
    yield "Task", by_task
    yield "TOML", by_toml(folder)
    yield "shell", by_shell(folder)


READS: list[tuple[str, list[str], str | None]] = [
    ("U:%x[0,word]\nU1:%y[0,pos]\nB\n", ["pos"], None),
    ("U:%y[0,pos]/%y[0,case]\nB\n", ["case", "pos"], None),
    (
        WORDS,
        ["pos"],
        "reads= has the tagger of 'pos', whose labels no template reads: add %y[0,pos]",
    ),
    ("U:%y[0,pos]\nB\n", ["case", "pos"], "reads= has the tagger of 'case', whose labels no"),
    ("U:%y[0,pos]\nB\n", [], "a template reads the labels of 'pos', and reads= lacks its tagger"),
    (
        "U:%y[0,pos]\nB\n",
        ["case"],
        "labels of 'pos', and reads= lacks its tagger; reads= has 'case'",
    ),
]


@pytest.mark.parametrize("case", range(len(READS)))
def test_reads_names_the_taggers_that_templates_read(case: int, tmp_path: Path) -> None:
    template, names, message = READS[case]
    for door, train in reading_doors(tmp_path):
        if message is None:
            train(template, names)
            continue
        with pytest.raises(TemplateError, match=re.escape(message)) as caught:
            train(template, names)
        assert "\n" not in str(caught.value), door


def test_a_tagger_that_another_one_reads_is_needed() -> None:
    pos = tagger("pos")
    case = tagger("case", "U:%y[0,pos]\nB\n", reads=[pos])
    np = tagger("np", "U:%y[0,case]\nB\n", reads=[case, pos])
    assert [tape.name for tape in np.reads] == ["case"]
    with pytest.raises(OptionError, match="the tagger of tape 'case' reads tape 'pos': add"):
        tagger("np", "U:%y[0,case]\nB\n", reads=[case])


def test_what_a_function_reads_is_unknown() -> None:
    made = CRF.train(
        CORPUS, "np", lambda s: [[word] for word in s["word"]], reads=[tagger("pos")], **FEW
    )
    assert [tape.name for tape in made.reads] == ["pos"]


# --- Structs of another kind, and settings that are given twice -----------------------------------


def by_task_options(**options: Any) -> Task:
    return Task("np", CORPUS, WORDS, options=options)


def by_options_of_scikit_learn(**options: Any) -> CRFTagger:
    tables = [[[word] for word in sentence["word"]] for sentence in SENTENCES]
    labels = [sentence["np"] for sentence in SENTENCES]
    return CRFTagger(**options).fit(tables, labels)


RULES = 'export TWO = each["[tag=B-NP]" "[tag=I-NP]", <?>];'
DOORS: dict[str, Callable[..., Any]] = {
    "CRF.train": lambda **o: CRF.train(CORPUS, **{"target": "np", "features": WORDS, **o}),
    "train": lambda **o: fstcrf.train(CORPUS, **{"target": "np", "features": WORDS, **o}),
    "segments": lambda **o: SegmentCRF.train(CORPUS, **{"target": "np", "features": WORDS, **o}),
    "train segments": lambda **o: fstcrf.train(
        CORPUS, **{"target": "np", "features": WORDS, "structure": Segments(), **o}
    ),
    "words": lambda **o: LatticeCRF.train(
        [Annotation.of_words(["ab", "c"])],
        **{"features": "UNIGRAM A:%F[0]\n", "structure": Words(lexicon()), **o},
    ),
    "rules": lambda **o: learn_rules(tagger("np"), CORPUS, RULES, **o),
    "tagger and rules": lambda **o: train_with_rules(tagger("np"), CORPUS, RULES, **o),
    "Task": by_task_options,
    "scikit-learn": by_options_of_scikit_learn,
}
CHAINS = ("CRF.train", "train")
LEARNERS = ("segments", "train segments", "words", "rules", "tagger and rules")
TRAINERS = (*CHAINS, "segments", "train segments", "words")
Case = tuple[tuple[str, ...], dict[str, Any], str]
WRONG: list[Case] = [
    # Structs of another kind
    (
        (*CHAINS, "Task", "scikit-learn"),
        {"method": Chain()},
        "method is Chain(), expected settings of the method",
    ),
    ((*CHAINS, "Task"), {"method": LBFGS}, "expected settings of the method, or one of 'lbfgs'"),
    (LEARNERS, {"method": Chain(order=2)}, "method is Chain(order=2), expected 'lbfgs' or LBFGS"),
    (LEARNERS, {"method": LBFGS}, "LBFGS'>, expected 'lbfgs' or LBFGS(...)"),
    ((*CHAINS, "Task"), {"objective": LBFGS()}, "objective is LBFGS(), expected settings of the"),
    ((*CHAINS, *LEARNERS), {"run": LBFGS()}, "run is LBFGS(), expected Run(...)"),
    ((*CHAINS, *LEARNERS), {"run": {"threads": 2}}, "run is {'threads': 2}, expected Run(...)"),
    (TRAINERS, {"dev": Run()}, "dev is Run(), expected Dev(...)"),
    (TRAINERS, {"structure": Run()}, "structure is Run(), expected"),
    (TRAINERS, {"structure": "chain"}, "structure is 'chain', expected"),
    (CHAINS, {"features": Chain()}, "features is Chain(), expected Features(...)"),
    (("segments", "train segments"), {"features": Chain()}, "features is Chain(), expected templ"),
    (TRAINERS[:4], {"target": Chain()}, "target is Chain(), expected"),
    (CHAINS, {"reads": Chain()}, "reads is Chain(), expected Reads(...)"),
    (CHAINS, {"start": Chain()}, "start is Chain(), expected a tagger"),
    (CHAINS, {"grammar": Chain()}, "grammar is Chain(), expected a Grammar"),
    (("Task",), {"structure": Chain()}, "options has 'structure': name the options of Chain(...)"),
    (("Task",), {"run": Run()}, "options has 'run': name the options of Run(...) themselves"),
    (("Task",), {"dev": Dev(CORPUS)}, "options has 'dev', which is an argument of Task: dev="),
    # Given twice
    (
        (*CHAINS, *LEARNERS, "Task", "scikit-learn"),
        {"method": LBFGS(l2=0.5), "l2": 0.5},
        "l2 is given twice, as an option and in method=LBFGS(...)",
    ),
    (
        (*CHAINS, *LEARNERS, "Task", "scikit-learn"),
        {"method": LBFGS(max_iterations=5), "max_iterations": 5},
        "max_iterations is given twice, as an option and in method=LBFGS(...)",
    ),
    (
        CHAINS,
        {"structure": Chain(order=1), "order": 1},
        "order is given twice, as an option and in",
    ),
    (CHAINS, {"structure": Chain(scheme="io"), "scheme": "io"}, "scheme is given twice, as an opt"),
    # What one door reads and another does not
    (LEARNERS, {"run": Run(seed=3)}, "seed is no option of this training; it has l2"),
    (("segments",), {"target": Gold("np", partial=True)}, "partial is no option of segments"),
    (CHAINS, {"method": "pa", "objective": "mce"}, "'pa', which is for objective 'likelihood'"),
    (CHAINS, {"method": "pa", "l2": 1.0}, "l2 needs method"),
    (("Task",), {"method": "pa", "l2": 1.0}, "task 'np': l2 needs method"),
    (CHAINS, {"objective": LikelihoodSettings, "l2": 1.0}, "objective is <class"),
]
WRONG_AT = [(door, *case[1:]) for case in WRONG for door in case[0]]


@pytest.mark.parametrize(
    ("door", "arguments", "message"), WRONG_AT, ids=[f"{d}-{m[:30]}" for d, _, m in WRONG_AT]
)
def test_wrong_arguments_are_refused_in_one_line(
    door: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(FstcrfError, match=re.escape(message)) as caught:
        DOORS[door](**arguments)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


# --- Feature functions ----------------------------------------------------------------------------


def by_pipeline(function: Any) -> Any:
    return Pipeline([Task("np", CORPUS, features=function, options=FEW)]).train()


def by_tagging(function: Any) -> Any:
    data = [[[word] for word in sentence["word"]] for sentence in SENTENCES]
    plain = CRF.train(data, [sentence["np"] for sentence in SENTENCES], **FEW)
    return plain.with_features(function).tag_all(CORPUS)


CALLING: dict[str, Callable[[Any], Any]] = {
    "CRF.train": lambda function: CRF.train(CORPUS, "np", function, **FEW),
    "train": lambda function: fstcrf.train(CORPUS, "np", Features(function), **FEW),
    "held out": lambda function: CRF.train(CORPUS, "np", function, dev=CORPUS, **FEW),
    "Task": by_pipeline,
    "scikit-learn": lambda function: CRFTagger(function).fit(
        [{"word": s["word"]} for s in SENTENCES], [s["np"] for s in SENTENCES]
    ),
    "tagging": by_tagging,
}


def last(value: Any) -> Callable[[fstcrf.Sentence], Any]:
    """Return a function with a good list for each token, but for the last of a sentence."""
    return lambda sentence: [*([word] for word in sentence["word"][:-1]), value]


BAD: dict[str, tuple[Any, str]] = {
    "raises": (lambda _: [1 / 0], "raises ZeroDivisionError: division by zero"),
    "None": (lambda _: None, "returns None, expected a list with an entry for each token"),
    "too few": (lambda _: [["a"]], "token 1: .*returns 1 entries, the sentence has 2 tokens"),
    "too many": (lambda _: [["a"]] * 3, "returns 3 entries, the sentence has 2 tokens"),
    "no number": (last({"a": "b", "c": None}), "token 1: .*attribute 'c' is None, expected a str"),
    "an array": (last({"a": b"b"}), "token 1: .*attribute 'a' is b'b', expected a string"),
    "not finite": (last({"a": float("inf")}), "token 1: .*attribute 'a' is inf, expected a num"),
    "no column": (lambda s: [[x] for x in s["ner"]], "stops: no column 'ner'; there are 'word'"),
    "the gold labels": (lambda s: [[x] for x in s["np"]], "stops: no column 'np'; there are 'w"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("door", CALLING)
def test_bad_functions_are_named_with_the_place(door: str, case: str) -> None:
    if (door, case) == ("tagging", "the gold labels"):
        assert len(CALLING[door](BAD[case][0])) == len(SENTENCES), "an imported model names none"
        return
    function, message = BAD[case]
    with pytest.raises(DataError, match=message) as caught:
        CALLING[door](function)
    assert re.search(r"sentence 0(, token 1)?: features=: the function \S+ ", str(caught.value))
    assert "\n" not in str(caught.value)


def test_structures_without_feature_functions_name_templates() -> None:
    for door, message in (("segments", "templates of tokens"), ("words", "templates of words")):
        for odd in (by_tagging, Chain()):
            with pytest.raises(OptionError, match=f"features is .*, expected {message}, or a path"):
                DOORS[door](features=odd)
    several: list[Any] = [by_tagging, Chain(), [WORDS, by_tagging], {"a": by_tagging}]
    for given in several:
        with pytest.raises(OptionError, match=r"template is .*, expected templates, or a path"):
            tune(CORPUS, "np", given, folds=2)


def test_a_struct_is_shown_as_the_call_that_makes_it() -> None:
    for struct in (Chain(), Chain(order=2, ends=True), LBFGS(l2=0.25), Run(threads=3)):
        assert eval(repr(struct)) == struct
    assert repr(Gold("np", partial=True)) == "Gold(partial=True, labels='np')"
