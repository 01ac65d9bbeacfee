"""From tokens to attributes: templates, derived columns, and the index of attributes.

================================ ==================================================
read_template, parse_template    templates from a file, from text (CRF++ syntax)
template_set, at, window, ...    templates as Python objects
TemplateSet, Template            templates as values
FeatureIndex                     attributes of templates ↔ rows; the design of a corpus
LiteralIndex, is_literal         the same for attributes that the caller writes
Design, Rows                     which attributes each token has
AttributeIndex                   what both indexes have in common
================================ ==================================================
"""

from fstcrf.features.derive import Derived, Plain
from fstcrf.features.design import AttributeIndex, Design, Rows
from fstcrf.features.families import Boundary
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
from fstcrf.features.parse import parse_template, read_template
from fstcrf.features.template import Macro, Template, TemplateSet, tape_column

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
    "Rows",
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
