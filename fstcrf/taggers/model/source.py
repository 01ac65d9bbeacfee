"""The data of a training run: its design matrix and its label column."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fstcrf.arguments import real_array, string_lists
from fstcrf.arrays import Bools, Floats, Longs, distinct
from fstcrf.errors import DataError, OptionError, TemplateError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.kernel import SparseRows
from fstcrf.ragged import Ragged
from fstcrf.taggers.model.gold import Unknown, comparable, in_scheme, legal_gold, spoken_gold
from fstcrf.taggers.model.options import Options
from fstcrf.taggers.model.reads import Retrain, built, ordered, pass_on, with_labels
from fstcrf.taggers.reading import Data, allowed_labels, sized
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.schemes import has_spans
from fstcrf.text.features import (
    AttributeIndex,
    Design,
    FeatureFunction,
    FeatureIndex,
    FunctionIndex,
    LiteralIndex,
    TemplateSet,
    is_literal,
)
from fstcrf.text.features.surroundings import with_surroundings
from fstcrf.text.features.template import as_templates
from fstcrf.training import Progress

if TYPE_CHECKING:
    from fstcrf.taggers.model.crf import CRF

Target = str | Sequence[Sequence[str]]
"""A column of labels, or the labels of each sentence."""

TARGET = "%target"


class Source:
    """The data of a run: design matrix, label column, sentence bounds."""

    def __init__(
        self,
        index: AttributeIndex,
        design: Design,
        labelled: Corpus,
        *,
        columns: tuple[str, ...],
        transitions: bool,
        full: Bools,
        note: str = "",
        origin: Longs | None = None,
        share: Floats | None = None,
    ) -> None:
        self.index, self.design, self.columns = index, design, columns
        self.transitions = transitions
        self.full = full  # which of the sentences that were given are trained on
        self.note = note  # what became of illegal labels
        # Which of those each sentence of the design is, and what it counts.
        self.origin = np.arange(int(full.sum())) if origin is None else origin
        self.share = np.ones(len(self.origin)) if share is None else share
        self.offsets = labelled.offsets
        self._labelled = labelled

    def node(self) -> SparseRows:
        """Return the attributes of tokens."""
        return self.design.node

    def arc(self) -> SparseRows | None:
        """Return the attributes of arcs, if there are any."""
        return self.design.arc

    def unknown(self, labels: Sequence[str]) -> Unknown:
        """Count the labels that are not known."""
        return Unknown.of(self._labelled.column(TARGET), labels)

    @property
    def target_values(self) -> list[str]:
        """The distinct strings of the label column."""
        column = self._labelled.column(TARGET)
        return [column.values[i] for i in distinct(column.ids).tolist()]

    def where(self, sentence: int, token: int | None) -> dict[str, Any]:
        """Return the place of a token or a sentence as given: arguments of `DataError`."""
        if self._labelled.lines is not None:
            return {**self._labelled.where(int(self.offsets[sentence]) + (token or 0))}
        return {"sentence": int(np.flatnonzero(self.full)[self.origin[sentence]]), "token": token}

    def allowed(self, labels: Sequence[str], *, partial: bool) -> Bools:
        """Return which labels each token may have, bool [N, L]."""
        return allowed_labels(self._labelled.column(TARGET), labels, partial=partial)


def read_source(
    data: Data,
    target: Target,
    template: TemplateSet | str | os.PathLike[str] | FeatureFunction | None,
    *,
    reads: Sequence[CRF],
    settings: Options,
    warm_start: CRF | None,
    retrain: Retrain,
    threads: int = 1,
    report: Callable[[Progress], None] | None = None,
) -> Source:
    """Read columns with a template or a function, or attribute lists; see `train_crf`."""
    base = None if warm_start is None else warm_start.index
    known = () if warm_start is None else warm_start.labels
    if not isinstance(data, Corpus):
        lengths = [sized(own, "the sentence", number) for number, own in enumerate(data)]
        first = next((own for own, length in zip(data, lengths, strict=True) if length), None)
        if first is None:
            raise DataError("no sentence to train on")
        if is_literal(first):
            if template is not None or reads:
                raise OptionError(
                    "a template, a feature function and reads= need columns, not attribute lists"
                )
            return _literal_source(data, target, settings, base, known)
    if template is None:
        raise OptionError(
            "columns need a feature template: template='chunking.tpl', or a feature function: "
            "features=f"
        )
    if isinstance(base, LiteralIndex):
        raise OptionError("warm_start reads attribute lists, the data has columns")
    corpus = data if isinstance(data, Corpus) else Corpus.from_sentences(data)
    if not corpus.n_tokens:
        raise DataError("no sentence to train on", path=corpus.source)
    templates = None if callable(template) else as_templates(template)
    if templates is not None:  # before sentences are left out or drawn
        corpus = with_surroundings(corpus, templates)
    corpus, labelled, full, note = _labelled(corpus, target, settings, known)
    tapes = [tagger.tape for tagger in reads] if templates is None else templates.tapes
    taggers = ordered(reads, tapes)
    passed = pass_on(corpus, taggers, settings, retrain=retrain, threads=threads, report=report)
    build = (
        _function_build(template, target, tapes, settings, base)
        if callable(template)
        else _template_build(as_templates(template), settings, base)
    )
    index, design, passed = built(passed, build)
    if isinstance(index, FeatureIndex):
        check_template(index.templates, target, reads)
    return Source(
        index,
        design,
        labelled.select(passed.origin),
        columns=tuple(name for name in corpus.columns if not name.startswith("%")),
        transitions=not isinstance(index, FeatureIndex) or index.templates.has_transitions,
        full=full,
        origin=passed.origin,
        share=passed.share,
        note=note,
    )


Build: TypeAlias = Callable[[Corpus], tuple[FeatureIndex | FunctionIndex, Design]]
"""Maps a training text to its index and its design."""


def _template_build(templates: TemplateSet, settings: Options, base: object) -> Build:
    if isinstance(base, FunctionIndex):
        raise OptionError("warm_start has a feature function, expected one with the same templates")
    return partial(
        FeatureIndex.build,
        templates=templates,
        boundary=settings.boundary,
        min_count=settings.min_count,
        hash_bits=settings.hash_bits,
        base=base if isinstance(base, FeatureIndex) else None,
    )


def _function_build(
    function: FeatureFunction,
    target: Target,
    tapes: Sequence[str],
    settings: Options,
    base: object,
) -> Build:
    if isinstance(base, FeatureIndex):
        raise OptionError("warm_start reads a template, expected one with a feature function")
    if settings.passing == "marginals":
        raise OptionError(
            "passing='marginals' averages over the label of one token, but a feature function may "
            "read the labels of the whole sentence: use passing='best' or 'nbest'"
        )
    return partial(
        FunctionIndex.build,
        function=function,
        tapes=tapes,
        target=target if isinstance(target, str) else None,
        min_count=settings.min_count,
        hash_bits=settings.hash_bits,
        base=base if isinstance(base, FunctionIndex) else None,
    )


def _labelled(
    corpus: Corpus, target: Target, settings: Options, known: Sequence[str]
) -> tuple[Corpus, Corpus, Bools, str]:
    """Return the sentences to train on, their labels as a corpus, which they are, what was done."""
    if isinstance(target, str):
        labelled = corpus.with_interned(TARGET, corpus.column(target))
    else:
        rows = string_lists(target, "label", error=DataError)
        if len(rows) != len(corpus):
            raise DataError(f"labels of {len(rows)} sentences for {len(corpus)}")
        labelled = corpus.with_column(TARGET, rows)
    gold = legal_gold(labelled, TARGET, settings, known=known)
    full = (Ragged(corpus.offsets).lengths > 0) & gold.kept
    note = spoken_gold(gold, settings)
    if full.all():
        return corpus, gold.corpus, full, note
    chosen = np.flatnonzero(full)
    return corpus.select(chosen), gold.corpus.select(chosen), full, note


def _literal_source(
    data: Sequence[Any],
    target: Target,
    settings: Options,
    base: AttributeIndex | None,
    known: Sequence[str],
) -> Source:
    if isinstance(target, str):
        raise OptionError("attribute lists have no columns: give the labels of each sentence")
    if base is not None and not isinstance(base, LiteralIndex):
        raise OptionError("warm_start reads columns, the data has attribute lists")
    target = string_lists(target, "label", error=DataError)
    if len(target) != len(data):
        raise DataError(f"labels of {len(target)} sentences for {len(data)}")
    for i, (labels, sentence) in enumerate(zip(target, data, strict=True)):
        if len(labels) != len(sentence):
            raise DataError(f"{len(labels)} labels for {len(sentence)} tokens", sentence=i)
    labelled = Corpus.from_sentences([{TARGET: labels} for labels in target])
    gold = legal_gold(labelled, TARGET, settings, known=known)
    filled = np.asarray([len(sentence) > 0 for sentence in data]) & gold.kept
    full = np.flatnonzero(filled).tolist()
    index, design = LiteralIndex.build(
        [data[i] for i in full],
        min_count=settings.min_count,
        hash_bits=settings.hash_bits,
        base=base,
    )
    return Source(
        index,
        design,
        gold.corpus.select(full),
        columns=(),
        transitions=True,
        full=filled,
        note=spoken_gold(gold, settings),
    )


def check_template(templates: TemplateSet, target: Target, reads: Sequence[CRF]) -> None:
    """Refuse templates that read the labels themselves, or tapes that nobody writes."""
    if isinstance(target, str) and target in templates.columns:
        raise TemplateError(f"a template reads the target column {target!r} itself")
    unread = set(templates.tapes) - {tagger.tape for tagger in reads}
    if unread:
        raise TemplateError(
            f"a template reads the tapes {', '.join(sorted(unread))}: pass their taggers as reads="
        )


# --- What each sentence of a corpus weighs in training --------------------------------------------


def sentence_weights(
    source: Source,
    allowed: Bools,
    labels: Sequence[str],
    weights: Sequence[float] | Floats | None,
    class_weights: Mapping[str, float] | None,
) -> Floats:
    """Return the weight of each sentence of the source, float64 [B].

    That is the one given, times the mean of the class weights of its labels, 1 for others;
    `allowed`, bool [N, L], are the labels that each token may have.
    """
    n = len(source.full)
    total = (
        np.ones(n)
        if weights is None
        else real_array(weights, "weights of sentences", error=DataError)
    )
    if total.shape != (n,):
        raise DataError(f"weights are {list(total.shape)}, expected {[n]}: one for each sentence")
    total = total[source.full][source.origin] * source.share
    return class_weighted(total, allowed, labels, class_weights, source.offsets)


def class_weighted(
    total: Floats,
    allowed: Bools,
    labels: Sequence[str],
    class_weights: Mapping[str, float] | None,
    offsets: Longs,
) -> Floats:
    """Return weights of sentences, float64 [B], times the mean class weights of their labels."""
    if class_weights is not None:
        if not isinstance(class_weights, Mapping):
            raise OptionError(f"class_weights is {class_weights!r}, expected a mapping of labels")
        unknown = set(class_weights) - set(labels)
        if unknown:
            raise DataError(f"class weights of labels that do not occur: {sorted(unknown)}")
        given = [class_weights.get(label, 1.0) for label in labels]
        value = real_array(given, "class weights", error=DataError)
        if wrong := [k for k, weight in enumerate(value.tolist()) if not 0.0 <= weight < np.inf]:
            label = labels[wrong[0]]
            raise DataError(
                f"the class weight of {label!r} is {given[wrong[0]]}, expected a finite number of "
                "at least 0"
            )
        token = allowed @ value / allowed.sum(axis=1)
        total = total * (np.add.reduceat(token, offsets[:-1]) / Ragged(offsets).lengths)
    return total


# --- Held-out data --------------------------------------------------------------------------------


def held_out_labels(
    dev: Data | None,
    dev_target: Sequence[Sequence[str]] | None,
    target: Target,
    settings: Options | None = None,
) -> list[list[str]] | None:
    """Return the labels of held-out sentences; None where there are no sentences.

    Labels of another scheme are converted; those that break it are read as conlleval does, which
    scores them.
    """
    if dev is None:
        return None
    if isinstance(target, str):
        data = dev if isinstance(dev, Corpus) else Corpus.from_sentences(dev)
        return in_scheme(data.column_lists(target), settings)
    if dev_target is None:
        raise OptionError("dev needs dev_target: the labels of each of its sentences")
    rows = string_lists(dev_target, "held-out label", error=DataError)
    if len(rows) != len(dev):
        raise DataError(f"held-out labels of {len(rows)} sentences for {len(dev)}")
    return in_scheme([list(map(str, row)) for row in rows], settings)


def held_out_score(
    model: Callable[[Floats], CRF],
    dev: Data,
    gold: list[list[str]],
    reads: Sequence[CRF],
    threads: int,
    *,
    partial: bool,
) -> Callable[[Floats], float]:
    """Return weights → F of spans where labels are spans, else accuracy, on held-out sentences.

    `model` maps weights to a tagger; `reads` are earlier ones, in the order in which they tag.
    `partial`: tokens whose label is unknown do not count.
    """
    data: Data = dev
    if reads:
        data = dev if isinstance(dev, Corpus) else Corpus.from_sentences(dev)
        data = with_labels(data, reads, threads=threads)
    spans = has_spans(label for labels in gold for label in labels)

    def score(theta: Floats) -> float:
        tagger = model(theta)
        predicted: Any = tagger.tag_all(data, threads=threads)
        wanted, own = comparable(gold, predicted, tagger.labels) if partial else (gold, predicted)
        return evaluate_spans(wanted, own).f if spans else evaluate_tokens(wanted, own).accuracy

    return score
