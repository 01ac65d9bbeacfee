"""Files of any size: blocks of whole sentences, batches of a corpus, batches of whole documents."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Ints, Longs, Ragged
from fstcrf.errors import DataError, OptionError
from fstcrf.files import Source, open_binary, source_name
from fstcrf.kernel.strings import line_count
from fstcrf.text.corpus.corpus import Column, Corpus, concatenated
from fstcrf.text.lines import text_chunks

BLOCK_LINES = 1 << 16
"""Large enough that numpy's fixed costs vanish, small enough that a block fits in cache."""

# The data up to and including the last blank line; a blank line may contain blanks and tabs.
_LAST_BLANK = re.compile(rb".*\n[ \t]*\n", re.DOTALL)


class TextBlock(NamedTuple):
    """Bytes of whole sentences."""

    data: bytes  # lines end in \n only; no byte order mark
    first_line: int  # number of the first line in the file, from 1


def blocks(file: BinaryIO, lines: int, path: str = "<input>") -> Iterator[TextBlock]:
    """Cut a file at blank lines into blocks of about `lines` lines.

    A block is longer if the next blank line is further away. An extremely long line is a DataError.
    """
    pieces: list[bytes] = []
    held, wanted, first_line = 0, lines, 1
    for chunk in text_chunks(file.read, path):
        pieces.append(chunk)
        held += line_count(chunk)
        if held < wanted:
            continue
        data = b"".join(pieces)
        cut = _last_boundary(data)
        if cut in {0, len(data)}:
            # More blank lines may follow; or this is one endless sentence: then the next look
            # waits for twice the data, which keeps the time linear.
            wanted = held if cut else 2 * held
            pieces = [data]
            continue
        yield TextBlock(data[:cut], first_line)
        first_line += line_count(data[:cut])
        pieces = [data[cut:]]
        held, wanted = line_count(pieces[0]), lines
    if rest := b"".join(pieces):
        yield TextBlock(rest if rest.endswith(b"\n") else rest + b"\n", first_line)


def _last_boundary(data: bytes) -> int:
    if (end := data.rfind(b"\n\n")) >= 0:
        return end + 2
    match = _LAST_BLANK.match(data)
    return match.end() if match else 0


# --- From blocks to corpora -----------------------------------------------------------------------


class Scan(NamedTuple):
    """The contents of a block: N tokens in S sentences, H lines that open documents."""

    ids: list[Ints]  # [N], string ids of each column
    lines: Longs  # [N], line of each token in the file, from 1
    starts: Longs  # [S], first token of each sentence
    header_lines: Longs  # [H]
    headers: list[str]  # texts of these lines
    blank_lines: Ints | None = None  # [S], blank lines after each sentence
    chars: Ints | None = None  # [N, 2], start and end of each token in its document


class BlockReader(ABC):
    """A format of text files, which reads one block after the other."""

    def __init__(self, source: Source) -> None:
        self.path = source_name(source)  # for messages

    @abstractmethod
    def forget(self) -> None:
        """Discard all string ids, so that numbering begins at 0 again."""

    @abstractmethod
    def scan(self, block: TextBlock) -> Scan:
        """Read the next block; new strings are added to the strings of their columns."""

    @abstractmethod
    def strings(self) -> Mapping[str, tuple[str, ...]]:
        """Return the distinct strings of each column in the order of their numbers."""

    def finished(self, corpus: Corpus) -> Corpus:
        """Return a corpus with its derived columns."""
        return corpus


class DocumentCounter:
    """Numbers a file's documents block by block; sentences before the first header are one."""

    def __init__(self) -> None:
        self._next: int | None = None  # number of the next document; `None` before the first line
        self._first = 0
        self._headers: list[str] = []

    def number(self, scan: Scan) -> Ints:
        """Return int32 [S], the document of each sentence of the next block."""
        sentence_lines, header_lines = scan.lines[scan.starts], scan.header_lines
        if self._next is None and len(sentence_lines) + len(header_lines):
            leading = len(header_lines) == 0 or (
                len(sentence_lines) > 0 and sentence_lines[0] < header_lines[0]
            )
            self._next = 1 if leading else 0
            self._headers += [""] * self._next
        before = (self._next or 0) - 1
        self._next = before + 1 + len(header_lines)
        self._headers += scan.headers
        return (before + np.searchsorted(header_lines, sentence_lines)).astype(np.int32)

    def take(self) -> tuple[int, tuple[str, ...]]:
        """Return the first document and the headers from there; keep only the last one."""
        first, headers = self._first, tuple(self._headers) or ("",)
        self._first += max(len(self._headers) - 1, 0)
        del self._headers[:-1]
        return first, headers


def read_whole(source: Source, reader: BlockReader, *, allow_empty: bool) -> Corpus:
    """Read a whole file; raise DataError if it has no sentences, unless `allow_empty` is set."""
    reader.forget()
    with open_binary(source) as file:
        scans = [reader.scan(block) for block in blocks(file, BLOCK_LINES, reader.path)]
    scans = scans or [reader.scan(TextBlock(b"", 1))]
    if not any(len(scan.starts) for scan in scans) and not allow_empty:
        raise DataError("holds no sentences", path=reader.path)
    documents = DocumentCounter()
    return _corpus(scans, [documents.number(scan) for scan in scans], documents, reader)


def read_batches(source: Source, reader: BlockReader, batch_tokens: int) -> Iterator[Corpus]:
    """Read a file in batches of at most `batch_tokens` tokens, or of one longer sentence."""
    if batch_tokens < 1:
        raise OptionError(f"batch_tokens={batch_tokens}, expected at least 1")
    return _batches(source, reader, batch_tokens)


def _batches(source: Source, reader: BlockReader, batch_tokens: int) -> Iterator[Corpus]:
    documents = DocumentCounter()
    with open_binary(source) as file:
        for block in blocks(file, batch_tokens, reader.path):
            reader.forget()
            scan = reader.scan(block)
            numbers = documents.number(scan)
            if len(numbers):
                yield from batches(_corpus([scan], [numbers], documents, reader), batch_tokens)


def _corpus(
    scans: Sequence[Scan], numbers: Sequence[Ints], documents: DocumentCounter, reader: BlockReader
) -> Corpus:
    """Join consecutive blocks to one corpus; `numbers` [S] are the documents of each."""
    n_tokens = Ragged.from_lengths(len(scan.lines) for scan in scans).offsets
    starts = [scan.starts + n for scan, n in zip(scans, n_tokens.tolist(), strict=False)]
    full = [scan for scan in scans if len(scan.lines)]  # other blocks may not know the columns
    none = np.zeros(0, dtype=np.int32)
    first, headers = documents.take()
    return reader.finished(
        Corpus(
            {
                name: Column(np.concatenate([none, *(scan.ids[c] for scan in full)]), values)
                for c, (name, values) in enumerate(reader.strings().items())
            },
            np.concatenate([*starts, n_tokens[-1:]]),
            documents=np.concatenate(numbers),
            document_headers=headers,
            first_document=first,
            char_offsets=_joined([scan.chars for scan in scans]),
            source=reader.path,
            lines=np.concatenate([scan.lines for scan in scans]),
            blank_lines=_joined([scan.blank_lines for scan in scans]),
        )
    )


# --- Batches of a corpus --------------------------------------------------------------------------


def batches(corpus: Corpus, batch_tokens: int) -> Iterator[Corpus]:
    """Cut a corpus into runs of whole sentences with at most `batch_tokens` tokens."""
    first = corpus.first_document
    for start, end in Ragged(corpus.offsets).runs(batch_tokens):
        last = int(corpus.documents[end - 1]) if end < len(corpus) else None
        stop = None if last is None else last + 1 - corpus.first_document
        headers = corpus.document_headers[first - corpus.first_document : stop]
        yield corpus[start:end].changed(document_headers=headers, first_document=first)
        # A document that spans two batches is in both; empty documents are in the later batch.
        if last is not None:
            first = last if int(corpus.documents[end]) == last else last + 1


# --- Batches of whole documents -------------------------------------------------------------------

T = TypeVar("T", bound=np.generic)


def whole_documents(batches: Iterable[Corpus]) -> Iterator[Corpus]:
    """Yield the sentences of a stream in batches that end with a document.

    Memory is bounded by the longest document and the longest batch.
    """
    held: list[Corpus] = []
    for batch in batches:
        if not len(batch):
            continue
        if held and held[-1].documents[-1] != batch.documents[0]:
            yield _continued(held)
            held = []
        last = batch.document_slices()[-1].start
        if last:
            yield _continued([*held, _part(batch, 0, last)])
            held = []
        held.append(_part(batch, last, len(batch)))
    if held:
        yield _continued(held)


def _part(batch: Corpus, first: int, end: int) -> Corpus:
    """Return consecutive sentences of whole documents, with headers of empty ones after them."""
    start = batch.first_document if first == 0 else int(batch.documents[first])
    stop = None if end == len(batch) else int(batch.documents[end]) - batch.first_document
    headers = batch.document_headers[start - batch.first_document : stop]
    return batch[first:end].changed(document_headers=headers, first_document=start)


def _continued(batches: Sequence[Corpus]) -> Corpus:
    """Join consecutive batches; a document that spans several batches becomes one document."""
    if len(batches) == 1:
        return batches[0]
    headers: dict[int, str] = {}
    for batch in batches:
        for number, header in enumerate(batch.document_headers, batch.first_document):
            headers[number] = headers.get(number) or header
    return concatenated(batches).changed(
        documents=np.concatenate([batch.documents for batch in batches]),
        document_headers=[headers[number] for number in sorted(headers)],
        first_document=batches[0].first_document,
        lines=_joined([batch.lines for batch in batches]),
        blank_lines=_joined([batch.blank_lines for batch in batches]),
    )


def _joined(parts: Sequence[NDArray[T] | None]) -> NDArray[T] | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if len(there) == len(parts) else None
