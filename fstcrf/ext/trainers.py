"""`fstcrf.train`: one call for chains, segments and words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from typing import Any, Literal, TypeAlias

from fstcrf.errors import OptionError
from fstcrf.ext.segments.crf import SegmentCRF
from fstcrf.ext.segments.structure import Segments
from fstcrf.ext.words.crf import LatticeCRF
from fstcrf.ext.words.structure import Words
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF
from fstcrf.taggers.training import MethodName, ObjectiveName
from fstcrf.text.features import FeatureFunction, TemplateSet
from fstcrf.training.arguments import Chain, Features, Gold, Reads, Run
from fstcrf.training.settings import MethodSettings, ObjectiveSettings

__all__: list[str] = []  # `fstcrf.train` is the public name

Structure: TypeAlias = Chain | Segments | Words


def train(
    data: Any,
    target: str | Sequence[Sequence[str]] | Gold | None = None,
    features: TemplateSet | str | os.PathLike[str] | FeatureFunction | Features | None = None,
    *,
    structure: Structure | None = None,
    order: Literal[0, 1, 2] | None = None,
    scheme: str | None = None,
    tape: str | None = None,
    grammar: Grammar | None = None,
    reads: Sequence[CRF] | Reads = (),
    start: CRF | None = None,
    dev: Any = None,
    objective: ObjectiveName | ObjectiveSettings = "likelihood",
    method: MethodName | MethodSettings = "lbfgs",
    l2: float | None = None,
    max_iterations: int | None = None,
    run: Run | None = None,
) -> CRF | SegmentCRF | LatticeCRF:
    """Train a tagger: a chain, segments, or the words of a lexicon.

    Parameters
    ----------
    data : Corpus, CorpusFiles, sequence of sentences, or sequence of Annotation
        Annotated texts for `Words`; sentences for the other structures.
    target, features
        As for `fstcrf.CRF.train`; `Words` has no target.
    structure : Chain, Segments or Words, optional
        What the tagger is: a `CRF`, a `SegmentCRF` or a `LatticeCRF`. By default a chain.
    order, scheme, tape, grammar, reads, start, objective
        Of a chain, as for `fstcrf.CRF.train`.
    dev, method, l2, max_iterations, run
        As for `fstcrf.CRF.train`, `SegmentCRF.train` and `LatticeCRF.train`.

    Returns
    -------
    CRF, SegmentCRF or LatticeCRF

    Raises
    ------
    OptionError
        An argument that the structure does not read; and errors of the three calls.

    Examples
    --------
    >>> data = [{"word": ["the", "old", "oak"], "np": ["B-NP", "I-NP", "I-NP"]}]
    >>> tagger = train(data, "np", "U:%x[0,word]", structure=Segments(strings=["word"]))
    >>> tagger.tag(data[0])
    ['B-NP', 'I-NP', 'I-NP']
    """
    arguments = dict(locals())
    structure = Chain() if structure is None else structure
    trainers: dict[type, Any] = {
        Chain: CRF.train,
        Segments: SegmentCRF.train,
        Words: LatticeCRF.train,
    }
    trainer = trainers.get(type(structure))
    if trainer is None:
        raise OptionError(f"structure is {structure!r}, expected Chain, Segments or Words")
    read = signature(trainer).parameters
    for name, parameter in signature(train).parameters.items():
        if name in read:
            continue
        value = arguments.pop(name)
        if value is not parameter.default:
            raise OptionError(f"{name} is no option of {type(structure).__name__}")
    tagger: CRF | SegmentCRF | LatticeCRF = trainer(**arguments)
    return tagger
