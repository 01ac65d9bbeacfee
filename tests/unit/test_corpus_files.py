"""Opening sources, and writing files that are never half there."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import fstcrf
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.cluster.files import digest
from fstcrf.ext.words.texts import read_words
from fstcrf.files import atomic_write, check_writable, open_binary, open_target, source_name
from fstcrf.text.corpus.collection import CorpusFiles, Piece
from fstcrf.text.corpus.items import read_items
from fstcrf.text.features import read_template
from fstcrf.text.lines import decoded


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BufferedReader(io.BytesIO(data))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("packed", [False, True])
def test_paths_files_and_stdin(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.compress(b"a b\n") if packed else b"a b\n"
    path = tmp_path / "plain.txt"  # gzip is recognised by its bytes, not by the name
    path.write_bytes(data)
    monkeypatch.setattr(sys, "stdin", _Stdin(data))
    with open_binary(path) as file:
        assert file.read() == b"a b\n"
    with open_binary("-") as file:
        assert file.read() == b"a b\n"
    own = io.BytesIO(data)
    with open_binary(own) as file:
        assert file.read() == b"a b\n"
    assert not own.closed
    with path.open("rb", buffering=0) as raw:
        with open_binary(raw) as file:
            assert file.read() == b"a b\n"
        assert not raw.closed


def test_a_text_file_is_no_source() -> None:
    with (
        pytest.raises(OptionError, match="<input> is not open for bytes"),
        open_binary(io.StringIO("a")),  # type: ignore[arg-type]
    ):
        pass


def test_source_names(tmp_path: Path) -> None:
    assert source_name("-") == "<stdin>"
    assert source_name(tmp_path) == str(tmp_path)
    assert source_name(io.BytesIO()) == "<input>"
    with (tmp_path / "a").open("wb") as file:
        assert source_name(file) == str(tmp_path / "a")


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_gzip(damage: str, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"a b\n" * 1000))
    if damage == "cut":
        del packed[-12:]
    else:
        packed[-6] ^= 255
    path = tmp_path / "a.gz"
    path.write_bytes(packed)
    with pytest.raises(DataError, match=r"a\.gz: damaged gzip file"), open_binary(path) as file:
        file.read()


def test_decoded() -> None:
    assert decoded(b"\xef\xbb\xbfone\ntwo\n", "words") == "one\ntwo\n"
    for mark in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(DataError, match=r"words:3: byte 0xe9 is not UTF-8"):
            decoded(mark + b"one\ntwo\nthr\xe9\n", "words")


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    plain, written = tmp_path / "plain", tmp_path / "written"
    plain.write_bytes(b"")
    with atomic_write(written) as file:
        file.write(b"whole")
        assert not written.exists()
    assert written.read_bytes() == b"whole"
    assert written.stat().st_mode == plain.stat().st_mode
    assert names(tmp_path) == {"plain", "written"}


def test_an_existing_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == {"a"}


@pytest.mark.parametrize("name", ["a" * 250, "漢" * 80, "é" * 120, "a\udcff" * 60])
def test_names_as_long_as_the_system_allows(tmp_path: Path, name: str) -> None:
    with atomic_write(tmp_path / name) as file:
        file.write(b"x")
    assert names(tmp_path) == {name}


KILLED = """
import os, signal, sys
from fstcrf.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_killed_writers_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a"], check=False)
    assert len(names(tmp_path)) == 1  # the second one removed what the first one left
    (tmp_path / ".a.1.tmp").write_bytes(b"of a writer beside it, who was killed, too")
    others = {".a.b.0.tmp", ".b.0.tmp", ".a.x.tmp", ".a.tmp"}
    for other in others:
        (tmp_path / other).write_bytes(b"")
    with atomic_write(tmp_path / "a") as slow:  # two writers of one file at the same time
        slow.write(b"slow")
        with atomic_write(tmp_path / "a") as quick:
            quick.write(b"quick")
        assert (tmp_path / "a").read_bytes() == b"quick"
    assert (tmp_path / "a").read_bytes() == b"slow"
    assert names(tmp_path) == {"a", *others}


def test_what_looks_whether_a_file_can_be_written_leaves_nothing_for_good(tmp_path: Path) -> None:
    probing = """
import os, signal, sys
from pathlib import Path
from fstcrf.files import check_writable
Path.unlink = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
check_writable(sys.argv[1])
"""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", probing, tmp_path / "a"], check=False)
    assert len(names(tmp_path)) == 1
    check_writable(tmp_path / "a")
    assert names(tmp_path) == set()


def test_a_failing_sync_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), atomic_write(tmp_path / "a") as file:
        file.write(b"x")
    assert names(tmp_path) == set()


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    with atomic_write(os.devnull) as file:
        file.write(b"gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_targets(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "a.gz"
    with open_target(path) as file:
        file.write(b"text")
    first = path.read_bytes()
    assert gzip.decompress(first) == b"text"
    with open_target(path) as file:
        file.write(b"text")
    assert path.read_bytes() == first
    with open_target("-") as file:
        file.write(b"out")
    assert capfdbinary.readouterr().out == b"out"
    own = io.BytesIO()
    with open_target(own) as file:
        file.write(b"text")
    assert own.getvalue() == b"text"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero")
@pytest.mark.parametrize(
    "read",
    [
        lambda path: fstcrf.read_columns(path, ["word"]),
        fstcrf.read_conllu,
        fstcrf.read_pipeline,
        fstcrf.Grammar.from_file,
        fstcrf.Grammar.from_fst,
        read_template,
    ],
)
def test_devices_that_never_end_are_refused(read: Callable[[str], object]) -> None:
    with pytest.raises(DataError) as caught:
        read("/dev/zero")
    assert str(caught.value) == "/dev/zero: a device, expected a file"
    assert len(fstcrf.read_columns(os.devnull, ["word"], allow_empty=True)) == 0


def test_lines_that_no_text_has_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a b\n\n")
        for _ in range(65):
            file.write(bytes(1 << 20))
    reads: list[Callable[[], Iterable[object]]] = [
        lambda: fstcrf.read_columns(path, ["word", "tag"]),
        lambda: fstcrf.stream_columns(path, ["word", "tag"]),
        lambda: read_items(path),
        lambda: read_words(path),
        lambda: CorpusFiles([path], ["word", "tag"]).read_pieces(Piece(str(path), "file")),
    ]
    for read in reads:
        with pytest.raises(DataError, match=r"bomb\.gz:3: more than 64 MB without the end of"):
            list(read())


@pytest.mark.parametrize("suffix", ["txt", "conllu"])
@pytest.mark.parametrize("made", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_read_in_pieces_is_a_regular_file(
    tmp_path: Path, made: Callable[[Path], None], suffix: str
) -> None:
    path = tmp_path / f"text.{suffix}"
    made(path)
    with pytest.raises(DataError, match=rf"text\.{suffix}: no regular file, expected one that"):
        CorpusFiles([path], ["word"]).pieces(str(path))
    with pytest.raises(DataError, match="no regular file"):
        digest(path)
