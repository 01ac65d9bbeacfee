"""``fstcrf.compose``: taggers, or lattices of one sentence, decided together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from numpy.typing import ArrayLike

from fstcrf.arguments import real_number
from fstcrf.errors import OptionError
from fstcrf.grammar import Grammar
from fstcrf.joint.composition import Composition, Normalize
from fstcrf.joint.mapping import mapped, split
from fstcrf.lattice import Lattice, product
from fstcrf.lattice.product import searched
from fstcrf.model import CRF
from fstcrf.plans import Search

__all__ = ["compose"]


@overload
def compose(
    *parts: Lattice,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> Lattice: ...
@overload
def compose(
    *parts: Any,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
) -> Composition: ...
def compose(
    *parts: Any,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> Any:
    """Compose taggers that were trained separately, or lattices of one sentence.

    Parameters
    ----------
    *parts : CRF or Composition, or Lattice
        Taggers, in any order; a pynini transducer between two of them relabels what the first
        writes for the second (see `fstcrf.joint.mapping`). Or lattices of equal length.
    grammar : Grammar, optional
        What the labels must obey.
    weights : sequence of float, optional
        Factor of the potentials of each part (maps have none), at least 0; never of the grammar's
        or a map's. Ones when absent.
    normalize : {"product", "chain"}, optional
        Taggers only. product: potentials are added, one normaliser over all tapes. chain: the
        product of conditional probabilities; see the page on what the joint score means.
    coupling : mapping of (int, int) to [L1, L2] or [T, L1, L2], optional
        Lattices only. Potentials of the labels that two of them give one token.
    search : {"auto", "lazy", "expanded"}, optional
        How best paths under a grammar are found: over the product, or lazily, by states that are
        made as they are met. Both are exact. auto, the default: by the size of the product.

    Returns
    -------
    Composition or Lattice
        A tagger again, or a lattice again.

    Raises
    ------
    OptionError
        Parts that do not go together.
    GrammarError
        A grammar that does not go with the labels.
    DataError, LabelError
        A map that is not length-preserving, or goes between other labels.
    """
    if not parts:
        raise OptionError("nothing to compose: give at least one tagger or lattice")
    if all(isinstance(part, Lattice) for part in parts):
        if normalize is not None:
            raise OptionError("normalize= is for taggers; lattices only have potentials")
        lattice = product(parts, coupling=coupling, weights=weights)
        lattice = lattice if search is None else searched(lattice, search)
        return lattice if grammar is None else lattice & grammar
    if coupling is not None:
        raise OptionError("coupling= is for lattices; a tagger reads another by reads=")
    if any(isinstance(part, Lattice) for part in parts):
        raise OptionError("taggers compose with taggers, lattices with lattices")
    composition = _composed(parts, weights, normalize)
    composition = composition if search is None else replace(composition, search=search)
    return _compiled(composition, grammar)


def _compiled(composition: Composition, grammar: Grammar | None) -> Composition:
    """Return the composition under a grammar; what is too large is said here, not when tagging."""
    if grammar is not None and not isinstance(grammar, Grammar):
        raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
    if grammar is not None:
        composition = composition.constrained(grammar)
    if composition.normalize == "product":
        _ = composition.program.decoder
    return composition


def _composed(
    parts: Sequence[Any], weights: Sequence[float] | None, normalize: Normalize | None
) -> Composition:
    taggers, transducers = split(parts)
    wrong = [part for part in taggers if not isinstance(part, CRF | Composition)]
    if wrong:
        raise OptionError(
            f"cannot compose {wrong[0]!r}: expected taggers (and maps between them), or lattices"
        )
    if weights is not None and len(weights) != len(taggers):
        raise OptionError(f"{len(weights)} weights for {len(taggers)} taggers")
    factors = (
        [1.0] * len(taggers) if weights is None else [real_number(w, "weight") for w in weights]
    )
    wholes = [
        part if isinstance(part, Composition) else Composition((part,), (1.0,)) for part in taggers
    ]
    kinds = {whole.normalize for whole in wholes if len(whole.taggers) > 1}
    if normalize is None and len(kinds) > 1:
        raise OptionError("compositions of both kinds: say normalize='product' or 'chain'")
    between = mapped(wholes, transducers)
    return Composition(
        taggers=tuple(tagger for whole in wholes for tagger in whole.taggers),
        weights=tuple(
            weight * factor
            for whole, factor in zip(wholes, factors, strict=True)
            for weight in whole.weights
        ),
        conjuncts=(*(a for whole in wholes for a in whole.conjuncts), *between.conjuncts),
        maps=(*(m for whole in wholes for m in whole.maps), *between.maps),
        normalize=normalize or (kinds.pop() if kinds else "product"),
        relabellings=(*(r for whole in wholes for r in whole.relabellings), *between.relabellings),
        search=next((whole.search for whole in wholes if whole.search != "auto"), "auto"),
    )
