"""From a model's logits of word pieces to spans of characters with probabilities."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import msgspec
import numpy as np

from fstcrf.arguments import LabelSet, real_number
from fstcrf.arrays import Floats
from fstcrf.errors import (
    FstcrfError,
    LabelWarning,
    ModelFileError,
    OptionError,
    warn,
)
from fstcrf.evaluate import SpanScore
from fstcrf.ext.calibration.curves import Calibration, Kind, read_json, write_json
from fstcrf.ext.calibration.events import Events, events_of
from fstcrf.ext.tokens.biases import TransitionBiases, steps
from fstcrf.ext.tokens.files import (
    FORMAT,
    VERSION,
    DecoderFile,
    grammar_of,
    machines,
    read_file,
)
from fstcrf.ext.tokens.gold import GoldCheck, GoldText, Key, check_gold, gold_sets, spelt
from fstcrf.ext.tokens.pieces import PieceRows, Pieces, read_document
from fstcrf.ext.tokens.thresholds import (
    FLOOR,
    LIKELY,
    Thresholds,
    checked_thresholds,
    chosen,
    least_threshold,
)
from fstcrf.ext.tokens.tuning import Goal, Metric, best_thresholds, searched_biases
from fstcrf.ext.tokens.words import PieceRule, Spelling, WordBatch, check_alive, scheme_of
from fstcrf.lattices import Lattices, TapeLattice
from fstcrf.lattices.emissions.reading import LabelNames, usual_names
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.grammar.labels import listed
from fstcrf.text.corpus.schemes import (
    OUTSIDE,
    STRICT,
    Span,
    named_scheme,
    spanless_types,
)


class TextSpan(NamedTuple):
    """A stretch of text.

    Attributes
    ----------
    start, end : int
        First character, and the character after the last one.
    type : str
    probability : float
        Probability of exactly this span; calibrated if the decoder is. NaN under a grammar whose
        product is too large.
    """

    start: int
    end: int
    type: str
    probability: float


class _Read(NamedTuple):
    """Documents as they were read: their pieces, their texts."""

    rows: list[PieceRows]
    texts: list[str | None]


class TokenDecoder:
    """Turns a token classifier's logits into spans of characters with probabilities.

    The labels of a document's words are the paths of a lattice. It contains only labellings that
    the scheme and the grammar, if given, allow; probabilities are relative to its paths. A word is
    one step of it: its label determines the label of each of its pieces (S of three pieces is B, I,
    E), and its score is the sum of their log-probabilities and biases. No span therefore begins or
    ends within a word. This equals the lattice over all pieces without the arcs that break a word;
    it is not a repair of labels found without it. Pieces that share a character belong to one word.

    A decoder does not change; `replaced`, `calibrated` and `tune` return new ones.

    Parameters
    ----------
    id2label : mapping of id to str, or sequence of L str
        ``model.config.id2label``: the labels in the order of the logits. Keys may be the digits
        that a JSON file has.
    scheme : str, optional
        ``"bioes"``, ``"bilou"``, ``"bmes"``, ``"bmewo"``, ``"bio"`` (``"iob2"``), ``"iob1"`` or
        ``"io"``. By default, the scheme with the letters of the labels; for B and I, ``"bio"``
        rather than ``"iob1"``.
    grammar : Grammar, optional
        Further constraints on labellings of words.
    biases : TransitionBiases or mapping of str to float, optional
        The addition to a score for each kind of step between pieces.
    thresholds : float or mapping of str to (float or None), optional
        If given, the result has all spans with at least these probabilities, instead of the spans
        of the best labels. The threshold of each type: 0.5 for types without one, `None` for never.
        Among overlapping spans, the spans with the largest sum of probability − threshold are
        chosen. Spans below 0.01 are never found.
    temperature : float
        Logits and biases are divided by it: above 1, probabilities are less sure. Best labels
        stay, but for a soft grammar, which it does not divide.
    calibration : Calibration, optional
        Of probabilities of spans, before thresholds are applied.
    pieces : {"all", "first", "each"}
        "all": the model was trained on labels of all pieces. "first": it was trained on the first
        piece of each word; other pieces are ignored. "each": pieces are labelled one by one, and
        words are ignored.
    names : str, mapping or callable, optional
        Where labels are not called ``B-PER``; as for `fstcrf.Lattices.from_arrays`.

    Raises
    ------
    OptionError
        A label twice, a map with gaps; no such scheme, bias or rule; numbers outside their range.
    LabelError
        A label that the scheme, or any scheme, does not have.
    GrammarError
        A scheme that allows no span of the labels; a grammar that does not go with them.

    Warns
    -----
    LabelWarning
        A scheme that allows no span of some types.

    Examples
    --------
    >>> decoder = TokenDecoder({0: "O", 1: "B-PER", 2: "I-PER"})
    >>> logits = [[0, 3, 0], [0, 0, 0], [4, 0, 0]]  # "Jo", "##hn", "sings"
    >>> for span in decoder.decode(logits, [(0, 2), (2, 4), (5, 10)], [0, 0, 1]):
    ...     print(span.start, span.end, span.type, round(span.probability, 2))
    0 4 PER 0.94
    """

    def __init__(
        self,
        id2label: LabelSet,
        scheme: str | None = None,
        *,
        grammar: Grammar | None = None,
        biases: TransitionBiases | Mapping[str, float] | None = None,
        thresholds: Thresholds | None = None,
        temperature: float = 1.0,
        calibration: Calibration | None = None,
        pieces: PieceRule = "all",
        names: LabelNames | None = None,
    ) -> None:
        self.labels = usual_names(id2label, names)
        table = named_scheme(scheme_of(self.labels) if scheme is None else scheme)
        if not table.strict:
            raise OptionError(f"scheme {scheme!r}, expected one of {', '.join(STRICT)}")
        self.scheme = table.name
        self.temperature = real_number(temperature, "temperature")
        if not 0.0 < self.temperature < math.inf:
            raise OptionError(f"temperature is {temperature}, expected a number above 0")
        if pieces not in get_args(PieceRule):
            raise OptionError(f"pieces is {pieces!r}, expected 'all', 'first' or 'each'")
        self.pieces: PieceRule = pieces
        self.biases, self.calibration = TransitionBiases.of(biases), calibration
        if grammar is not None and not isinstance(grammar, Grammar):
            raise OptionError(f"grammar is {type(grammar).__name__}, expected a Grammar")
        if not isinstance(calibration, Calibration | None):
            raise OptionError(
                f"calibration is {type(calibration).__name__}, expected a Calibration: "
                "Calibration.load(path) reads one"
            )
        self.grammar = grammar
        self._steps = steps(self.labels, table, self.biases, self.temperature)
        if without := spanless_types([label for label in self.labels if label != OUTSIDE], table):
            warn(
                f"no span of {listed(without)} can ever be found: in {table.name}, this "
                "type lacks a label that begins or ends a span; check that all types use "
                "the same scheme",
                LabelWarning,
            )
        self._spelling = Spelling(self.labels, table, self._steps, pieces)
        parts = (label.partition("-") for label in self.labels)
        self.types = tuple(dict.fromkeys(kind for letter, _, kind in parts if letter != "O"))
        self.thresholds = checked_thresholds(thresholds, self.types)
        if grammar is not None:
            grammar.bind(self.labels)

    def __repr__(self) -> str:
        parts = [f"{len(self.labels)} labels", self.scheme]
        parts += [repr(self.grammar)] if self.grammar is not None else []
        parts += ["calibrated"] if self.calibration is not None else []
        parts += ["with thresholds"] if self.thresholds is not None else []
        return f"<TokenDecoder: {', '.join(parts)}>"

    def replaced(self, **changes: Any) -> TokenDecoder:
        """Return the decoder with other arguments: ``decoder.replaced(thresholds=0.9)``.

        Raises
        ------
        OptionError
            No such argument, or as for the class.
        """
        names = "scheme grammar biases thresholds temperature calibration pieces"
        mine: dict[str, Any] = {name: getattr(self, name) for name in names.split()}
        odd = next((name for name in changes if name not in mine), None)
        if odd is not None:
            raise OptionError(f"no argument {odd!r}; the arguments are {', '.join(mine)}")
        return TokenDecoder(self.labels, **(mine | changes))

    def __and__(self, grammar: Grammar) -> TokenDecoder:
        """Return the decoder under one more grammar of the labels of words."""
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.replaced(grammar=grammar if self.grammar is None else self.grammar & grammar)

    def __matmul__(self, other: object) -> NoReturn:
        """Refuse taggers of sentences; the message names the call that composes lattices."""
        raise OptionError(
            "a TokenDecoder reads scores and a tagger sentences: compose their lattices, "
            "decoder.lattices(documents)[k] @ tagger.lattice(sentence)"
        )

    __rmatmul__ = __matmul__

    # --- Decoding -----------------------------------------------------------------------------

    def decode(
        self,
        logits: Any,
        offset_mapping: Any,
        word_ids: Sequence[Any] | None = None,
        text: str | None = None,
    ) -> list[TextSpan]:
        """Return the spans of one document, in order; parameters as for `Pieces`.

        Raises
        ------
        DataError, NumericError, ShapeError, NoPathError
            As `decode_all`.
        """
        return self.decode_all([Pieces(logits, offset_mapping, word_ids, text)])[0]

    def decode_all(
        self,
        documents: Iterable[Pieces],
        *,
        threads: int = 1,
        on_no_path: Literal["error", "skip"] = "error",
    ) -> list[list[TextSpan]]:
        """Return the spans of each document, in order.

        Parameters
        ----------
        documents : iterable of Pieces
        threads : int
            The answer does not depend on it.
        on_no_path : {"error", "skip"}
            skip: a document without a legal labelling has no spans.

        Raises
        ------
        DataError
            Offsets that decrease or are outside the text, windows that do not continue each other.
        NumericError
            NaN or +inf.
        ShapeError
            Arrays that do not go together.
        NoPathError
            A document without a legal labelling.
        TooLargeError
            Thresholds, under a grammar too large to multiply out.
        """
        if on_no_path not in ("error", "skip"):
            raise OptionError(f"on_no_path is {on_no_path!r}, expected 'error' or 'skip'")
        return self._decoded(self._batch(documents, threads), strict=on_no_path == "error")

    def _decoded(self, batch: WordBatch, *, strict: bool) -> list[list[TextSpan]]:
        if self.thresholds is None:
            best = self._best(batch, strict=strict)
            return [self._kept(batch, k, found) for k, found in enumerate(best)]
        if strict:
            check_alive(batch.alive)
        above = FLOOR  # a calibration may raise any of them
        if self.calibration is None:
            above = least_threshold(self.threshold(kind) for kind in self.types)
        likely = self._likely(batch, above)
        return [
            self._kept(batch, k, chosen(found, self.threshold)) for k, found in enumerate(likely)
        ]

    def lattices(self, documents: Iterable[Pieces], *, threads: int = 1) -> Lattices[TapeLattice]:
        """Return the lattices of documents: their words and the words' labels.

        Raises
        ------
        DataError, NumericError, ShapeError
            As `decode_all`.
        """
        return self._batch(documents, threads).lattices

    def word_labels(self, documents: Iterable[Pieces], gold: Sequence[GoldText]) -> list[list[str]]:
        """Return the labels of each document's words that spans of characters spell.

        A span takes in each word that it shares a character with.

        Parameters
        ----------
        documents : iterable of B Pieces
        gold : sequence of B iterables of (int, int, str)

        Raises
        ------
        DataError
            Spans that overlap, or take in no word.
        DataError, NumericError, ShapeError
            As `decode_all`.
        """
        batch = self._batch(documents, 1)
        check_gold(gold, len(batch.words))
        return [spelt(batch, k, spans, self.scheme) for k, spans in enumerate(gold)]

    def _read(self, documents: Iterable[Pieces] | _Read) -> _Read:
        if isinstance(documents, _Read):
            return documents
        given = [documents] if isinstance(documents, Pieces) else list(documents)
        rows = [read_document(one, self.labels, self.temperature, k) for k, one in enumerate(given)]
        return _Read(rows, [one.text for one in given])

    def _batch(self, documents: Iterable[Pieces] | _Read, threads: int) -> WordBatch:
        read = self._read(documents)
        words = list(map(self._spelling.words, read.rows))
        steps = self._steps.between, self._steps.first, self._steps.last
        lattices = Lattices.from_arrays(self.labels, [rows.scores for rows in words], *steps)
        under = lattices if self.grammar is None else lattices & self.grammar
        return WordBatch(words, read.texts, under, threads)

    def _best(self, batch: WordBatch, *, strict: bool) -> list[list[tuple[Span, float]]]:
        """Return the spans of the best labels of each document, with their probabilities."""
        answer = batch.lattices.decode(threads=batch.threads)
        if strict:
            check_alive(~answer.dead)
        spans = answer.spans(self.scheme)
        if spans and not batch.lattices[0].row.summable:
            return [[(span, math.nan) for span in mine] for mine in spans]
        alive = np.flatnonzero(~answer.dead).tolist()
        some = batch.lattices.select(~answer.dead)
        asked = [spans[k] for k in alive]
        found = some.span_probabilities(asked, scheme=self.scheme, threads=batch.threads)
        chances = dict(zip(alive, found, strict=True))
        return [self._calibrated(one, chances.get(k, np.empty(0))) for k, one in enumerate(spans)]

    def _likely(self, batch: WordBatch, above: float) -> Iterator[list[tuple[Span, float]]]:
        """Yield all spans of each document with a probability above a number."""
        some = batch.lattices.select(batch.alive)
        found = iter(some.probable_spans(above, scheme=self.scheme, threads=batch.threads))
        for alive in batch.alive.tolist():
            own: Iterable[tuple[Span, float]] = next(found) if alive else []
            yield self._calibrated([s for s, _ in own], np.array([p for _, p in own]))

    def _calibrated(self, spans: list[Span], p: Floats) -> list[tuple[Span, float]]:
        if self.calibration is not None:
            p = self.calibration(np.minimum(p, 1.0), [span.type for span in spans])
        return list(zip(spans, np.minimum(p, 1.0).tolist(), strict=True))

    def threshold(self, kind: str) -> float | None:
        """Return the threshold of a type; `None` for never."""
        return (self.thresholds or {}).get(kind, LIKELY)

    def _kept(
        self, batch: WordBatch, k: int, found: Iterable[tuple[Span, float]]
    ) -> list[TextSpan]:
        placed = ((batch.placed(k, span), p) for span, p in found)
        return [TextSpan(*place, p) for place, p in placed if place is not None]

    # --- On held-out data ---------------------------------------------------------------------

    def events(
        self,
        documents: Iterable[Pieces],
        gold: Sequence[GoldText],
        *,
        above: float = FLOOR,
        threads: int = 1,
    ) -> Events:
        """Return all spans above a probability, and whether they are there.

        Parameters
        ----------
        documents : iterable of B Pieces
        gold : sequence of B iterables of (int, int, str)
            The spans that are there, in characters.
        above : float
            0.01 at least, before calibration.
        threads : int

        Raises
        ------
        DataError, NumericError, ShapeError, NoPathError
            As `decode_all`; another number of documents.

        Warns
        -----
        LabelWarning
            Gold spans that cannot be found: of types that are no label, that begin or end within a
            word, of more or fewer words than the labels of their type can spell, or that break the
            grammar together.
        """
        there, batch = gold_sets(gold), self._batch(documents, threads)
        self._gold_check.warn(batch, there)
        return self._events(batch, there, above)

    def _events(self, batch: WordBatch, gold: Sequence[set[Key]], above: float = FLOOR) -> Events:
        check_alive(batch.alive)
        keys, chances = [], []
        for k, found in enumerate(self._likely(batch, max(above, FLOOR))):
            placed = [(batch.placed(k, span), p) for span, p in found]
            keys.append([place for place, _ in placed if place is not None])
            chances.append(np.asarray([p for place, p in placed if place is not None]))
        return events_of(keys, chances, gold)

    def calibrated(
        self,
        documents: Iterable[Pieces],
        gold: Sequence[GoldText],
        kind: Kind = "isotonic",
        *,
        least: int = 50,
        threads: int = 1,
    ) -> TokenDecoder:
        """Return the decoder with its probabilities put right on held-out documents.

        Thresholds are compared with calibrated probabilities, so tune or set them afterwards.

        Parameters
        ----------
        documents, gold, threads
            As for `events`.
        kind, least
            As for `fstcrf.ext.calibration.Calibration.fit`.

        Raises
        ------
        OptionError
            No data for calibration; another kind; a decoder with thresholds.
        DataError, NumericError, ShapeError, NoPathError
            As `decode_all`.
        """
        if self.thresholds is not None:
            raise OptionError(
                "the thresholds were chosen for other probabilities: calibrate without them, "
                "decoder.replaced(thresholds=None).calibrated(...), and tune or set them again"
            )
        plain = self.replaced(calibration=None)
        events = plain.events(documents, gold, threads=threads)
        return self.replaced(calibration=Calibration.fit(events, kind, least=least))

    def evaluate(
        self, documents: Iterable[Pieces], gold: Sequence[GoldText], *, threads: int = 1
    ) -> SpanScore:
        """Return precision, recall and F of the spans found; as for `events`."""
        there, batch = gold_sets(gold), self._batch(documents, threads)
        self._gold_check.warn(batch, there)
        return self._score(batch, there)

    @property
    def _gold_check(self) -> GoldCheck:
        return GoldCheck(self.labels, self.types, self.scheme, self.pieces, self.grammar)

    def _score(self, batch: WordBatch, gold: Sequence[set[Key]]) -> SpanScore:
        found = [{span[:3] for span in one} for one in self._decoded(batch, strict=True)]
        right = sum(len(mine & there) for mine, there in zip(found, gold, strict=True))
        return SpanScore(right, sum(map(len, found)), sum(map(len, gold)))

    def tune(
        self,
        documents: Iterable[Pieces],
        gold: Sequence[GoldText],
        goal: Metric = "f",
        *,
        least: float = 0.0,
        beta: float = 1.0,
        biases: bool = True,
        thresholds: bool = True,
        threads: int = 1,
    ) -> TokenDecoder:
        """Return the decoder with the biases and thresholds that serve best on held-out documents.

        Biases are changed one at a time, starting from the decoder's biases, while that improves
        the result. With thresholds, each trial is judged with the best thresholds of each type,
        else by the best labels. If no trial reaches `least`, the closest one is chosen.

        Parameters
        ----------
        documents, gold, threads
            As for `events`.
        goal : {"f", "precision", "recall"}
            F; or precision where recall is at least `least`; or recall where precision is.
        least : float
            For precision and recall.
        beta : float
            Weight of recall in F.
        biases, thresholds : bool
            What is tuned.

        Raises
        ------
        OptionError
            Another goal, nothing to tune, or no gold spans.
        DataError, NumericError, ShapeError, NoPathError
            As `decode_all`.
        """
        wanted, there = Goal(goal, least, beta), gold_sets(gold)
        if not any(there) or not (biases or thresholds):
            what = "no gold span to tune on" if biases or thresholds else "nothing to tune"
            raise OptionError(f"{what}: give held-out documents, and biases or thresholds")
        read = self._read(documents)
        self._gold_check.warn(self._batch(read, threads), there)

        def value(trial: TransitionBiases) -> float:
            mine = self.replaced(biases=trial)
            batch = mine._batch(read, threads)  # noqa: SLF001 (its own)
            if not thresholds:
                return wanted.value(mine._score(batch, there))  # noqa: SLF001
            events = mine._events(batch, there)  # noqa: SLF001
            return wanted.value(best_thresholds(events, wanted)[1])

        ends = {"E", "L"} & {label[:1] for label in self.labels}
        names = tuple(n for n in self.biases.to_dict() if n != "inside_to_end" or ends)
        found = searched_biases(self.biases, value, names) if biases else self.biases
        tuned = self.replaced(biases=found)
        if not thresholds:
            return tuned
        events = tuned._events(tuned._batch(read, threads), there)  # noqa: SLF001
        rates, _ = best_thresholds(events, wanted)
        return tuned.replaced(thresholds={k: t for k, t in rates.items() if k in self.types})

    # --- Files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the decoder to a JSON file, whole or not at all.

        Raises
        ------
        OSError
            It cannot be written.
        """
        write_json(path, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the contents of a file: plain dicts, lists, strings and numbers."""
        file = DecoderFile(
            format=FORMAT,
            version=VERSION,
            labels=self.labels,
            scheme=self.scheme,
            pieces=self.pieces,
            temperature=self.temperature,
            biases=self.biases.to_dict(),
            thresholds=None if self.thresholds is None else dict(self.thresholds),
            calibration=None if self.calibration is None else self.calibration.to_json(),
            grammar=machines(self.grammar, self.labels),
        )
        found: dict[str, Any] = msgspec.to_builtins(file)
        return found

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TokenDecoder:
        """Read a file of `save`.

        Raises
        ------
        ModelFileError
            Not such a file, of another version, or with values that cannot be.
        OSError
            It cannot be opened.
        """
        return cls.from_json(read_json(path), where=os.fspath(path))

    @classmethod
    def from_json(cls, value: Any, *, where: str = "decoder") -> TokenDecoder:
        """Return the decoder that `to_json` gave.

        Raises
        ------
        ModelFileError
            As `load`.
        """
        file = read_file(value, where)
        calibration = file.calibration
        try:
            return cls(
                file.labels,
                file.scheme,
                grammar=grammar_of(file.grammar, file.labels),
                biases=file.biases,
                thresholds=file.thresholds,
                temperature=file.temperature,
                calibration=None if calibration is None else Calibration.from_json(calibration),
                pieces=file.pieces,
            )
        except FstcrfError as error:
            raise ModelFileError(f"{where}: not a sound decoder: {error}") from None
