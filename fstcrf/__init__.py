r"""fstcrf: sequence taggers as weighted finite-state transducers, composed and decoded exactly.

>>> import fstcrf
>>> data = fstcrf.Corpus.from_sentences([{"word": ["a", "dog"], "tag": ["D", "N"]}])
>>> tagger = fstcrf.CRF.train(data, target="tag", template="U:%x[0,word]\nB")
>>> tagger.tag({"word": ["a", "dog"]})
['D', 'N']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf import constraints
    from fstcrf import demo as demo
    from fstcrf import errors as errors
    from fstcrf import evaluate as evaluate
    from fstcrf import ext as ext
    from fstcrf import kernel as kernel
    from fstcrf import lattices as lattices
    from fstcrf import machines as machines
    from fstcrf import recipes as recipes
    from fstcrf import storage as storage
    from fstcrf import taggers as taggers
    from fstcrf import text as text
    from fstcrf import training as training
    from fstcrf.evaluate import evaluate_spans, evaluate_tokens
    from fstcrf.ext.arrow import tag_batches
    from fstcrf.ext.foreign import load_crfpp, load_crfsuite, load_wapiti
    from fstcrf.ext.lexicon import Lexicon
    from fstcrf.ext.tokens import TokenDecoder
    from fstcrf.ext.words import LatticeCRF
    from fstcrf.kernel import Budget
    from fstcrf.lattices import (
        Lattice,
        Lattices,
        Path,
        best,
        log_partition,
        marginals,
        nbest,
        sample,
    )
    from fstcrf.lattices.emissions import decode
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.transducer import Transducer
    from fstcrf.taggers import CRF, Composition, compose
    from fstcrf.taggers.loading import load
    from fstcrf.taggers.pipelines import Pipeline, Task, load_pipeline, read_pipeline
    from fstcrf.taggers.segmental import SegmentCRF
    from fstcrf.text.corpus import (
        Corpus,
        Sentence,
        read_columns,
        read_conllu,
        stream_columns,
        stream_conllu,
        write_columns,
    )
    from fstcrf.text.features import TemplateSet, parse_template, read_template

_HOME = {
    "Budget": "kernel",
    "CRF": "taggers",
    "Composition": "taggers",
    "Corpus": "text.corpus",
    "Grammar": "machines.grammar",
    "Lattice": "lattices",
    "Lattices": "lattices",
    "LatticeCRF": "ext.words",
    "Lexicon": "ext.lexicon",
    "Path": "lattices",
    "Pipeline": "taggers.pipelines",
    "SegmentCRF": "taggers.segmental",
    "Sentence": "text.corpus",
    "Task": "taggers.pipelines",
    "TemplateSet": "text.features",
    "TokenDecoder": "ext.tokens",
    "Transducer": "machines.transducer",
    "best": "lattices",
    "compose": "taggers",
    "decode": "lattices.emissions",
    "evaluate_spans": "evaluate",
    "evaluate_tokens": "evaluate",
    "load": "taggers.loading",
    "load_crfpp": "ext.foreign.crfpp",
    "load_crfsuite": "ext.foreign.crfsuite",
    "load_wapiti": "ext.foreign.wapiti",
    "load_pipeline": "taggers.pipelines",
    "log_partition": "lattices",
    "marginals": "lattices",
    "nbest": "lattices",
    "parse_template": "text.features",
    "read_columns": "text.corpus",
    "read_conllu": "text.corpus",
    "read_pipeline": "taggers.pipelines",
    "read_template": "text.features",
    "sample": "lattices",
    "stream_columns": "text.corpus",
    "stream_conllu": "text.corpus",
    "tag_batches": "ext.arrow",
    "write_columns": "text.corpus",
}

__all__ = [
    "CRF",
    "Budget",
    "Composition",
    "Corpus",
    "Grammar",
    "Lattice",
    "LatticeCRF",
    "Lattices",
    "Lexicon",
    "Path",
    "Pipeline",
    "SegmentCRF",
    "Sentence",
    "Task",
    "TemplateSet",
    "TokenDecoder",
    "Transducer",
    "best",
    "compose",
    "constraints",
    "decode",
    "evaluate_spans",
    "evaluate_tokens",
    "load",
    "load_crfpp",
    "load_crfsuite",
    "load_pipeline",
    "load_wapiti",
    "log_partition",
    "marginals",
    "nbest",
    "parse_template",
    "read_columns",
    "read_conllu",
    "read_pipeline",
    "read_template",
    "sample",
    "stream_columns",
    "stream_conllu",
    "tag_batches",
    "write_columns",
]

__version__ = "0.1.0"


__getattr__ = importer(__name__, _HOME)


def __dir__() -> list[str]:
    from pkgutil import iter_modules  # noqa: PLC0415 (only who looks needs it)

    packages = {m.name for m in iter_modules(__path__) if not m.name.startswith("_")}
    return sorted({*globals(), *__all__, *packages} - {"jax", "torch"})  # whose packages are extras
