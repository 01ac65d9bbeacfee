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
    from fstcrf import arguments as arguments
    from fstcrf import calibration as calibration
    from fstcrf import compat, constraints
    from fstcrf import corpus as corpus
    from fstcrf import demo as demo
    from fstcrf import documents as documents
    from fstcrf import emissions as emissions
    from fstcrf import errors as errors
    from fstcrf import evaluate as evaluate
    from fstcrf import features as features
    from fstcrf import feedback as feedback
    from fstcrf import grammar as grammar
    from fstcrf import hyperparameters as hyperparameters
    from fstcrf import interop as interop
    from fstcrf import joint as joint
    from fstcrf import kernel as kernel
    from fstcrf import lattice as lattice
    from fstcrf import lexicon as lexicon
    from fstcrf import model as model
    from fstcrf import openfst as openfst
    from fstcrf import pipelines as pipelines
    from fstcrf import plans as plans
    from fstcrf import recipes as recipes
    from fstcrf import rules as rules
    from fstcrf import semimarkov as semimarkov
    from fstcrf import spacy as spacy
    from fstcrf import storage as storage
    from fstcrf import tokens as tokens
    from fstcrf import topology as topology
    from fstcrf import train as train
    from fstcrf.arrow import tag_batches
    from fstcrf.corpus import (
        Corpus,
        Sentence,
        read_columns,
        read_conllu,
        stream_columns,
        stream_conllu,
        write_columns,
    )
    from fstcrf.emissions import Emissions, decode
    from fstcrf.evaluate import evaluate_spans, evaluate_tokens
    from fstcrf.features import TemplateSet, parse_template, read_template
    from fstcrf.grammar import Grammar
    from fstcrf.hyperparameters import tune
    from fstcrf.interop import load_crfpp, load_crfsuite, load_wapiti
    from fstcrf.joint import CRF, Composition, compose
    from fstcrf.kernel import Budget
    from fstcrf.lattice import Lattice, Path, best, log_partition, marginals, nbest, sample
    from fstcrf.lexicon import Lexicon
    from fstcrf.loading import load
    from fstcrf.pipelines import Pipeline, Task, load_pipeline, read_pipeline
    from fstcrf.rules import learn_rules, train_with_rules
    from fstcrf.semimarkov import SegmentCRF
    from fstcrf.tokens import TokenDecoder
    from fstcrf.wordlattice import LatticeCRF

_HOME = {
    "Budget": "kernel",
    "CRF": "joint",
    "Composition": "joint",
    "Corpus": "corpus",
    "Emissions": "emissions",
    "Grammar": "grammar",
    "Lattice": "lattice",
    "LatticeCRF": "wordlattice",
    "Lexicon": "lexicon",
    "Path": "lattice",
    "Pipeline": "pipelines",
    "SegmentCRF": "semimarkov",
    "Sentence": "corpus",
    "Task": "pipelines",
    "TemplateSet": "features",
    "TokenDecoder": "tokens",
    "best": "lattice",
    "compose": "joint",
    "decode": "emissions",
    "evaluate_spans": "evaluate",
    "evaluate_tokens": "evaluate",
    "learn_rules": "rules",
    "load": "loading",
    "load_crfpp": "interop.crfpp",
    "load_crfsuite": "interop.crfsuite",
    "load_wapiti": "interop.wapiti",
    "load_pipeline": "pipelines",
    "log_partition": "lattice",
    "marginals": "lattice",
    "nbest": "lattice",
    "parse_template": "features",
    "read_columns": "corpus",
    "read_conllu": "corpus",
    "read_pipeline": "pipelines",
    "read_template": "features",
    "sample": "lattice",
    "stream_columns": "corpus",
    "stream_conllu": "corpus",
    "tag_batches": "arrow",
    "train_with_rules": "rules",
    "tune": "hyperparameters",
    "write_columns": "corpus",
}

__all__ = [
    "CRF",
    "Budget",
    "Composition",
    "Corpus",
    "Emissions",
    "Grammar",
    "Lattice",
    "LatticeCRF",
    "Lexicon",
    "Path",
    "Pipeline",
    "SegmentCRF",
    "Sentence",
    "Task",
    "TemplateSet",
    "TokenDecoder",
    "best",
    "compat",
    "compose",
    "constraints",
    "decode",
    "evaluate_spans",
    "evaluate_tokens",
    "learn_rules",
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
    "train_with_rules",
    "tune",
    "write_columns",
]

__version__ = "0.1.0"


__getattr__ = importer(__name__, _HOME)


def __dir__() -> list[str]:
    from pkgutil import iter_modules  # noqa: PLC0415 (only who looks needs it)

    packages = {m.name for m in iter_modules(__path__) if not m.name.startswith("_")}
    return sorted({*globals(), *__all__, *packages} - {"jax", "torch"})  # whose packages are extras
