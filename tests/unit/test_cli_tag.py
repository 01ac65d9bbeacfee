"""`fstcrf tag`: columns in, columns and labels out; probabilities, forced labels, bad input."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path
from fstcrf.taggers import CRF
from tests.support.command import done, failure, run, start

TEMPLATE = "U0:%x[0,word]\nU1:%x[0,pos]\nU2:%x[-1,pos]\nB\n"
TEXT = """\
-DOCSTART- -X- O

the DET O
hall NOUN O

at PREP O
noon NOUN B-START


-DOCSTART- -X- O

today NOUN B-DAY

"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tagger of fields, the same under a scheme, and one that reads strings."""
    folder = tmp_path_factory.mktemp("models")
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:200]
    for name, scheme in (("field", None), ("strict", "iob2")):
        CRF.train(data, "field", TEMPLATE, scheme=scheme, max_iterations=15).save(
            folder / f"{name}.fstcrf"
        )
    CRF.train([[["a"], ["b"]]], [["X", "Y"]], max_iterations=2).save(folder / "literal.fstcrf")
    return folder


@pytest.fixture
def field(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The model of fields; the current folder holds in.txt."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text(TEXT)
    return str(models / "field.fstcrf")


def library(model: str, text: str = TEXT) -> tuple[CRF, fstcrf.Corpus]:
    Path("library.txt").write_text(text)
    return CRF.load(model), fstcrf.read_columns("library.txt", COLUMNS)


ROWS = (
    "the DET O",
    "the\tDET\tO",
    "hall  NOUN O ",
    "",
    " \t",
    "",
    "-DOCSTART- -X- O",
    "-DOCSTART-",
)


@pytest.mark.parametrize("seed", range(12))
def test_what_comes_out_is_the_input_with_a_column(
    field: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank lines, document lines, blanks, line ends and the end of the file stay as they are."""
    import fstcrf.text.corpus

    draw, end = random.Random(seed), ("\r\n", "\n", "\r")[seed % 3]
    text = end.join(draw.choice(ROWS) for _ in range(draw.choice((1, 4, 60)))) + end * (seed % 2)
    data = "\ufeff" * (seed % 4 == 0) + text
    Path("odd.txt").write_bytes(data.encode())
    corpus = fstcrf.read_columns("odd.txt", COLUMNS, allow_empty=True)
    labels = iter(label for s in CRF.load(field).tag_all(corpus) for label in s)
    rows = text.split(end[-1])
    tokens = [k for k, row in enumerate(rows) if row.split() and "-DOCSTART-" not in row]
    between = "\t" if tokens and "\t" in rows[tokens[0]] else " "
    for k in tokens:
        windows = "\r" * rows[k].endswith("\r")
        rows[k] = rows[k].removesuffix("\r") + between + next(labels) + windows
    stream = fstcrf.text.corpus.stream_columns
    monkeypatch.setattr(
        "fstcrf.cli.sources.stream_columns",
        lambda *given, **options: stream(*given, **options, batch_tokens=draw.choice((3, 1000))),
    )
    done("tag", field, "odd.txt", "-o", "out.txt")
    assert Path("out.txt").read_bytes().decode() == data[: len(data) - len(text)] + end[-1].join(
        rows
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_sentences_that_come_several_times_keep_what_opens_them_once(field: str, end: str) -> None:
    text = end.join(
        ["", "-DOCSTART- X", "", "the DET O", "", "", "at PREP O", "-DOCSTART-", "noon N O"]
    )
    Path("odd.txt").write_bytes(text.encode())
    done("tag", field, "odd.txt", "--nbest", 2, "-o", "out.txt")
    found = Path("out.txt").read_bytes().decode()
    assert found.count(end[-1]) == found.count(end)
    shown = [line if "DOC" in line else line.rpartition(" ")[0] for line in found.split(end)]
    sentences = [["# 0", row, "", "# 1", row] for row in ("the DET O", "at PREP O", "noon N O")]
    first, second, third = sentences
    assert shown == ["", "-DOCSTART- X", "", *first, "", "", *second, "-DOCSTART-", *third]


def test_the_last_columns_may_be_missing(field: str) -> None:
    short = "".join(
        line.rpartition(" ")[0] + "\n" if line and "DOC" not in line else line + "\n"
        for line in TEXT.splitlines()
    )
    found, whole = (done("tag", field, given=text).split("\n") for text in (short, TEXT))
    assert [line.split()[-1:] for line in found] == [line.split()[-1:] for line in whole]
    assert all(len(line.split()) == 3 for line in found if line and "DOC" not in line)
    line = failure("tag", field, given="the\nhall\n\n")
    assert line == "<stdin>:1: 1 column, expected at least 2 (word, pos): 'the'"


def test_other_columns_and_separators(field: str) -> None:
    text = "DET\tNew York\nNOUN\thall\n\n"
    found = done("tag", field, "--columns", "pos,word", "--set", "separator=tab", given=text)
    assert [line.split("\t")[:2] for line in found.splitlines()[:2]] == [
        ["DET", "New York"],
        ["NOUN", "hall"],
    ]
    line = failure("tag", field, "--columns", "pos,shape", given="DET X\n\n")
    assert "reads column 'word'" in line


# --- Probabilities --------------------------------------------------------------------------


def test_probabilities_and_marginals(field: str) -> None:
    model, data = library(field)
    lattice = model.lattice(data[1])
    best, marginals = lattice.best(), lattice.marginals()
    lines = done("tag", field, "in.txt", "--probabilities").splitlines()
    at = lines.index(next(line for line in lines if line.startswith("at ")))
    assert lines[at - 1] == f"# {best.probability:f}"
    column = model.labels.index(best.labels[0])
    assert lines[at] == f"at PREP O {best.labels[0]}/{marginals[0, column]:f}"
    more = done("tag", field, "in.txt", "--marginals").splitlines()
    every = [f"{name}/{p:f}" for name, p in zip(model.labels, marginals[0], strict=True)]
    assert more[at] == " ".join([lines[at], *every])
    assert sum(line.startswith("# ") for line in lines) == len(data)


# --- What is known beforehand ---------------------------------------------------------------


def test_a_forced_label_must_be_known(field: str) -> None:
    text = "the DET _\nhall NOUN B-HAUL\n\n"
    line = failure("tag", field, "--force", "field", given=text)
    assert line.startswith("<stdin>:2: 'B-HAUL' in column 'field' is not a label of the model")
    assert failure("tag", field, "in.txt", "--force", "gold").startswith(
        "in.txt: no column 'gold'; there are 'word', 'pos', 'field'"
    )
    assert "unknown label 'X'" in failure("tag", field, "in.txt", "--bias", "X=1")


GRAMMARS = {
    "one": 'export ONE = at_most[1, "B-DAY"];\n',
    "long": "export LONG = any{3,};\n",
    "none": "",
}


BY_LABELS = "the labels forced by column 'field' "
BOTH = f"{BY_LABELS}and the grammar are to blame, "
NOTHING_LEGAL = "no label sequence is legal from here on"


@pytest.mark.parametrize(
    ("labels", "grammar", "message"),
    [
        ("O I-HOST", "none", f"{BY_LABELS}alone, which the scheme of the tagger forbids: "),
        ("O I-HOST", "one", f"{BY_LABELS}alone, which the scheme of the tagger forbids: "),
        ("B-DAY B-DAY", "one", f"{BOTH}but only together: "),
        ("B-DAY O", "long", "the grammar alone is to blame, whatever is forced: "),
        ("O I-HOST", "long", f"{BOTH}each by itself: "),
    ],
)
def test_what_is_to_blame_where_forced_labels_leave_no_path(
    strict: str, labels: str, grammar: str, message: str
) -> None:
    """Forced labels, scheme and grammar are tried each alone."""
    options = []
    if GRAMMARS[grammar]:
        Path(f"{grammar}.grm").write_text(GRAMMARS[grammar])
        options = ["--grammar", f"{grammar}.grm"]
    first, second = labels.split()
    text = f"the DET {first}\nhall NOUN {second}\n\n"
    told = failure("tag", strict, "--force", "field", *options, given=text)
    assert told.startswith(f"<stdin>:2: {message}{NOTHING_LEGAL}")
    assert told.endswith("; --on-no-path skip or relax goes on")
    assert (f" under {grammar}.grm:1" in told) == ("the grammar" in message and "each" not in told)


NO_PATH = "the DET O\nhall NOUN I-HOST\n\nat PREP _\nnoon NOUN _\n\n"


@pytest.fixture
def strict(field: str, models: Path) -> str:
    """A model in which no path agrees with O I-HOST."""
    assert field
    return str(models / "strict.fstcrf")


def test_no_path_is_skipped(strict: str) -> None:
    options = ["--force", "field", "--on-no-path", "skip"]
    result = run("tag", strict, *options, given=NO_PATH)
    assert [line.split()[-1] for line in result.stdout.splitlines()[:2]] == ["_", "_"]
    assert result.stderr == "fstcrf: 1 sentence tagged _: no label sequence is legal\n"
    result = run("tag", strict, *options, "--marginals", "--span-probabilities", given=NO_PATH)
    first = result.stdout.splitlines()[:2]
    assert first[0] == "# 0.000000"
    assert set(first[1].split()[3:]) == {"_"}


# --- Nothing to tag -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--nbest", 2],
        ["--marginals"],
        ["--probabilities", "--span-probabilities", "--set", "confidence=true"],
        ["--force", "field"],
        ["--bias", "O=1"],
        ["--grammar", "bio", "--nbest", 2, "--on-no-path", "relax"],
    ],
)
@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_sentences_comes_back(field: str, options: list[object], text: str) -> None:
    Path("empty.txt").write_text(text)
    for given in (["empty.txt"], ["-"], []):
        result = run("tag", field, *given, *options, given=text)
        assert (result.exit_code, result.stdout, result.stderr) == (0, text, "")
    done("tag", field, "empty.txt", *options, "-o", "out.gz")
    assert gzip.decompress(Path("out.gz").read_bytes()).decode() == text


# --- Bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a b c\nd e\n", "<stdin>:2: 2 columns, expected 3 (word, pos, field): 'd e'"),
        (
            b"-DOCSTART- -X-\n\na b c d\n",
            (
                "<stdin>:3: 4 columns, expected 3 (word, pos, field): 'a b c d'; "
                "if the text has 4 columns, name them all: --columns"
            ),
        ),
        (b"a\n", "<stdin>:1: 1 column, expected at least 2 (word, pos): 'a'"),
        (b"a b c\n\n\xff b c\n", "<stdin>:3: byte 0xff is not UTF-8; convert the file to UTF-8"),
    ],
)
def test_bad_data(field: str, content: bytes, message: str) -> None:
    assert failure("tag", field, "-o", "out.txt", given=content) == message
    assert sorted(p.name for p in Path.cwd().iterdir()) == ["in.txt"]


def test_fewer_columns_may_be_enough(tmp_path: Path) -> None:
    corpus = fstcrf.read_columns(corpus_path("train"), ("a", "word", "field"))[:50]
    path = tmp_path / "second.fstcrf"
    CRF.train(corpus, "field", "U0:%x[0,word]\nB\n", max_iterations=2).save(path)
    text = failure("tag", path, given="hall\n")
    assert text.endswith("'hall'; if the text has 1 column, name them all: --columns")
    assert done("tag", path, "--columns", "word", given="hall\n").startswith("hall ")


def test_where_the_output_cannot_go(field: str) -> None:
    assert failure("tag", field, "in.txt", "-o", "no/out") == "no/out: No such file or directory"
    assert failure("tag", field, "in.txt", "-o", "/dev/full").startswith("/dev/full: No space left")
    assert failure("tag", field, "none.txt") == "none.txt: No such file or directory"


WORDS = "train in.txt --structure words --dictionary dic --template g.grm"


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("tag m in.txt -o m", "--output m"),
        ("tag m in.txt -o in.txt", "--output in.txt"),
        ("tag m in.txt -o link", "--output link"),
        ("tag m in.txt -o g.grm --grammar g.grm", "--output g.grm"),
        ("tag m in.txt -o ./g.grm --grammar field=g.grm", "--output ./g.grm"),
        ("tag m in.txt -o c.json --calibration c.json --min-confidence 0.5", "--output c.json"),
        ("tag m in.txt -o c.json --documents c.json", "--output c.json"),
        ("words dic in.txt -o dic/matrix.bin", "--output dic/matrix.bin"),
        ("words dic in.txt -o in.txt", "--output in.txt"),
        ("words dic in.txt -o user.csv --user user.csv", "--output user.csv"),
        ("words m in.txt -o m", "--output m"),
        (f"{WORDS} -o in.txt", "--output in.txt"),
        (f"{WORDS} -o user.csv --marked user.csv", "--output user.csv"),
        (f"{WORDS} -o n --set checkpoint=in.txt", "--set checkpoint in.txt"),
        ("train in.txt -o m --columns a --target a --template g.grm --set start=m", "--output m"),
        ("train in.txt -o g --columns a --target a --template m --grammar g", "--output g"),
        (
            "train in.txt -o n --columns a --target a --template m --set checkpoint=in.txt",
            "--set checkpoint in.txt",
        ),
        ("report m in.txt -o g.grm --grammar field=g.grm", "--output g.grm"),
    ],
)
def test_outputs_replace_no_inputs(field: str, given: str, output: str) -> None:
    Path("m").write_bytes(Path(field).read_bytes())
    Path("link").symlink_to("in.txt")
    for name in ("g", "g.grm", "c.json", "user.csv"):
        Path(name).write_text(name)
    Path("dic").mkdir()
    Path("dic/matrix.bin").write_text("costs")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    line = failure(*given.split(), status=2)
    assert line.startswith(f"{output} would overwrite an input")
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_a_device_may_be_input_and_output(field: str) -> None:
    assert done("tag", field, "/dev/null", "-o", "/dev/null") == ""


def test_what_standard_output_is_asked_for(field: str, capfd: pytest.CaptureFixture[str]) -> None:
    fields = ("train", "--structure", "fields", "--unlabelled", "PER", "-2", "-o")
    estimate = ("train", corpus_path("dev"), "--structure", "consistency")
    columns = ("--columns", "word,pos,field", "--target", "field")
    for given in (fields, (*estimate, *columns, "-o")):
        done(*given, "model.json")
        result = run(*given, "-")
        assert result.exit_code == 0
        assert capfd.readouterr().out == Path("model.json").read_text()
        assert result.stderr.endswith(": standard output\n")
        assert not Path("-").exists()


def test_labels_that_are_not_of_the_scheme_of_an_estimate(field: str) -> None:
    Path("gold.txt").write_text("a B-X\nb I-X\n\na B-Y\n\nc O\n\n")
    given = ["train", "gold.txt", "-o", "c", "--structure", "consistency"]
    given += ["--columns", "word,ner", "--target", "ner"]
    assert "warning" not in run(*given).stderr
    assert "warning" not in run(*given, "--scheme", "conlleval").stderr
    result = run(*given, "--scheme", "bioes")
    assert result.exit_code == 0
    assert (
        "fstcrf: warning: gold.txt:2: the end after 'I-X' is not legal in bioes, the first of 2 of "
        "3 sentences whose labels are no bioes: their spans are read as conlleval does"
    ) in result.stderr.splitlines()


@pytest.mark.thorough
def test_a_reader_that_has_had_enough(field: str) -> None:
    Path("long.txt").write_text(TEXT * 5000)
    with start("tag", field, "long.txt", pipesize=4096) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "-DOCSTART- -X- O\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.thorough
def test_tagging_is_the_same_for_any_number_of_threads(field: str) -> None:
    fstcrf.write_columns(fstcrf.read_columns(corpus_path("test"), COLUMNS)[:90], "test.txt")
    outputs = {done("tag", field, "test.txt", "--marginals", "--threads", n) for n in (1, 2, 7)}
    assert len(outputs) == 1
