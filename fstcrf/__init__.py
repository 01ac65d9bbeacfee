r"""fstcrf: sequence taggers as weighted finite-state transducers, composed and decoded exactly.

>>> import fstcrf
>>> data = fstcrf.Corpus.from_sentences([{"word": ["a", "dog"], "tag": ["D", "N"]}])
>>> tagger = fstcrf.CRF.train(data, target="tag", features="U:%x[0,word]\nB")
>>> tagger.tag({"word": ["a", "dog"]})
['D', 'N']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf import constraints as constraints
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
    from fstcrf.evaluate import evaluate_spans as evaluate_spans
    from fstcrf.evaluate import evaluate_tokens as evaluate_tokens
    from fstcrf.ext.arrow import tag_batches as tag_batches
    from fstcrf.ext.foreign import load_crfpp as load_crfpp
    from fstcrf.ext.foreign import load_crfsuite as load_crfsuite
    from fstcrf.ext.foreign import load_wapiti as load_wapiti
    from fstcrf.ext.lexicon import Lexicon as Lexicon
    from fstcrf.ext.tokens import TokenDecoder as TokenDecoder
    from fstcrf.ext.trainers import train as train
    from fstcrf.ext.words import LatticeCRF as LatticeCRF
    from fstcrf.kernel import Budget as Budget
    from fstcrf.lattices import Lattice as Lattice
    from fstcrf.lattices import Lattices as Lattices
    from fstcrf.lattices import Path as Path
    from fstcrf.lattices import best as best
    from fstcrf.lattices import log_partition as log_partition
    from fstcrf.lattices import marginals as marginals
    from fstcrf.lattices import nbest as nbest
    from fstcrf.lattices import sample as sample
    from fstcrf.lattices.emissions import decode as decode
    from fstcrf.machines.grammar import Grammar as Grammar
    from fstcrf.machines.transducer import Transducer as Transducer
    from fstcrf.taggers import CRF as CRF
    from fstcrf.taggers import Composition as Composition
    from fstcrf.taggers import compose as compose
    from fstcrf.taggers.loading import load as load
    from fstcrf.taggers.pipelines import Pipeline as Pipeline
    from fstcrf.taggers.pipelines import Task as Task
    from fstcrf.taggers.pipelines import load_pipeline as load_pipeline
    from fstcrf.taggers.pipelines import read_pipeline as read_pipeline
    from fstcrf.taggers.segmental import SegmentCRF as SegmentCRF
    from fstcrf.text.corpus import Corpus as Corpus
    from fstcrf.text.corpus import Sentence as Sentence
    from fstcrf.text.corpus import read_columns as read_columns
    from fstcrf.text.corpus import read_conllu as read_conllu
    from fstcrf.text.corpus import stream_columns as stream_columns
    from fstcrf.text.corpus import stream_conllu as stream_conllu
    from fstcrf.text.corpus import write_columns as write_columns
    from fstcrf.text.features import TemplateSet as TemplateSet
    from fstcrf.text.features import parse_template as parse_template
    from fstcrf.text.features import read_template as read_template

__all__, __getattr__ = importer(
    __name__,
    {
        "evaluate": "evaluate_spans evaluate_tokens",
        "ext.arrow": "tag_batches",
        "ext.foreign.crfpp": "load_crfpp",
        "ext.foreign.crfsuite": "load_crfsuite",
        "ext.foreign.wapiti": "load_wapiti",
        "ext.lexicon": "Lexicon",
        "ext.tokens": "TokenDecoder",
        "ext.trainers": "train",
        "ext.words": "LatticeCRF",
        "kernel": "Budget",
        "lattices": "Lattice Lattices Path best log_partition marginals nbest sample",
        "lattices.emissions": "decode",
        "machines.grammar": "Grammar",
        "machines.transducer": "Transducer",
        "taggers": "CRF Composition compose",
        "taggers.loading": "load",
        "taggers.pipelines": "Pipeline Task load_pipeline read_pipeline",
        "taggers.segmental": "SegmentCRF",
        "text.corpus": "Corpus Sentence read_columns read_conllu stream_columns stream_conllu "
        "write_columns",
        "text.features": "TemplateSet parse_template read_template",
    },
)
__all__ += ["constraints"]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    packages = ["demo", "errors", "evaluate", "ext", "kernel", "lattices", "machines", "recipes"]
    packages += ["storage", "taggers", "text", "training"]
    return sorted([*__all__, *packages, "__version__", "__doc__", "__file__", "__path__"])
