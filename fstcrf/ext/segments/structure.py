"""The structure of a semi-Markov CRF: which segments a sentence may have, and their features."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from fstcrf.arguments import one_of, whole_number
from fstcrf.errors import OptionError
from fstcrf.ext.segments.gold import OnMissing
from fstcrf.ext.segments.phrases import Lexicon
from fstcrf.text.corpus.schemes import named_scheme
from fstcrf.text.features import TemplateSet
from fstcrf.text.features.template import as_templates
from fstcrf.training.arguments import Features, Gold
from fstcrf.training.settings import Settings


@dataclass(frozen=True)
class Segments(Settings):
    """The segments of a sentence, and their features.

    Parameters
    ----------
    longest : int
        Maximum number of tokens of a segment; the limit of a label is its longest segment in the
        data, at most this number; longer segments have a tail.
    strings : sequence of str
        Columns whose strings over a whole segment are features.
    lexicon : mapping of str to iterable of str, optional
        Names of entries, and their phrases: words with blanks between them. That a segment is a
        phrase is a feature.
    lexicon_column : str, optional
        The column that phrases are of; the first one by default.
    tails : bool
        Longer segments are possible: a weight for being longer and one for each further token,
        without features of the whole segment.
    scheme : str
        How labels are read as spans.
    writes : str
        The scheme of the labels that `tag` returns.
    on_missing : {"error", "nearest", "skip"}
        Gold segments that the lattice lacks because they are too long. "error" counts and names
        them; "nearest" cuts them into pieces; "skip" leaves out their sentences. The last two
        report the number of such segments.

    Raises
    ------
    OptionError
        Options outside their range.
    """

    _: KW_ONLY
    longest: int = 8
    strings: Sequence[str] = ()
    lexicon: Lexicon | None = None
    lexicon_column: str | None = None
    tails: bool = True
    scheme: str = "conlleval"
    writes: str = "iob2"
    on_missing: OnMissing = "error"

    def __post_init__(self) -> None:
        one_of("on_missing", self.on_missing, OnMissing)
        if isinstance(self.strings, str):
            raise OptionError(f"strings is {self.strings!r}, expected a list of columns")
        if not 1 <= whole_number(self.longest, "longest") <= 1000:
            raise OptionError(f"longest is {self.longest}, expected 1 to 1000")
        named_scheme(self.scheme)
        if not named_scheme(self.writes).strict:
            raise OptionError(f"scheme {self.writes!r} only reads labels; name one to write")


def token_features(
    features: TemplateSet | str | os.PathLike[str] | Features,
) -> tuple[TemplateSet, int]:
    """Return the templates of tokens, and how many tokens an attribute must have.

    OptionError: options of `Features` that segments do not read.
    """
    if not isinstance(features, Features):
        features = Features(features)
    odd = sorted(features.fields_set - {"template", "min_count"})
    if odd:
        raise OptionError(f"{odd[0]} is no option of segments: Features has template, min_count")
    template = features.template
    if not isinstance(template, TemplateSet | str | os.PathLike):
        raise OptionError(f"features is {template!r}, expected templates of tokens, or a path")
    return as_templates(template), features.min_count


def target_column(target: str | Gold) -> str:
    """Return the column of gold labels; OptionError: options that segments do not read."""
    if isinstance(target, Gold):
        odd = sorted(target.fields_set - {"labels"})
        if odd:
            raise OptionError(f"{odd[0]} is no option of segments: Gold has labels")
    column = target.labels if isinstance(target, Gold) else target
    if not isinstance(column, str):
        raise OptionError(f"target is {column!r}, expected the name of a column")
    return column
