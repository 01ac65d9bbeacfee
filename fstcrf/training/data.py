"""The data of a training: design matrix, gold labels, weights of sentences, held-out sentences."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fstcrf.arguments import real_array, string_lists
from fstcrf.arrays import Bools, Floats, Longs, Ragged
from fstcrf.errors import DataError, OptionError, TemplateError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.evaluate.labellings import warn_of_unseen
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
from fstcrf.text.features.reader import with_surroundings
from fstcrf.text.features.template import as_templates
from fstcrf.text.sentences import UNKNOWN, Data, alternatives, sized
from fstcrf.training.gold import (
    comparable,
    illegal_warning,
    in_scheme,
    legal_gold,
)
from fstcrf.training.options import Options
from fstcrf.training.passing import Passed, passed_design
from fstcrf.training.record import TrainedTagger

Target = str | Sequence[Sequence[str]]
"""A column of labels, or the labels of each sentence."""

TARGET = "%target"


class TrainingData:
    """The design matrix of B sentences, and the column `gold` of their labels.

    `full`, bool [S], marks the sentences of the caller that are trained on. Sentences are left out
    if they are empty or illegal; `note` is a warning about illegal sentences. `origin`, int64 [B],
    is the one of these sentences of which a sentence of the design is a copy, `share`, float64 [B],
    the weight of the copy.
    """

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
        self.full, self.note = full, note
        self.origin = np.arange(int(full.sum())) if origin is None else origin
        self.share = np.ones(len(self.origin)) if share is None else share
        self.offsets = labelled.offsets
        self._labelled, self.gold = labelled, labelled.column(TARGET)

    def where(self, sentence: int, token: int | None) -> dict[str, Any]:
        """Return the place of a token in the text of the caller, as arguments of `DataError`."""
        if self._labelled.lines is not None:
            return {**self._labelled.where(int(self.offsets[sentence]) + (token or 0))}
        return {"sentence": int(np.flatnonzero(self.full)[self.origin[sentence]]), "token": token}


def read_data(
    data: Data,
    target: Target,
    template: TemplateSet | str | os.PathLike[str] | FeatureFunction | None,
    *,
    settings: Options,
    base: AttributeIndex | None,
    known: Sequence[str],
    tapes: Sequence[str],
    label: Callable[[Corpus, Sequence[str]], Passed],
) -> TrainingData:
    """Read columns with a template or a feature function, or lists of attributes.

    For `data`, `target` and `template` see `fstcrf.CRF.train`. `base` and `known` are index
    and labels of an earlier model, `tapes` the tapes of earlier taggers. `label` returns a corpus
    with labels on the tapes that templates read.
    """
    if not isinstance(data, Corpus):
        lengths = [sized(sentence, "the sentence", number) for number, sentence in enumerate(data)]
        first = next((data[number] for number, length in enumerate(lengths) if length), None)
        if first is None:
            raise DataError("no sentence to train on")
        if is_literal(first):
            if template is not None or tapes:
                raise OptionError(
                    "a template, a feature function and reads= need columns, not attribute lists"
                )
            return _literal_data(data, target, settings, base, known)
    if template is None:
        raise OptionError(
            "columns need a feature template: features='chunking.tpl', or a feature function: "
            "features=f"
        )
    if isinstance(base, LiteralIndex):
        raise OptionError("start reads attribute lists, the data has columns")
    corpus = data if isinstance(data, Corpus) else Corpus.from_sentences(data)
    if not corpus.n_tokens:
        raise DataError("no sentence to train on", path=corpus.source)
    templates = None if callable(template) else as_templates(template)
    if templates is not None:  # before sentences are left out or drawn
        corpus = with_surroundings(corpus, templates)
    corpus, labelled, full, note = _labelled(corpus, target, settings, known)
    read = tapes if templates is None else templates.tapes
    passed = label(corpus, read)
    build = (
        _function_build(template, target, read, settings, base)
        if callable(template)
        else _template_build(as_templates(template), settings, base)
    )
    index, design, passed = passed_design(passed, build)
    if isinstance(index, FeatureIndex):
        check_template(index.templates, target)
    return TrainingData(
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
        raise OptionError("start has a feature function, expected one with the same templates")
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
        raise OptionError("start reads a template, expected one with a feature function")
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
    """Return the sentences to train on, the same with gold labels, `full` and `note`."""
    if isinstance(target, str):
        labelled = corpus.with_interned(TARGET, corpus.column(target))
    else:
        rows = string_lists(target, "label", error=DataError)
        if len(rows) != len(corpus):
            raise DataError(f"labels of {len(rows)} sentences for {len(corpus)}")
        labelled = corpus.with_column(TARGET, rows)
    labelled, full, note = _legal(labelled, settings, known)
    if not full.all():
        corpus = corpus.select(np.flatnonzero(full))
    return corpus, labelled, full, note


def _legal(labelled: Corpus, settings: Options, known: Sequence[str]) -> tuple[Corpus, Bools, str]:
    """Return the sentences to train on, with legal labels; `full` and `note`."""
    gold = legal_gold(labelled, TARGET, settings, known=known)
    full = (Ragged(labelled.offsets).lengths > 0) & gold.kept
    kept = gold.corpus if full.all() else gold.corpus.select(np.flatnonzero(full))
    return kept, full, illegal_warning(gold, settings)


def _literal_data(
    data: Sequence[Any],
    target: Target,
    settings: Options,
    base: AttributeIndex | None,
    known: Sequence[str],
) -> TrainingData:
    if isinstance(target, str):
        raise OptionError("attribute lists have no columns: give the labels of each sentence")
    if base is not None and not isinstance(base, LiteralIndex):
        raise OptionError("start reads columns, the data has attribute lists")
    target = string_lists(target, "label", error=DataError)
    if len(target) != len(data):
        raise DataError(f"labels of {len(target)} sentences for {len(data)}")
    for i, (labels, sentence) in enumerate(zip(target, data, strict=True)):
        if len(labels) != len(sentence):
            raise DataError(f"{len(labels)} labels for {len(sentence)} tokens", sentence=i)
    labelled = Corpus.from_sentences([{TARGET: labels} for labels in target])
    labelled, full, note = _legal(labelled, settings, known)
    index, design = LiteralIndex.build(
        [data[i] for i in np.flatnonzero(full).tolist()],
        min_count=settings.min_count,
        hash_bits=settings.hash_bits,
        base=base,
    )
    return TrainingData(index, design, labelled, columns=(), transitions=True, full=full, note=note)


def check_template(templates: TemplateSet, target: Target) -> None:
    """Raise TemplateError if templates read the gold labels."""
    if isinstance(target, str) and target in templates.columns:
        raise TemplateError(f"a template reads the target column {target!r} itself")


# --- Weights of sentences -------------------------------------------------------------------------


def sentence_weights(
    data: TrainingData,
    allowed: Bools,
    labels: Sequence[str],
    weights: Sequence[float] | Floats | None,
    class_weights: Mapping[str, float] | None,
) -> Floats:
    """Return the weight of each sentence of the design, float64 [B].

    `allowed`, bool [N, L], are the labels that each token may have; `weights`, [S], are the weights
    of the sentences of the caller. For `class_weights` see `class_weighted`.
    """
    total = given_weights(weights, len(data.full))[data.full][data.origin] * data.share
    return class_weighted(total, allowed, labels, class_weights, data.offsets)


def given_weights(weights: Sequence[float] | Floats | None, n: int) -> Floats:
    """Return the weights of n sentences, checked; all are 1 if absent."""
    if weights is None:
        return np.ones(n)
    total = real_array(weights, "weights of sentences", error=DataError)
    if total.shape != (n,):
        raise DataError(f"weights are {list(total.shape)}, expected {[n]}: one for each sentence")
    return total


def class_weighted(
    total: Floats,
    allowed: Bools,
    labels: Sequence[str],
    class_weights: Mapping[str, float] | None,
    offsets: Longs,
) -> Floats:
    """Return weights of sentences, float64 [B], times the mean class weight of their labels.

    Labels without a class weight have weight 1.
    """
    if class_weights is not None:
        if not isinstance(class_weights, Mapping):
            raise OptionError(f"class_weights is {class_weights!r}, expected a mapping of labels")
        unknown = set(class_weights) - set(labels)
        if unknown:
            raise DataError(f"class weights of labels that do not occur: {sorted(unknown)}")
        values = [class_weights.get(label, 1.0) for label in labels]
        value = real_array(values, "class weights", error=DataError)
        if wrong := [k for k, weight in enumerate(value.tolist()) if not 0.0 <= weight < np.inf]:
            label = labels[wrong[0]]
            raise DataError(
                f"the class weight of {label!r} is {values[wrong[0]]}, expected a finite number of "
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
    """Return the gold labels of held-out sentences in the scheme of the model.

    Illegal labels are read as conlleval reads them, since conlleval's rules also score them.
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


def check_held_out(gold: list[list[str]] | None, labels: Sequence[str], settings: Options) -> None:
    """Check gold labels of held-out sentences, and warn of labels that the model lacks.

    DataError: all models would have the same score, since there is no span or no known label.
    """
    used = {label for sentence in gold or [] for label in sentence}
    if used and has_spans(labels) and not has_spans(used):
        raise DataError(
            "the held-out data has no gold segment, so F cannot be computed on it to "
            "choose an iteration"
        )
    names = set(labels)
    if settings.reads_sets:
        names |= {UNKNOWN, *(label for label in used if alternatives(label, labels))}
    if used and not used - {UNKNOWN} and UNKNOWN in names.difference(labels):
        raise DataError("the held-out data holds no label: each of its tokens has '_'")
    warn_of_unseen(gold or [], names, "labels of the held-out data")


def held_out_score(
    model: Callable[[Floats], TrainedTagger],
    dev: Data,
    gold: list[list[str]],
    threads: int,
    *,
    partial: bool,
) -> Callable[[Floats], float]:
    """Return a function from weights to their score on held-out sentences.

    The score is F of spans if the gold labels encode spans, else the accuracy. `model` returns the
    tagger with these weights. With `partial`, tokens with unknown gold labels are left out.
    """
    spans = has_spans(label for labels in gold for label in labels)

    def score(theta: Floats) -> float:
        tagger = model(theta)
        predicted: Sequence[Sequence[str]] = tagger.tag_all(dev, threads=threads)
        correct: Sequence[Sequence[str]] = gold
        if partial:
            correct, predicted = comparable(gold, predicted, tagger.labels)
        if spans:
            return evaluate_spans(correct, predicted).f
        return evaluate_tokens(correct, predicted).accuracy

    return score
