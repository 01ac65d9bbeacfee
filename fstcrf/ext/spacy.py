"""A spaCy component: ``nlp.add_pipe("fstcrf", config={"model": "ner.fstcrf"})``.

A tagger, a composition, a pipeline or a `fstcrf.TokenDecoder` writes spans with their probabilities
into ``doc.spans``, and into ``doc.ents`` on request. spaCy finds the factory by its
entry point; nothing here imports spaCy unless it is installed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import msgspec
import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import DataError, FstcrfError, ModelFileError, OptionError
from fstcrf.ext.calibration import Calibration
from fstcrf.ext.tokens import Pieces, TokenDecoder
from fstcrf.lazy import optional
from fstcrf.taggers import CRF, Tagger
from fstcrf.taggers.loading import load
from fstcrf.text.corpus import Span
from fstcrf.text.features import FunctionIndex, LiteralIndex

__all__ = ["TaggerComponent", "make_component"]

Model: TypeAlias = Tagger[Any] | TokenDecoder
_Found: TypeAlias = list[tuple[int, int, str, float]]
"""Spans of tokens of a Doc, with probabilities."""

_NEEDED = "the spaCy component needs spaCy: pip install fstcrf[spacy]"
_PIECES = "fstcrf_pieces"
"""Where in ``doc.user_data`` a decoder finds its `Pieces`."""
_COLUMNS = {
    **dict.fromkeys(("word", "form", "token", "text", "0"), "text"),
    **dict.fromkeys(("pos", "tag", "xpos"), "tag_"),
    "upos": "pos_",
    "lemma": "lemma_",
    "shape": "shape_",
    "deprel": "dep_",
}
"""The token attribute for a column of this name, by default."""
_ANNOTATIONS = {"tag_": "TAG", "pos_": "POS", "lemma_": "LEMMA", "dep_": "DEP"}
_TOGETHER = 128
_TAGGER, _DECODER, _CALIBRATION = "tagger", "decoder.json", "calibration.json"

_DEFAULTS: dict[str, Any] = {
    "model": None,
    "spans_key": "fstcrf",
    "ents": False,
    "tape": None,
    "columns": {},
    "features": None,
    "pieces": None,
    "attributes": {},
    "min_probability": 0.0,
    "calibration": None,
    "threads": 1,
}


class TaggerComponent:
    """A component of a spaCy pipeline that labels tokens and finds spans.

    Parameters
    ----------
    model : Tagger, TokenDecoder, or path, optional
        A path is read by `read`, as ``nlp.add_pipe`` does at once, or when the component is first
        used.
    spans_key : str
        ``doc.spans[spans_key]`` gets the spans, its ``attrs["scores"]`` their probabilities.
    ents : bool
        Also write them to ``doc.ents``, in place of its contents.
    tape : str, optional
        The tape whose spans are written, if several have spans.
    columns : mapping of str to str
        The attribute of tokens that is a column of the model: ``{"word": "text", "pos": "tag_"}``.
        Columns with usual names need not be named.
    features : callable, optional
        Returns the tagger's input for a sentence, given as a `spacy.tokens.Span`: for models over
        features from user code.
    pieces : callable, optional
        For a `TokenDecoder`: returns the `Pieces` of a list of Docs. By default, each Doc has them
        in ``doc.user_data["fstcrf_pieces"]``.
    attributes : mapping of str to str
        The attribute of tokens that the labels of a tape are written to: ``{"pos": "tag_"}``.
    min_probability : float
        Spans below are left out.
    calibration : Calibration or path, optional
        Of the probabilities of a tagger's spans; a decoder has its own.
    threads : int

    Raises
    ------
    OptionError
        A number that is no probability.
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        *,
        spans_key: str = "fstcrf",
        ents: bool = False,
        tape: str | None = None,
        columns: Mapping[str, str] | None = None,
        features: Callable[[Any], Any] | None = None,
        pieces: Callable[[Sequence[Any]], Sequence[Pieces]] | None = None,
        attributes: Mapping[str, str] | None = None,
        min_probability: float = 0.0,
        calibration: Calibration | str | os.PathLike[str] | None = None,
        threads: int = 1,
    ) -> None:
        if not 0.0 <= min_probability <= 1.0:
            raise OptionError(f"min_probability is {min_probability}, expected 0 to 1")
        self._model, self._calibration = model, calibration
        self.spans_key, self.ents, self.tape = spans_key, ents, tape
        self.columns, self.attributes = dict(columns or {}), dict(attributes or {})
        self.features, self.pieces = features, pieces
        self.min_probability, self.threads = min_probability, threads

    def __repr__(self) -> str:
        return f"<TaggerComponent: {self._model!r} into doc.spans[{self.spans_key!r}]>"

    @property
    def model(self) -> Model:
        """The model; assign another to replace it.

        Raises
        ------
        AttributeError
            There is no model, or its file cannot be read. spaCy asks by `hasattr`, in some
            processes before the model exists, because Python 3.11 iterates in hash order.
        """
        try:
            return self._loaded()
        except (FstcrfError, OSError) as error:
            raise AttributeError(str(error)) from error

    @model.setter
    def model(self, model: Model | str | os.PathLike[str]) -> None:
        self._model = model

    def _loaded(self) -> Model:
        if self._model is None:
            raise OptionError(
                "the component has no model: config={'model': 'ner.fstcrf'}, or assign its .model"
            )
        if not isinstance(self._model, Tagger | TokenDecoder):
            self._model = load(self._model)
        return self._model

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of probabilities of a tagger's spans."""
        if not isinstance(self._calibration, Calibration | None):
            self._calibration = Calibration.load(self._calibration)
        return self._calibration

    def read(self) -> None:
        """Read the files of model and calibration now, so that errors precede documents.

        Raises
        ------
        OSError, ModelFileError
            A file is not there, or damaged.
        """
        _ = self._model is None or self._loaded(), self.calibration

    # --- Documents ----------------------------------------------------------------------------

    def __call__(self, doc: Any) -> Any:
        """Label a Doc, and return it.

        Raises
        ------
        DataError
            A Doc without the attributes that the model reads.
        NoPathError
            A sentence without a legal labelling.
        """
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int = _TOGETHER) -> Iterator[Any]:
        """Label Docs in batches; errors as for a single one."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            model = self._loaded()
            if isinstance(model, TokenDecoder):
                self._decode(model, batch)
            else:
                self._tag(model, batch)
            yield from batch

    def _decode(self, decoder: TokenDecoder, docs: list[Any]) -> None:
        given = [_own_pieces(doc) for doc in docs] if self.pieces is None else self.pieces(docs)
        if len(given) != len(docs):
            raise DataError(f"pieces of {len(given)} documents for {len(docs)} docs")
        for doc, found in zip(docs, decoder.decode_all(given, threads=self.threads), strict=True):
            spans: _Found = []
            for start, end, kind, p in found:
                span = doc.char_span(start, end, label=kind, alignment_mode="expand")
                if span is None:
                    raise DataError(
                        f"span {start} to {end} is outside the doc's {len(doc.text)} characters: "
                        "offsets of pieces must refer to doc.text"
                    )
                spans.append((span.start, span.end, kind, p))
            self._write(doc, spans)

    def _tag(self, tagger: Tagger[Any], docs: list[Any]) -> None:
        several = [_sentences(doc) for doc in docs]
        sentences = [self._sentence(tagger, one) for sents in several for one in sents]
        answer = tagger.decode(sentences, threads=self.threads)
        tape = self._tape(tagger)
        spans = answer[tape].spans() if tape else [[]] * len(sentences)
        chances = answer.span_probabilities(tape) if tape else [np.empty(0)] * len(sentences)
        labels = {name: answer[name].labels(0) for name in self.attributes}
        k = 0
        for doc, sents in zip(docs, several, strict=True):
            found: _Found = []
            for sentence in sents:
                found += self._placed(spans[k], chances[k], sentence.start)
                for name, attribute in self.attributes.items():
                    for token, label in zip(sentence, labels[name][k], strict=True):
                        setattr(token, attribute, label)
                k += 1
            if tape:
                self._write(doc, found)

    def _placed(self, spans: list[Span], p: Floats, first: int) -> _Found:
        """Return the spans of a sentence in tokens of its Doc."""
        if self.calibration is not None and spans:
            p = self.calibration(np.minimum(p, 1.0), [span.type for span in spans])
        pairs = zip(spans, np.minimum(p, 1.0).tolist(), strict=True)
        return [(first + s.start, first + s.end, s.type, chance) for s, chance in pairs]

    def _sentence(self, tagger: Tagger[Any], sentence: Any) -> Any:
        """Return a sentence as the tagger takes it."""
        if self.features is not None:
            return self.features(sentence)
        if any(isinstance(part.index, LiteralIndex) for part in _parts(tagger)):
            raise OptionError(
                "the model reads custom features: give config={'features': function}, "
                "where function returns the features of a sentence"
            )
        known = {part.tape for part in _parts(tagger)}
        columns = {}
        needed = {c for part in _parts(tagger) for c in _columns_read(part)} - known
        offered = set().union(*(self._offered(part) for part in _parts(tagger)))
        for name in sorted(needed | offered - known):
            attribute = self.columns.get(name, _COLUMNS.get(name))
            if attribute is None:
                raise OptionError(
                    f"the model reads a column {name!r}: config={{'columns': {{{name!r}: "
                    "attribute}}, the attribute of tokens that it is"
                )
            annotated = _ANNOTATIONS.get(attribute)
            if annotated and not sentence.doc.has_annotation(annotated):
                if name not in needed:
                    continue
                raise DataError(
                    f"the model reads {attribute!r} as column {name!r}, but the doc has no "
                    f"{attribute!r}: put a component that sets it before this one"
                )
            columns[name] = [str(getattr(token, attribute)) for token in sentence]
        return columns

    def _offered(self, part: CRF) -> set[str]:
        """Return the columns that a feature function gets if a Doc has them; it may need fewer."""
        if not isinstance(part.index, FunctionIndex):
            return set()
        attributes = {*_COLUMNS, *self.columns}
        return attributes.intersection(part.index.columns or ("word", *self.columns))

    def _tape(self, tagger: Tagger[Any]) -> str | None:
        """Return the tape whose spans are written; `None` if only labels are written."""
        sets = tagger.label_sets
        if self.tape is not None:
            if self.tape not in sets:
                raise OptionError(f"no tape {self.tape!r}: the tapes are {', '.join(sets)}")
            return self.tape
        found = [t for t, labels in sets.items() if any(x[:2] in ("B-", "I-") for x in labels)]
        if len(found) == 1:
            return found[0]
        if found:
            raise OptionError(
                f"several tapes have spans, {', '.join(found)}: choose one with "
                "config={'tape': ...}"
            )
        if not self.attributes:
            first = next(iter(sets))
            raise OptionError(
                f"labels of {first!r} are of no spans: config={{'attributes': {{{first!r}: "
                "'tag_'}}} writes them to tokens"
            )
        return None

    def _write(self, doc: Any, found: _Found) -> None:
        tokens = import_module("spacy.tokens")
        kept = [one for one in found if one[3] >= self.min_probability]
        spans = [tokens.Span(doc, start, end, label=kind) for start, end, kind, _ in kept]
        group = tokens.SpanGroup(doc, name=self.spans_key, spans=spans)
        group.attrs["scores"] = np.asarray([p for *_, p in kept], dtype=np.float64)
        doc.spans[self.spans_key] = group
        if self.ents:
            doc.set_ents(import_module("spacy.util").filter_spans(spans), default="outside")

    # --- Files --------------------------------------------------------------------------------

    def to_disk(self, path: str | os.PathLike[str], *, exclude: Iterable[str] = ()) -> None:
        """Write model and calibration into a folder; settings are in the pipeline's config.

        Raises
        ------
        OSError
            It cannot be written.
        """
        del exclude
        folder, model = Path(path), self._loaded()
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(model, TokenDecoder):
            model.save(folder / _DECODER)
        else:
            if not hasattr(model, "save"):
                raise OptionError(f"{model!r} has no file")
            if any(isinstance(part.index, FunctionIndex) for part in _parts(model)):
                raise OptionError(
                    "the model has a feature function, which no file holds: exclude the component "
                    "from nlp.to_disk, save the model itself, and add it again after spacy.load"
                )
            model.save(folder / _TAGGER)
        if self.calibration is not None:
            self.calibration.save(folder / _CALIBRATION)

    def from_disk(
        self, path: str | os.PathLike[str], *, exclude: Iterable[str] = ()
    ) -> TaggerComponent:
        """Read the files of `to_disk`.

        Raises
        ------
        ModelFileError
            The files are not a model, or damaged.
        """
        del exclude
        folder = Path(path)
        there = [folder / name for name in (_DECODER, _TAGGER) if (folder / name).exists()]
        if len(there) != 1:
            raise ModelFileError(f"{folder}: expected {_TAGGER} or {_DECODER}")
        self._model = load(there[0])
        if (folder / _CALIBRATION).exists():
            self._calibration = Calibration.load(folder / _CALIBRATION)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the contents of `to_disk`'s files."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder, exclude=exclude)
            files = (p for p in sorted(Path(folder).rglob("*")) if p.is_file())
            return msgspec.msgpack.encode(
                {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}
            )

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> TaggerComponent:
        """Read the bytes of `to_bytes`.

        Raises
        ------
        ModelFileError
            Something else.
        """
        try:
            files = msgspec.msgpack.decode(data, type=dict[str, bytes])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ModelFileError(f"no bytes of a component: {error}") from None
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, content in files.items():
                target = (root / name).resolve()
                if not target.is_relative_to(root):
                    raise ModelFileError(f"no bytes of a component: a file called {name!r}")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            return self.from_disk(root, exclude=exclude)


# --- What models read -----------------------------------------------------------------------------


def _parts(tagger: Tagger[Any]) -> Sequence[CRF]:
    """Return the taggers that a tagger is made of."""
    if isinstance(tagger, CRF):
        return (tagger,)
    parts: Sequence[CRF] = getattr(tagger, "taggers", ())
    return parts


def _columns_read(part: CRF) -> set[str]:
    """Return the columns that a tagger must have, tapes of others included."""
    index: Any = part.index
    if isinstance(index, FunctionIndex):
        return {tape.name for tape in part.reads}
    return {*index.columns, *(tape.name for tape in part.reads)}


def _sentences(doc: Any) -> list[Any]:
    """Return the sentences of a Doc; the whole Doc if no sentences are marked."""
    return list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]] if len(doc) else []


def _own_pieces(doc: Any) -> Pieces:
    pieces = doc.user_data.get(_PIECES)
    if not isinstance(pieces, Pieces):
        raise DataError(
            f"the doc brings no Pieces: doc.user_data[{_PIECES!r}] = Pieces(logits, offsets, ...), "
            "or config={'pieces': function}"
        )
    return pieces


# --- The factory ----------------------------------------------------------------------------------


def make_component(
    nlp: Any,
    name: str,
    model: str | None,
    spans_key: str,
    ents: bool,  # noqa: FBT001 (spaCy calls it by names)
    tape: str | None,
    columns: dict[str, str],
    features: Callable[[Any], Any] | None,
    pieces: Callable[[Any], Any] | None,
    attributes: dict[str, str],
    min_probability: float,
    calibration: str | None,
    threads: int,
) -> TaggerComponent:
    """Return the component of a pipeline; parameters as for `TaggerComponent`.

    Raises
    ------
    MissingDependencyError
        spaCy is not installed.
    OSError, ModelFileError
        The file of the model or of the calibration is not there, or damaged.
    """
    optional("spacy", _NEEDED)
    del name
    made = TaggerComponent(
        model,
        spans_key=spans_key,
        ents=ents,
        tape=tape,
        columns=columns,
        features=features,
        pieces=pieces,
        attributes=attributes,
        min_probability=min_probability,
        calibration=calibration,
        threads=threads,
    )
    if not _is_restored(nlp):
        made.read()
    return made


def _is_restored(nlp: Any) -> bool:
    """Return whether spaCy is making a pipeline from its config, as `spacy.load` does.

    Models are then in the pipeline's folder, read by `from_disk`, and the files that the config
    names may be gone. spaCy does not inform its factories about this: its calls are inspected.
    """
    code = import_module("spacy.language").Language.from_config.__func__.__code__
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 (inspect.stack reads sources)
    while frame is not None and not (frame.f_code is code and frame.f_locals.get("nlp") is nlp):
        frame = frame.f_back
    return frame is not None


if find_spec("spacy") is not None:
    import_module("spacy.language").Language.factory(
        "fstcrf", default_config=_DEFAULTS, assigns=["doc.spans", "doc.ents"], func=make_component
    )
