"""Answers of a tagger to questions about one sentence: the data of the page, without the page."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from fstcrf.arrays import Floats, Ints
from fstcrf.errors import DataError, FstcrfError, NoPathError, OptionError
from fstcrf.ext.explain.joint import JointPush
from fstcrf.ext.inspect.labelled import LabelledText, QuietPipeline
from fstcrf.ext.inspect.notes import connected, note
from fstcrf.ext.inspect.questions import (
    MAX_CHARACTERS,
    MAX_EDITS,
    MAX_PATHS,
    MAX_TOKENS,
    MAX_WINDOW,
    Asked,
    CellAsked,
    CellShown,
    Compared,
    LatticeQuestion,
    ModelShown,
    PathShown,
    PushShown,
    Row,
    RuleShown,
    SentenceOpened,
    SentenceShown,
    Shown,
    SpanShown,
    TapeShown,
)
from fstcrf.ext.pipelines.cascade import given_best
from fstcrf.ext.pipelines.trained import Decode
from fstcrf.lattices import Answer
from fstcrf.lazy import made_once
from fstcrf.machines.grammar.acceptor import Acceptor
from fstcrf.taggers import JointCRF
from fstcrf.taggers.batches import as_corpus
from fstcrf.taggers.evidence import Forced, Request
from fstcrf.text.corpus import Corpus
from fstcrf.text.features import LiteralIndex

T = TypeVar("T")

_KEPT, _VARIANTS, _PUSHES, _LISTED = 64, 16, 20, 200


class Recent(Generic[T]):
    """A cache of recently used values with a fixed size, safe for threads."""

    def __init__(self, size: int) -> None:
        self._size, self._kept, self._lock = size, OrderedDict[Hashable, T](), Lock()

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key; `None` if it is not cached."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: Hashable, value: T) -> None:
        """Cache a value, and drop the least recently used ones."""
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


@dataclass(frozen=True, eq=False, slots=True)
class _Decided:
    """The result of one way to decide, for a sentence: best labels, and probabilities of tokens."""

    best: dict[str, Ints]  # for each tape, int32 [T]; −1 without a path
    score: float = -np.inf
    exact: bool = True
    marginals: dict[str, Floats] = field(default_factory=dict)  # for each tape, [T, L]
    given: dict[str, list[str]] = field(default_factory=dict)
    spans: list[SpanShown] = field(default_factory=list)
    dead: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class _Case:
    """A question that is ready to be decided."""

    question: LatticeQuestion
    sentence: Any
    forced: dict[str, list[str | None]]


@dataclass(frozen=True, eq=False)
class Workbench:
    """A tagger, or several composed, and the sentences of a file, ready to be asked.

    Any number of threads may ask.

    Parameters
    ----------
    composition : JointCRF
        Its grammar's rules can be switched off one by one, its weights changed. Of one tagger:
        ``compose(tagger)``.
    name : str
        Of the model, as it is shown.
    corpus : Corpus, optional
        Sentences to step through. A column called like a tape has its gold labels.
    way : str, optional
        How it decides unless it is asked otherwise, such as ``"cascade"``; when absent, jointly.

    Raises
    ------
    OptionError
        Something else than a composition.
    """

    composition: JointCRF
    name: str = "model"
    corpus: Corpus | None = None
    way: Decode | None = None
    _variants: Recent[JointCRF] = field(default_factory=lambda: Recent(_VARIANTS), repr=False)
    _decided: Recent[_Decided] = field(default_factory=lambda: Recent(_KEPT), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.composition, JointCRF):
            raise OptionError(
                f"a workbench of {type(self.composition).__name__}, expected a composition of "
                "CRFs, such as fstcrf.compose(tagger)"
            )

    # --- What there is ------------------------------------------------------------------------

    @made_once
    def rules(self) -> tuple[tuple[Acceptor, ...], ...]:
        """The rules of the grammar, each with the acceptors that it became."""
        parts = groupby(self.composition.conjuncts, key=lambda acceptor: acceptor.name)
        return tuple(tuple(acceptors) for _, acceptors in parts)

    @made_once
    def columns(self) -> tuple[str, ...]:
        """The columns that the taggers read, as training had them in order.

        Tapes that the taggers decide are excluded; a column with the name of a tape is included if
        a template reads the column.
        """
        read: set[str] = set()
        for component in self.composition._components:
            tagger = component.tagger
            if not isinstance(tagger.index, LiteralIndex):
                read.update(tagger.index.columns)
            read.update(tape.name for tape in tagger.reads if tape.name not in component.readings)
        trained = (name for tagger in self.composition.taggers for name in tagger.columns)
        return tuple(dict.fromkeys([*(n for n in trained if n in read), *sorted(read)]))

    @made_once
    def decodes(self) -> tuple[Decode, ...]:
        """The ways to decide that the tagger has, its own first."""
        if len(self.composition.taggers) == 1:
            return ("joint",)
        own: Decode = self.composition.normalize
        ways: tuple[Decode, ...] = (self.way or own, own, "product", "cascade")
        if not (self.composition.maps or self.composition._literal):
            ways = (*ways, "chain")
        return tuple(dict.fromkeys(ways))

    @made_once
    def text(self) -> LabelledText | None:
        """The sentences of the file with their gold labels."""
        if self.corpus is None:
            return None
        return LabelledText(self.composition, self.decodes[0], self.corpus)

    def describe(self) -> ModelShown:
        """Return the page's description of the model."""
        composition = self.composition
        return ModelShown(
            name=self.name,
            columns=list(self.columns),
            literal=composition._literal,
            tapes={tape: list(labels) for tape, labels in composition.label_sets.items()},
            taggers=[tagger.tape for tagger in composition.taggers],
            weights=list(composition.weights),
            rules=[rule[0].name for rule in self.rules],
            decodes=list(self.decodes),
            decode=self.decodes[0],
            sentences=0 if self.corpus is None else len(self.corpus),
            gold=[] if self.text is None else self.text.tapes,
            limits={
                "tokens": MAX_TOKENS,
                "characters": MAX_CHARACTERS,
                "window": MAX_WINDOW,
                "paths": MAX_PATHS,
                "edits": MAX_EDITS,
            },
        )

    # --- Sentences of the file ----------------------------------------------------------------

    def sentence(self, number: int) -> list[Row]:
        """Return the rows of a sentence of the file.

        Raises
        ------
        DataError
            There is no such sentence.
        """
        if self.corpus is None or not 0 <= number < len(self.corpus):
            there = 0 if self.corpus is None else len(self.corpus)
            raise DataError(f"sentence {number + 1} of a file of {there}")
        first, end = self.corpus.offsets[number : number + 2].tolist()
        read = [self.corpus.column(name) for name in self.columns]
        parts = [[column.values[i] for i in column.ids[first:end].tolist()] for column in read]
        return list(zip(*parts, strict=True))

    def opened(self, number: int) -> SentenceOpened:
        """Return the rows and the gold labels of a sentence of the file; errors as `sentence`."""
        rows = self.sentence(number)
        text = self.text
        assert text is not None  # noqa: S101 (it has that sentence)
        first, end = text.corpus.offsets[number : number + 2].tolist()
        return SentenceOpened(rows, {t: gold[first:end] for t, gold in text.gold.items()})

    def sentences(self, first: int = 0) -> list[SentenceShown]:
        """Return some sentences of the file; with gold labels, the ones with most errors first."""
        text = self.text
        if text is None:
            return []
        order = text.order[first : first + _LISTED].tolist()
        bounds = text.corpus.offsets
        return [
            SentenceShown(
                number,
                " ".join(row[0] for row in self.sentence(number)[:12]),
                int(bounds[number + 1] - bounds[number]),
                int(text.errors[number]) if text.tapes else None,
            )
            for number in order
        ]

    # --- Answers ------------------------------------------------------------------------------

    def answer(self, asked: Asked) -> Shown:
        """Return the page's view of a sentence.

        Raises
        ------
        FstcrfError
            A question without an answer, as one line: missing columns, an edit of an unknown tape,
            a product that is too large.
        """
        (found,) = self.answers([asked])
        if isinstance(found, FstcrfError):
            raise found
        return found

    def answers(self, several: Sequence[Asked]) -> list[Shown | FstcrfError]:
        """Return `answer` of several questions, or its error; those decided alike in one batch."""
        decided = self._decide([(asked.question, self._way(asked.question)) for asked in several])
        return [
            found if isinstance(found, FstcrfError) else self._shown(asked, found)
            for asked, found in zip(several, decided, strict=True)
        ]

    def rank(self, asked: Asked) -> list[PathShown]:
        """Return the best paths of a sentence; an empty list without a path."""
        question = asked.question
        if not question.rows:
            return []
        way, window = self._way(question), _window(asked, len(question.rows))
        answer = self._ask(self._variant(question), [self._case(question)], way, asked.paths)
        return _paths(answer, window)

    def compare(self, asked: Asked) -> list[Compared]:
        """Return the results of all ways to decide, the question's way first; [] for a single way.

        Their scores are the scores of their labels in the model's way, the first of `decodes`: each
        way has another unit, and a cascade's scores depend on the forced labels.
        """
        question, own = asked.question, self._way(asked.question)
        if not question.rows or len(self.decodes) == 1:
            return []
        window = _window(asked, len(question.rows))
        ways = [own, *(way for way in self.decodes if way != own)]
        found = self._decide([(question, way) for way in ways], bare=True)
        mine = found[0]
        if isinstance(mine, FstcrfError):
            raise mine
        tagger, sentence = self._variant(question), self._sentence(question)

        def score(best: Mapping[str, Ints]) -> float:
            sets = self.composition.label_sets
            labels = [[sets[tape][k] for k in best[tape].tolist()] for tape in tagger.tapes]
            return tagger.score(sentence, labels)

        return [
            _compared(way, mine, one, window, score) for way, one in zip(ways, found, strict=True)
        ]

    def judge(self, question: LatticeQuestion) -> list[RuleShown]:
        """Return, for each rule of the grammar, its verdict on the best labels without rules."""
        if not question.rows:
            return []
        free = replace(self._variant(question), conjuncts=())
        case = self._case(question)
        answer = self._ask(free, [case], self._way(question), 1)
        if answer.dead[0]:
            return []
        labels = {tape: answer[tape].path(0) for tape in answer.tapes}
        labels |= {t.tape: t.read(case.sentence[t.tape]) for t in self.composition.given}
        return [_judged(number, rule, labels) for number, rule in enumerate(self.rules)]

    def explain(self, asked: CellAsked) -> CellShown:
        """Return the contributions to a label of a tape at a token, and to the best label there.

        Raises
        ------
        OptionError
            No such tape, token or label.
        """
        question = asked.question
        self._check_cell(question, asked.tape, asked.token, asked.label)
        sentence = self._sentence(question)
        found = self._variant(question).explain(sentence, asked.token).tapes[asked.tape]
        label = self.composition.label_sets[asked.tape][asked.label]
        other = found.best if found.best != label else None
        return CellShown(
            found.probability[label],
            found.emission[label],
            found.best,
            found.emission[found.best],
            _pushes(found.pushes, label),
            [] if other is None else _pushes(found.pushes, other),
        )

    # --- How they are found -------------------------------------------------------------------

    def _variant(self, question: LatticeQuestion) -> JointCRF:
        """Return the composition with the weights and rules of a question."""
        if question.weights is not None and len(question.weights) != len(self.composition.weights):
            raise OptionError(
                f"{len(question.weights)} weights for {len(self.composition.weights)} taggers"
            )
        odd = [rule for rule in question.rules or () if rule >= len(self.rules)]
        if odd:
            raise OptionError(f"rule {odd[0]}: there are {len(self.rules)}")

        if question.weights is None and question.rules is None:
            return self.composition
        key = question.weights, question.rules
        kept = self._variants.get(key)
        if kept is None:
            weights = question.weights or self.composition.weights
            on = range(len(self.rules)) if question.rules is None else sorted(set(question.rules))
            conjuncts = tuple(acceptor for k in on for acceptor in self.rules[k])
            kept = replace(self.composition, weights=weights, conjuncts=conjuncts)
            self._variants.put(key, kept)
        return kept

    def _way(self, question: LatticeQuestion) -> Decode:
        return question.decode or self.decodes[0]

    def _case(self, question: LatticeQuestion) -> _Case:
        return _Case(question, self._sentence(question), self._forced(question))

    def _decide(
        self, asked: Sequence[tuple[LatticeQuestion, Decode]], *, bare: bool = False
    ) -> list[_Decided | FstcrfError]:
        """Return the results of ways to decide, for several questions; similar ones form a batch.

        If `bare`, without probabilities.
        """
        found: dict[tuple[LatticeQuestion, Decode], _Decided | FstcrfError] = {}
        groups: dict[tuple[Decode, Hashable], list[_Case]] = {}
        for question, way in dict.fromkeys(asked):
            kept = self._decided.get((question, way))
            if kept is not None:
                found[question, way] = kept
                continue
            try:
                case = self._case(question)
            except FstcrfError as error:
                found[question, way] = error
                continue
            alike = way, (question.weights, question.rules)
            groups.setdefault(alike, []).append(case)
        for (way, _), cases in groups.items():
            for case, decided in zip(cases, self._group(cases, way, bare=bare), strict=True):
                found[case.question, way] = decided
                if not bare and isinstance(decided, _Decided):
                    self._decided.put((case.question, way), decided)
        return [found[each] for each in asked]

    def _group(
        self, cases: Sequence[_Case], way: Decode, *, bare: bool
    ) -> list[_Decided | FstcrfError]:
        """Return the results of one way to decide, for questions with equal weights and rules."""
        full = [case for case in cases if case.question.rows]
        try:
            known = iter(self._together(full, way, bare=bare) if full else ())
        except FstcrfError as error:
            if len(cases) == 1:
                return [error]
            each = [self._group([case], way, bare=bare) for case in cases]  # it may be of one
            return [found for (found,) in each]
        empty = _Decided(
            dict.fromkeys(self.composition.tapes, np.empty(0, dtype=np.int32)), dead="no token yet"
        )
        return [next(known) if case.question.rows else empty for case in cases]

    def _together(self, cases: Sequence[_Case], way: Decode, *, bare: bool) -> list[_Decided]:
        """Return the results of one way to decide, for nonempty sentences."""
        composition = self._variant(cases[0].question)
        answer = self._ask(composition, cases, way, 1)
        given = self._given(composition) if way in ("cascade", "chain") else {}
        bare = bare or (way == "chain" and connected(composition))
        if way == "chain" and not bare:
            asked = Request(self._sentences(cases), forced=_known(cases))
            answer.with_posterior(partial(given_best, composition, asked, answer))
        tables = {} if bare else {tape: answer.marginals(tape) for tape in answer.tapes}
        spans = [[] for _ in cases] if bare else _spans(answer)
        return [
            self._dead(composition, case, way)
            if answer.dead[k]
            else _Decided(
                {tape: _ids(answer, tape, k) for tape in answer.tapes},
                float(answer.scores[k]),
                bool(answer.exact[k]),
                {tape: rows[k] for tape, rows in tables.items()},
                given,
                spans[k],
            )
            for k, case in enumerate(cases)
        ]

    def _sentences(self, cases: Sequence[_Case]) -> Any:
        """Return the sentences of questions, read once for all questions."""
        sentences = [case.sentence for case in cases]
        return sentences if self.composition._literal else as_corpus(self.composition, sentences)

    def _dead(self, composition: JointCRF, case: _Case, way: Decode) -> _Decided:
        """Return why a sentence has no path."""
        tokens = len(case.question.rows)
        best = {t: np.full(tokens, -1, dtype=np.int32) for t in composition.tapes}
        try:
            self._ask(composition, [case], way, 1, strict=True)
        except NoPathError as error:
            why = NoPathError(error.reason, blame=error.blame)
            where = "" if error.position is None else f"at token {error.position + 1}: "
            return _Decided(best, dead=f"{where}{why}")
        return _Decided(best, dead="no label sequence is legal")

    def _ask(
        self,
        composition: JointCRF,
        cases: Sequence[_Case],
        way: Decode,
        paths: int,
        *,
        strict: bool = False,
    ) -> Answer:
        """Return the best paths."""
        return QuietPipeline(composition, way).decode(
            [case.sentence for case in cases],
            n=paths,
            forced=_known(cases),
            on_no_path="error" if strict else "skip",
        )

    def _given(self, composition: JointCRF) -> dict[str, list[str]]:
        return {
            component.tagger.tape: sorted({r.tape for r in component.readings.values()})
            for component in composition._components
        }

    def _shown(self, asked: Asked, found: _Decided) -> Shown:
        question, way = asked.question, self._way(asked.question)
        window = _window(asked, len(question.rows))
        tapes = [
            TapeShown(
                tape,
                found.best[tape][window].tolist(),
                _rounded(found.marginals[tape][window]) if tape in found.marginals else [],
                found.given.get(tape, []),
            )
            for tape in self.composition.tapes
        ]
        spans = [s for s in found.spans if s.end > window.start and s.start < window.stop]
        return Shown(
            len(question.rows),
            window.start,
            list(question.rows[window]),
            way,
            tapes,
            spans,
            _number(found.score),
            note(way, self.composition, found),
            found.dead,
        )

    def _sentence(self, question: LatticeQuestion) -> Any:
        """Return the rows of a question as the taggers read them."""
        rows = question.rows
        if self.composition._literal:
            return [list(row) for row in rows]
        names = self.columns
        width = min(map(len, rows), default=len(names))
        if width != len(names):
            trained = self.composition.taggers[0].columns
            last = max((trained.index(n) for n in names if n in trained), default=-1)
            if width <= last or any(name not in trained for name in names):
                short = next(k for k, row in enumerate(rows) if len(row) == width)
                raise DataError(
                    f"token {short + 1} has {width} column{'' if width == 1 else 's'}; the model "
                    f"reads {', '.join(names)}: one token a line, its columns between blanks"
                )
            return {name: [row[trained.index(name)] for row in rows] for name in names}
        return {name: [row[k] for row in rows] for k, name in enumerate(names)}

    def _forced(self, question: LatticeQuestion) -> dict[str, list[str | None]]:
        """Return the labels that the edits of a question leave, tape by tape."""
        masks: dict[str, Any] = {}
        for edit in question.edits:
            self._check_cell(question, edit.tape, edit.token, edit.label)
            size = len(self.composition.label_sets[edit.tape])
            mask = masks.setdefault(edit.tape, np.ones((len(question.rows), size), dtype=bool))
            if edit.kind == "force":
                mask[edit.token] &= np.arange(size) == edit.label
            else:
                mask[edit.token, edit.label] = False
        return {tape: self._written(tape, mask) for tape, mask in masks.items()}

    def _written(self, tape: str, mask: Any) -> list[str | None]:
        labels = self.composition.label_sets[tape]
        found: list[str | None] = []
        for token, row in enumerate(mask):
            kept = [labels[k] for k in np.flatnonzero(row).tolist()]
            if not kept:
                raise OptionError(f"token {token + 1} of {tape}: no label is left")
            if len(kept) > 1 and len(kept) < len(labels) and any("|" in label for label in kept):
                raise OptionError(
                    f"{tape}: labels cannot be forbidden if labels of the tape contain '|': "
                    "force a label instead"
                )
            found.append(None if len(kept) == len(labels) else "|".join(kept))
        return found

    def _check_cell(self, question: LatticeQuestion, tape: str, token: int, label: int) -> None:
        sets = self.composition.label_sets
        if tape not in sets:
            raise OptionError(f"no tape {tape!r}: the tapes are {', '.join(sets)}")
        if token >= len(question.rows) or label >= len(sets[tape]):
            raise OptionError(
                f"token {token + 1}, label {label + 1} of tape {tape!r}: there are "
                f"{len(question.rows)} tokens and {len(sets[tape])} labels"
            )


def _window(asked: Asked, tokens: int) -> slice:
    first = min(asked.first, max(0, tokens - 1))
    return slice(first, min(tokens, first + asked.width))


def _rounded(table: Floats) -> list[list[float]]:
    found: list[list[float]] = np.round(np.clip(table, 0.0, 1.0), 4).tolist()
    return found


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _known(cases: Sequence[_Case]) -> list[Forced | None] | None:
    """Return the forced labels of sentences; `None` without any."""
    forced: list[Forced | None] = [case.forced or None for case in cases]
    return forced if any(forced) else None


def _spans(answer: Answer) -> list[list[SpanShown]]:
    """Return the spans of the best path of each sentence, tape after tape."""
    found: list[list[SpanShown]] = [[] for _ in range(len(answer))]
    for tape in answer.tapes:
        chances = answer.span_probabilities(tape)
        for mine, spans, probable in zip(found, answer[tape].spans(), chances, strict=True):
            pairs = zip(spans, np.round(probable, 6).tolist(), strict=True)
            mine += [SpanShown(tape, s.start, s.end, s.type, p) for s, p in pairs]
    return found


def _ids(answer: Answer, tape: str, k: int) -> Ints:
    return answer[tape].flat[0, answer.offsets[k] : answer.offsets[k + 1]]


def _compared(
    way: Decode,
    mine: _Decided,
    other: _Decided | FstcrfError,
    window: slice,
    score: Callable[[Mapping[str, Ints]], float],
) -> Compared:
    """Return the tokens at which a way differs from the question's way, and its labels' score."""
    if isinstance(other, FstcrfError) or other.dead:
        why = str(other) if isinstance(other, FstcrfError) else other.dead
        return Compared(way, [], score=None, exact=False, differs=[], dead=why)
    differs = np.any([other.best[tape] != ids for tape, ids in mine.best.items()], axis=0)
    return Compared(
        way,
        [ids[window].tolist() for ids in other.best.values()],
        score=_number(score(other.best)),
        exact=other.exact,
        differs=[] if mine.dead else np.flatnonzero(differs).tolist(),
        dead="",
    )


def _paths(answer: Answer, window: slice) -> list[PathShown]:
    tapes = [answer[tape] for tape in answer.tapes]
    rows = (answer.scores, answer.probabilities, answer.exact)
    scores, chances, exact = (np.ravel(row) for row in rows)
    found = []
    for k in range(int(np.isfinite(scores).sum())):
        differs = np.zeros(tapes[0].flat.shape[1], dtype=bool)
        for tape in tapes:
            differs |= tape.flat[k] != tape.flat[0]
        found.append(
            PathShown(
                [tape.flat[k, window].tolist() for tape in tapes],
                float(scores[k]),
                _number(chances[k]),
                bool(exact[k]),
                int(differs.sum()),
            )
        )
    return found


def _judged(
    number: int, rule: tuple[Acceptor, ...], labels: Mapping[str, Sequence[str]]
) -> RuleShown:
    """Return whether a rule rejects the labels of tapes, and at which token."""
    tapes = list(dict.fromkeys(tape for acceptor in rule for tape in acceptor.tapes))
    for acceptor in rule:
        paths = [labels[tape] for tape in acceptor.tapes]
        if acceptor.walk(*paths) > -np.inf:
            continue
        token = _death(acceptor, paths)
        found = "" if token is None else " ".join(path[token] for path in paths)
        return RuleShown(number, acceptor.name, tapes, forbids=True, token=token, found=found)
    return RuleShown(number, rule[0].name, tapes, forbids=False, token=None, found="")


def _death(acceptor: Acceptor, paths: Sequence[Sequence[str]]) -> int | None:
    """Return the token at which an acceptor rejects labels; `None` if it expects more labels."""
    state = 0
    names = [{label: i for i, label in enumerate(known)} for known in acceptor.labels]
    ids = [[place[label] for label in path] for place, path in zip(names, paths, strict=True)]
    for token, labels in enumerate(zip(*ids, strict=True)):
        state = int(acceptor.target[(state, *labels)])
        if state < 0:
            return token
    return None


def _pushes(pushes: Sequence[JointPush], label: str) -> list[PushShown]:
    mine = [push for push in pushes if push.label == label][:_PUSHES]
    return [PushShown(p.tagger, p.attribute, p.value, list(p.given)) for p in mine]
