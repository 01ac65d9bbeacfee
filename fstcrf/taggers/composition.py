"""`compose`: taggers that were trained separately, or lattices of one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import ArrayLike

from fstcrf.arguments import is_fst
from fstcrf.errors import OptionError
from fstcrf.lazy import LazyModule
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.joint import JointCRF
from fstcrf.taggers.tagger import Composable, Composition, LabelsT, Normalize, Tagger

if TYPE_CHECKING:
    import pynini

    from fstcrf import lattices
    from fstcrf.lattices import JointLattice, Lattice
    from fstcrf.machines import grammar as grammars
    from fstcrf.machines import transducer as transducers
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Search
    from fstcrf.machines.transducer import Transducer
    from fstcrf.taggers import product as products
    from fstcrf.taggers import tagmaps
    from fstcrf.taggers.product import Product
else:  # loading a tagger does not import modules that few calls need
    tagmaps = LazyModule("fstcrf.taggers.tagmaps")
    products = LazyModule("fstcrf.taggers.product")
    grammars = LazyModule("fstcrf.machines.grammar")
    transducers = LazyModule("fstcrf.machines.transducer")
    lattices = LazyModule("fstcrf.lattices")


@overload
def compose(
    first: Lattice,
    second: Lattice | Transducer,
    /,
    *more: Lattice | Transducer,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> JointLattice: ...
@overload
def compose(
    only: CRF | JointCRF,
    /,
    *,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
) -> JointCRF: ...
@overload
def compose(
    only: Tagger[LabelsT],
    /,
    *,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
) -> Composition[LabelsT]: ...
@overload
def compose(
    first: CRF | JointCRF,
    second: CRF | JointCRF,
    /,
    *more: CRF | JointCRF,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
) -> JointCRF[tuple[list[str], ...]]: ...
@overload
def compose(
    first: Tagger,
    second: Tagger | Transducer | pynini.Fst,
    /,
    *more: Tagger | Transducer | pynini.Fst,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
) -> Composition[tuple[list[str], ...]]: ...
def compose(
    *parts: Lattice | Tagger | Transducer | pynini.Fst,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> Lattice | Composition:
    """Compose taggers that were trained separately, or lattices of one sentence.

    Parameters
    ----------
    *parts : CRF, Composition or SegmentCRF, or Lattice, or Transducer
        Taggers, in any order; a pynini transducer between two of them maps the labels of the first
        one to labels for the second (see `fstcrf.taggers.tagmaps`). Or lattices of equal length. A
        `Transducer`, or a pynini one at the end, is composed with all earlier parts:
        ``compose(a, t, b)`` is ``a @ t @ b``.
    grammar : Grammar, optional
        The rules that the labels obey.
    weights : sequence of float, optional
        Factor of the potentials of each part (maps have none), at least 0; never of the grammar's
        or a map's. Ones when absent.
    normalize : {"product", "chain"}, optional
        Taggers only. product: potentials are added, one normaliser over all tapes. chain: the
        product of conditional probabilities; see the guide to cascades. When absent: the value of
        a composition among the parts; else chain, if a tagger reads another, no weights are given
        and no map is ambiguous; else product.
    coupling : mapping of (int, int) to [L1, L2] or [T, L1, L2], optional
        Lattices only. Potentials of the labels that two of them give one token.
    search : {"auto", "lazy", "expanded"}, optional
        The search for the best path under a grammar: over the product, or lazily, with states that
        are created when they are reached. Both are exact. auto, the default: by the product's size.

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
        A map that is not length-preserving, or has other labels.
    """
    if not parts:
        raise OptionError("compose() needs at least one tagger or lattice")
    cut = _first_transducer(parts)
    if cut < len(parts):
        named = {"weights": weights, "normalize": normalize, "coupling": coupling, "search": search}
        options = {name: value for name, value in named.items() if value is not None}
        return _followed(parts, cut, options, grammar)
    lattice_parts = [part for part in parts if isinstance(part, lattices.Lattice)]
    if len(lattice_parts) == len(parts):
        if normalize is not None:
            raise OptionError("normalize= is for taggers; lattices only have potentials")
        lattice = lattices.product(lattice_parts, coupling=coupling, weights=weights, search=search)
        return lattice if grammar is None else lattice & grammar
    if coupling is not None:
        raise OptionError("coupling= is for lattices; a tagger reads another by reads=")
    if lattice_parts:
        raise OptionError(
            "taggers compose only with taggers, and lattices with lattices: use "
            "lattice(sentence) to get the lattice of a tagger, and grammar= to pass a "
            "grammar"
        )
    if grammar is not None and not isinstance(grammar, grammars.Grammar):
        raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
    first, *others = parts
    if isinstance(first, products.Product) and len(others) == 1 and first._writes(others[0]):
        product = first._then(others[0])
        return product if grammar is None else product & grammar
    if any(isinstance(part, Composable) and not isinstance(part, CRF | JointCRF) for part in parts):
        return _segmental(parts, weights, normalize, search, grammar)
    return joint(parts, weights, normalize, search, grammar)


def _first_transducer(parts: Sequence[object]) -> int:
    """Return the place of the first transducer that is no map between taggers."""
    of_lattices = isinstance(parts[0], lattices.Lattice)
    for k, part in enumerate(parts):
        if isinstance(part, transducers.Transducer):
            return k
        if k and is_fst(part) and (of_lattices or k == len(parts) - 1):
            return k
    return len(parts)


def _followed(
    parts: Sequence[Any], cut: int, options: Mapping[str, Any], grammar: Grammar | None
) -> Lattice | Composition:
    """Return the composition of the parts, where the first transducer has the number `cut`."""
    if not cut:
        raise OptionError(
            "a transducer cannot be the first argument: put the tagger or lattice that "
            "it reads before it, lattice @ transducer"
        )
    left: Any = compose(*parts[:cut], **options) if cut > 1 or options else parts[0]
    for part in parts[cut:]:
        machine = transducers.Transducer.from_fst(part) if is_fst(part) else part
        if isinstance(left, Composable) and isinstance(machine, transducers.Transducer):
            product = left if isinstance(left, products.Product) else products.Product((left,))
            left = product._then(machine)
        elif isinstance(left, Composable | lattices.Lattice):
            left = left @ machine
        else:
            raise OptionError(f"cannot compose {left!r}: expected a tagger or a lattice")
    made: Lattice | Composition = left if grammar is None else left & grammar
    return made


def joint(
    parts: Sequence[object],
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
    grammar: Grammar | None = None,
) -> JointCRF:
    """Return taggers of tokens composed, and maps between them; as for `compose`."""
    composition: JointCRF = tagmaps.joined(parts, weights, normalize)
    composition = composition if search is None else replace(composition, search=search)
    if grammar is not None:
        composition = composition.constrained(grammar)
    if composition.normalize == "product" and not composition._only_cascades:
        _ = composition._program.decoder  # raises an error if the machine is too large
    return composition


def _segmental(
    parts: Sequence[Any],
    weights: Sequence[float] | None,
    normalize: Normalize | None,
    search: Search | None,
    grammar: Grammar | None,
) -> Product:
    """Return the product of taggers of which one is of segments."""
    odd = next((part for part in parts if not isinstance(part, Composable)), None)
    if odd is not None:
        raise OptionError(f"{odd!r} cannot be composed with taggers of segments")
    if normalize == "chain" or search is not None:
        option = "normalize='chain'" if normalize == "chain" else "search="
        raise OptionError(f"{option} is for taggers of tokens, but one of these tags segments")
    is_product = len(parts) == 1 and weights is None and isinstance(parts[0], products.Product)
    tagger: Product = parts[0] if is_product else products.Product(parts, weights)
    return tagger if grammar is None else tagger.constrained(grammar)
