"""One reader of lines for every format: marks, line ends, other white space, compression, nothing.

A reader is given a file and returns something that can be compared. Each file holds one field with
a mark in it, which is replaced by characters that Unicode calls white space: they stay in it.
"""

from __future__ import annotations

import ast
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf.cli.segments import _phrases
from fstcrf.errors import FstcrfError
from fstcrf.ext.lexicon import Lexicon
from fstcrf.ext.rules.patterns import RuleFile
from fstcrf.ext.words.templates import Rewrites, WordTemplates
from fstcrf.ext.words.texts import read_marked, read_words
from fstcrf.machines.grammar import Grammar
from fstcrf.text.corpus import read_columns, read_conllu, read_items
from fstcrf.text.features.template import read_list, read_template
from fstcrf.text.lines import read_text

BOM = b"\xef\xbb\xbf"
SPACES = {
    "NBSP": "\xa0",
    "ideographic space": "\u3000",
    "line separator": "\u2028",
    "next line": "\x85",
    "thin space": "\u2009",
    "vertical tab": "\x0b",
    "form feed": "\x0c",
    "file separator": "\x1c",
    "zero width no-break space": "\ufeff",
}
MARK = "¦"


@dataclass(frozen=True)
class Reader:
    """A format: how it is read, and a file of it with `MARK` in one field."""

    read: Callable[[Path], Any]
    text: str
    name: str = "file.txt"
    empty: bool = False  # a file without lines is one of them
    opens: bool = True  # it is given the name of a file, not its text
    controls: bool = True  # control characters may stand in it


def _columns(path: Path) -> Any:
    corpus = read_columns(path, ("w", "y"))
    return [corpus.column_lists(name) for name in corpus.columns]


def _conllu(path: Path) -> Any:
    corpus = read_conllu(path)
    return corpus.column_lists("form"), [s.char_offsets for s in corpus], corpus.document_headers


def _items(path: Path) -> Any:
    corpus = read_items(path)
    return [corpus.column_lists(name) for name in corpus.columns]


def _machine(machine: fstcrf.Transducer) -> Any:
    symbols = machine.input_symbols, machine.output_symbols
    return symbols, machine.source.tolist(), machine.score.tolist(), machine.final.tolist()


def _att(path: Path) -> Any:
    return _machine(fstcrf.Transducer.from_text(path.read_bytes().decode()))


def _grammar(path: Path) -> Any:
    return Grammar.from_file(path).bind(["a", "b"])[0].target.tolist()


def _pipeline(path: Path) -> Any:
    (path.parent / "data.txt").write_text("a X\nb Y\n")
    (path.parent / "t.tpl").write_text("U0:%x[0,w]\nB\n")
    tasks: Any = fstcrf.read_pipeline(path).tasks
    return [task.name for task in tasks]


LEXICON = {
    "a.csv": f"東京,0,0,100,N{MARK}M\n都,0,0,100,M\n",
    "char.def": f"DEFAULT 0 1 0\nSPACE 0 1 0  # x{MARK}y\n0x0020 SPACE\n",
    "unk.def": f"DEFAULT,0,0,5000,U{MARK}V\nSPACE,0,0,5000,S\n",
    "matrix.def": "1 1\n0 0 7\n",
    "dicrc": f"x = {MARK}\ncost-factor = 70\n",
}


def _lexicon(path: Path) -> Any:
    for name, text in LEXICON.items():
        if name != path.name:
            (path.parent / name).write_text(text.replace(MARK, "_"), "utf-8")
    lexicon = Lexicon.load(path.parent)
    return [(*word, lexicon.unit) for word in lexicon.tag("東京都 xy")]


READERS = {
    "columns": Reader(_columns, f"x{MARK}y A\nb B\n\nc C\n"),
    "conllu": Reader(
        _conllu,
        f"# newdoc id = d{MARK}e\n# text = x{MARK}y b\n"
        f"1\tx{MARK}y\t_\tX\t_\t_\t0\troot\t_\t_\n2\tb\t_\tX\t_\t_\t1\tdep\t_\t_\n\n",
    ),
    "items": Reader(_items, f"A\tx{MARK}y\tz\nB\tw\n\nC\tv\n"),
    "template": Reader(lambda path: str(read_template(path)), f"# a\nU1:x{MARK}y%x[0,w]\n\nB\n"),
    "list": Reader(read_list, f"x{MARK}y\n\nb\n", empty=True),
    "grammar": Reader(_grammar, f'# x{MARK}y\nexport X = "[a]"*\n  "[b]"?;\n'),
    "rules": Reader(lambda p: RuleFile.of(p).text, f'# x{MARK}y\nexport X = each["[a]", <?>];\n'),
    "ARPA": Reader(
        lambda path: _machine(fstcrf.Transducer.lm(path)),
        f"\\data\\\nngram 1=3\n\n\\1-grams:\n-0.6\t</s>\n-0.7\tx{MARK}y\n-0.8 b\n\n\\end\\\n",
    ),
    "AT&T": Reader(_att, f"0\t1\tx{MARK}y\tb\t0.5\n\n0 1 b <eps>\n1 0.25\n", opens=False),
    "feature.def": Reader(
        lambda path: str(WordTemplates.given(path)), f"# a\nUNIGRAM U:x{MARK}y%F[0]\nBIGRAM B:%l\n"
    ),
    "rewrite.def": Reader(
        lambda path: Rewrites.given(path).applied([f"x{MARK}y", "b"]),
        f"[unigram rewrite]\nx{MARK}y,*  $1,$2\n*,* $1,z\n[left rewrite]\n*,* $1\n"
        "[right rewrite]\n*,* $2\n",
        empty=True,
    ),
    "words": Reader(read_words, f"x{MARK}y\tN\nb\tV\n\nc\tN\n"),
    "marked text": Reader(read_marked, f"x|{MARK}|y\nb\n", empty=True),
    "phrases": Reader(lambda path: _phrases([str(path)]), f"x{MARK}y b\n\nc\n", empty=True),
    "pipeline": Reader(
        _pipeline,
        f'# x{MARK}y\n[task.t]\ndata = "data.txt"\ncolumns = ["w", "t"]\ntemplate = "t.tpl"\n',
        "pipeline.toml",
        controls=False,
    ),
} | {name: Reader(_lexicon, text, name, name == "dicrc") for name, text in LEXICON.items()}


def _written(tmp_path: Path, reader: Reader, data: bytes) -> Any:
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / reader.name
    path.write_bytes(data)
    return reader.read(path)


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "a byte order mark": lambda data: BOM + data,
    "CR LF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
    "a mark and CR": lambda data: BOM + data.replace(b"\n", b"\r"),
    "no last line end": lambda data: data.rstrip(b"\n"),
    "more line ends": lambda data: data + b"\n\n",
    "gzip": gzip.compress,
    "gzip, a mark and CR LF": lambda data: gzip.compress(BOM + data.replace(b"\n", b"\r\n")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", READERS)
def test_the_form_of_a_file_means_nothing(name: str, form: str, tmp_path: Path) -> None:
    reader = READERS[name]
    if "gzip" in form and not reader.opens:
        form = "CR LF"
    data = reader.text.replace(MARK, "_").encode()
    wanted = _written(tmp_path / "a", reader, data)
    found = _written(tmp_path / "b", reader, FORMS[form](data))
    if name == "rules":
        wanted, found = wanted.rstrip("\n"), found.rstrip("\n")
    assert found == wanted


@pytest.mark.parametrize(
    ("name", "space"),
    [
        (name, space)
        for name, reader in READERS.items()
        for space, character in SPACES.items()
        if reader.controls or character > "\x1f"
    ],
)
def test_only_tabs_blanks_and_line_ends_separate(name: str, space: str, tmp_path: Path) -> None:
    reader = READERS[name]

    def read(character: str) -> str:
        data = reader.text.replace(MARK, character).encode()
        return repr(_written(tmp_path / character.encode().hex(), reader, data))

    if name == "rewrite.def":  # its patterns are looked for in a field with the mark
        rewrite = Rewrites.parse(reader.text.replace(MARK, SPACES[space]))
        plain = Rewrites.parse(reader.text).applied([f"x{MARK}y", "b"])
        assert rewrite.applied([f"x{SPACES[space]}y", "b"]) == tuple(
            tuple(part.replace(MARK, SPACES[space]) for part in parts) for parts in plain
        )
        return
    assert read(SPACES[space]) == read(MARK).replace(MARK, repr(SPACES[space])[1:-1])


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("data", [b"", BOM, b"\r"], ids=["nothing", "a mark", "a line end"])
def test_a_file_without_lines(name: str, data: bytes, tmp_path: Path) -> None:
    reader = READERS[name]
    if reader.empty or (name.endswith(("csv", "def")) and name in LEXICON):
        wanted = _outcome(tmp_path / "a", reader, b"\n")
        assert _outcome(tmp_path / "b", reader, data) == wanted
        return
    with pytest.raises(FstcrfError) as caught:
        _written(tmp_path, reader, data)
    assert "\n" not in str(caught.value)


def _outcome(tmp_path: Path, reader: Reader, data: bytes) -> Any:
    try:
        return _written(tmp_path, reader, data)
    except FstcrfError as error:
        return str(error).replace(str(tmp_path), "")


def test_a_damaged_byte_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(BOM + b"a\rb\r\nc\xff\n")
    with pytest.raises(FstcrfError, match=r"x\.txt:3: byte 0xff is not UTF-8"):
        read_text(path)


# --- No other code reads lines --------------------------------------------------------------------

OWN = {
    "cli/demo.py": "files of the library's own",
    "cli/info.py": "texts that were made here",
    "cli/main.py": "a message",
    "cli/reporting.py": "a message",
    "arguments.py": "a message",
    "ext/cluster/": "messages and files of the library's own",
    "ext/pipelines/trained.py": "a file of the library's own",
    "ext/tokens/decoder.py": "names in the source",
    "lattices/emissions/reading.py": "a message",
    "lazy.py": "names in the source",
    "machines/grammar/syntax.py": "a file of the library's own",
    "machines/topology/machines.py": "white space in names becomes an underscore",
    "training/options.py": "a docstring",
    "text/corpus/collection.py": "a message",
    "training/memory.py": "files of the system",
    "ext/foreign/": "models of other programs",
    "ext/filling.py": "bytes, whose lines end as here",
    "recipes/": "corpora with formats of their own",
}


def test_no_other_code_splits_texts() -> None:
    root = Path(fstcrf.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(tuple(OWN)):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                bare = not node.args and not node.keywords
                if node.func.attr in {"splitlines", "readline"} or (
                    node.func.attr == "split" and bare
                ):
                    found.append(f"{name}:{node.lineno}: {node.func.attr}")
                elif node.func.attr == "read_text" and isinstance(node.func.value, ast.Call):
                    found.append(f"{name}:{node.lineno}: read_text")
    assert not found, "use read_text, read_lines, text_lines and text_fields of fstcrf.text.lines"
