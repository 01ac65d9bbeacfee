"""The structure of a CRF over word lattices: the lexicon, and how annotated words are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from fstcrf.arguments import one_of
from fstcrf.errors import OptionError
from fstcrf.ext.lexicon import Lexicon
from fstcrf.ext.words.candidates import OnMissing
from fstcrf.ext.words.templates import Rewrites
from fstcrf.training.settings import Settings

Costs = Literal["none", "fixed", "scaled"]


@dataclass(frozen=True)
class Words(Settings):
    """The words of a lexicon, as the segments of a text.

    Parameters
    ----------
    lexicon : Lexicon
        The candidate words of texts.
    rewrite : Rewrites, str or path, optional
        A ``rewrite.def``, or its lines.
    label : sequence of int
        Fields of a feature, from 0, that make a word's label: joined by "-", those left out that
        are "*" or empty.
    costs : {"none", "fixed", "scaled"}
        The role of the lexicon's costs: "none" ignores them; "fixed" adds learnt weights to them;
        "scaled" also learns a factor for them. A penalty counts the difference of the factor
        from 1.
    new_words : int
        Words of annotations that lattices lack become entries of the model's lexicon if they occur
        this many times with their label. They receive the contexts and cost of the most frequent
        word with that label. 0 adds no entries.
    on_missing : {"error", "nearest", "skip", "add"}
        Annotations that no path through a lattice contains. "error" counts and names them;
        "nearest" learns the paths with most of their words; "skip" leaves out their texts; "add"
        adds their words to the lattice, as unknown words of the kind with the most similar label.
        The last three report the number of such annotations.
    min_count : int
        Features of fewer words (or pairs of words) on agreeing paths are removed; 0 also keeps
        features that occur only on other paths.

    Raises
    ------
    OptionError
        Options outside their range.
    """

    lexicon: Lexicon
    _: KW_ONLY
    rewrite: Rewrites | str | os.PathLike[str] | None = None
    label: Sequence[int] = (0,)
    costs: Costs = "none"
    new_words: int = 0
    on_missing: OnMissing = "error"
    min_count: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.lexicon, Lexicon):
            raise OptionError(f"lexicon is {self.lexicon!r}, expected a fstcrf.Lexicon")
        one_of("on_missing", self.on_missing, OnMissing)
        one_of("costs", self.costs, Costs)
        if not self.label or min(self.label) < 0:
            raise OptionError(f"label is {list(self.label)}, expected numbers of fields, from 0")
        for name in ("min_count", "new_words"):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} is {getattr(self, name)}, expected 0 or more")
