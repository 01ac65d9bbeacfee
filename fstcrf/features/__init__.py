"""From tokens to attributes: templates, derived columns, and the index of attributes."""

from fstcrf.features.derive import Derived, Plain
from fstcrf.features.design import AttributeIndex, Design
from fstcrf.features.hashed import Collisions
from fstcrf.features.index import FeatureIndex
from fstcrf.features.literal import LiteralIndex, LiteralSentence, is_literal
from fstcrf.features.objects import (
    BOS,
    EOS,
    Pattern,
    at,
    bag,
    bias,
    charclass,
    find,
    lower,
    match,
    member,
    ngrams,
    prefix,
    shape,
    short_shape,
    suffix,
    tape,
    template_set,
    transitions,
    value,
    window,
)
from fstcrf.features.reader import Boundary
from fstcrf.features.template import (
    Macro,
    Template,
    TemplateSet,
    parse_template,
    read_template,
    tape_column,
)

__all__ = [
    "BOS",
    "EOS",
    "AttributeIndex",
    "Boundary",
    "Collisions",
    "Derived",
    "Design",
    "FeatureIndex",
    "LiteralIndex",
    "LiteralSentence",
    "Macro",
    "Pattern",
    "Plain",
    "Template",
    "TemplateSet",
    "at",
    "bag",
    "bias",
    "charclass",
    "find",
    "is_literal",
    "lower",
    "match",
    "member",
    "ngrams",
    "parse_template",
    "prefix",
    "read_template",
    "shape",
    "short_shape",
    "suffix",
    "tape",
    "tape_column",
    "template_set",
    "transitions",
    "value",
    "window",
]
