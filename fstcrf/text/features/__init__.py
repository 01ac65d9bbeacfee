"""From tokens to attributes: templates, derived columns, and the index of attributes."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.text.features.derive import Derived as Derived
    from fstcrf.text.features.derive import Plain as Plain
    from fstcrf.text.features.design import Design as Design
    from fstcrf.text.features.function import AttributeIndex as AttributeIndex
    from fstcrf.text.features.function import FeatureFunction as FeatureFunction
    from fstcrf.text.features.function import FeatureFunctions as FeatureFunctions
    from fstcrf.text.features.function import FunctionIndex as FunctionIndex
    from fstcrf.text.features.hashed import Collisions as Collisions
    from fstcrf.text.features.index import FeatureIndex as FeatureIndex
    from fstcrf.text.features.literal import LiteralIndex as LiteralIndex
    from fstcrf.text.features.literal import LiteralSentence as LiteralSentence
    from fstcrf.text.features.literal import is_literal as is_literal
    from fstcrf.text.features.objects import BOS as BOS
    from fstcrf.text.features.objects import EOS as EOS
    from fstcrf.text.features.objects import Pattern as Pattern
    from fstcrf.text.features.objects import at as at
    from fstcrf.text.features.objects import bag as bag
    from fstcrf.text.features.objects import bias as bias
    from fstcrf.text.features.objects import charclass as charclass
    from fstcrf.text.features.objects import find as find
    from fstcrf.text.features.objects import known_shape as known_shape
    from fstcrf.text.features.objects import lower as lower
    from fstcrf.text.features.objects import match as match
    from fstcrf.text.features.objects import member as member
    from fstcrf.text.features.objects import ngrams as ngrams
    from fstcrf.text.features.objects import prefix as prefix
    from fstcrf.text.features.objects import shape as shape
    from fstcrf.text.features.objects import short_shape as short_shape
    from fstcrf.text.features.objects import suffix as suffix
    from fstcrf.text.features.objects import tape as tape
    from fstcrf.text.features.objects import template_set as template_set
    from fstcrf.text.features.objects import transitions as transitions
    from fstcrf.text.features.objects import value as value
    from fstcrf.text.features.objects import window as window
    from fstcrf.text.features.reader import Boundary as Boundary
    from fstcrf.text.features.template import Macro as Macro
    from fstcrf.text.features.template import Template as Template
    from fstcrf.text.features.template import TemplateSet as TemplateSet
    from fstcrf.text.features.template import parse_template as parse_template
    from fstcrf.text.features.template import read_template as read_template
    from fstcrf.text.features.template import tape_column as tape_column

__all__, __getattr__ = importer(
    __name__,
    {
        "derive": "Derived Plain",
        "design": "Design",
        "function": "AttributeIndex FeatureFunction FeatureFunctions FunctionIndex",
        "hashed": "Collisions",
        "index": "FeatureIndex",
        "literal": "LiteralIndex LiteralSentence is_literal",
        "objects": "BOS EOS Pattern at bag bias charclass find known_shape lower match member "
        "ngrams prefix shape short_shape suffix tape template_set transitions value "
        "window",
        "reader": "Boundary",
        "template": "Macro Template TemplateSet parse_template read_template tape_column",
    },
)
