"""Addresses to labels: the model inside usaddress, with a grammar if there is one.

=============  ===================================================
AddressParser  parses addresses, many at once or one
Parses         addresses with their best labels
components_of  labelled tokens put together, as usaddress does
type_of        what kind of address the labels describe
=============  ===================================================
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import NoPathError
from fstcrf.kernel import Budget
from fstcrf.lattice import Lattice
from fstcrf.model.tokenwise import TokenPotentials
from fstcrf.recipes.addresses.peer import installed
from fstcrf.recipes.addresses.tokens import FIRST, LAST, TokenAttributes, tokens_of

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar
    from fstcrf.model import CRF

__all__ = ["AddressParser", "Parses", "components_of", "type_of"]

CROSSING = "IntersectionSeparator"
_RUN = 2_000  # addresses that are answered at once: their potentials stay in the cache


class AddressParser:
    """Parses addresses as usaddress does, under a grammar.

    Parameters
    ----------
    tagger : CRF
        A model of usaddress.
    attributes : TokenAttributes
    grammar : Grammar, optional
        What labels must obey.

    Examples
    --------
    >>> from fstcrf import Grammar
    >>> parser = AddressParser.installed(Grammar.shipped("usaddress"))  # doctest: +SKIP
    >>> parser.tag("123 Main St, Chicago")  # doctest: +SKIP
    """

    def __init__(
        self, tagger: CRF, attributes: TokenAttributes, grammar: Grammar | None = None
    ) -> None:
        self.tagger, self.attributes = tagger, attributes
        self.model = tagger if grammar is None else tagger & grammar
        self.potentials = TokenPotentials(tagger, attributes, first=FIRST, last=LAST)

    @classmethod
    def installed(cls, grammar: Grammar | None = None) -> Self:
        """Return a parser with the model inside the installed package usaddress.

        Raises
        ------
        MissingDependencyError
            usaddress is not installed.
        """
        from fstcrf.interop import load_crfsuite  # noqa: PLC0415 (a parser may have another model)

        usaddress = installed()
        attributes = TokenAttributes(usaddress.DIRECTIONS, usaddress.STREET_NAMES)
        return cls(load_crfsuite(usaddress.MODEL_PATH), attributes, grammar)

    def under(self, grammar: Grammar) -> Self:
        """Return a parser with the same model under a grammar."""
        return type(self)(self.tagger, self.attributes, grammar)

    # --- Many ---------------------------------------------------------------------------------

    def parse_all(
        self, addresses: Iterable[str], *, budget: Budget | None = None
    ) -> list[list[tuple[str, str]]]:
        """Return tokens and labels of each address; parameters as for `search`."""
        rest = iter(addresses)
        found: list[list[tuple[str, str]]] = []
        while some := list(itertools.islice(rest, _RUN)):
            parses = self.search(some, budget=budget)
            found += map(list, map(zip, parses.tokens, parses.labels))
        return found

    def tag_all(self, addresses: Iterable[str]) -> list[tuple[dict[str, str], str]]:
        """Return components and type of each address; as for `tag`."""
        return [
            (components_of(labelled), type_of([label for _, label in labelled]))
            for labelled in self.parse_all(addresses)
        ]

    def search(self, addresses: Sequence[str], *, budget: Budget | None = None) -> Parses:
        """Return the best labels of each address, and what is known about them.

        Parameters
        ----------
        addresses : sequence of str
        budget : Budget, optional
            When to give up on an address; its labels are not ``exact`` then.

        Raises
        ------
        NoPathError
            No labels of an address obey the grammar, or none were found within the budget.
        """
        tokens = list(map(tokens_of, addresses))
        return self.search_tokens(tokens, budget=budget)

    def search_tokens(self, tokens: list[list[str]], *, budget: Budget | None = None) -> Parses:
        """Return what `search` does, for addresses that are split into tokens."""
        full = np.flatnonzero(np.fromiter(map(len, tokens), np.int64, len(tokens)))
        parses = Parses.blank(tokens)
        if not len(full):
            return parses
        program, decoder = self.model.program, self.model.program.decoder
        offsets, node = self.potentials.node([tokens[i] for i in full.tolist()])
        bound = kernel.Bound(decoder.machine, offsets, program.moving((node,)))
        found = decoder.paths(bound, 1, budget)
        without = np.flatnonzero(found.found == 0)
        if len(without):
            raise NoPathError("no legal labels were found", sentence=int(full[without[0]]))
        states = decoder.machine.axis_states(found.path[0])[0]
        names = self._state_names[states].tolist()
        bounds = offsets.tolist()
        for number, a, b in zip(full.tolist(), bounds, bounds[1:], strict=False):
            parses.labels[number] = names[a:b]
        parses.score[full] = found.score[:, 0]
        parses.exact[full] = found.proven > 0
        parses.popped[full] = found.popped
        return parses

    def lattices(self, tokens: Sequence[Sequence[str]]) -> list[Lattice]:
        """Return the weighted transducer of each address, given its tokens."""
        program = self.model.program
        offsets, node = self.potentials.node(tokens)
        pairs = itertools.pairwise(offsets.tolist())
        return [Lattice(program, (node[a:b],)) for a, b in pairs]

    @cached_property
    def _names(self) -> list[str]:
        return list(map(str, self._state_names))

    @cached_property
    def _state_names(self) -> NDArray[np.object_]:
        """The label of each state of the tagger."""
        topology = self.tagger.topology
        return np.asarray(topology.labels, dtype=object)[topology.state_label]

    # --- One ----------------------------------------------------------------------------------

    def parse(self, address: str) -> list[tuple[str, str]]:
        """Return the tokens of an address and their labels, as ``usaddress.parse`` does.

        Raises
        ------
        NoPathError
            No labels obey the grammar, or none were found within the usual budget.
        """
        tokens = tokens_of(address)
        if not tokens:
            return []
        _, node = self.potentials.node([tokens])
        found = self.model.program.decoder.alone().best(node[:, None])
        if not found.path:
            raise NoPathError("no legal labels were found")
        names = self._names
        return list(zip(tokens, [names[state] for state in found.path], strict=True))

    def tag(self, address: str) -> tuple[dict[str, str], str]:
        """Return the components of an address by label, and its type, as ``usaddress.tag`` does.

        Raises
        ------
        ValueError
            A label comes back after another one; never under the grammars ``usaddress`` and
            ``us_address``.
        """
        labelled = self.parse(address)
        return components_of(labelled), type_of([label for _, label in labelled])


class Parses(NamedTuple):
    """Addresses with their best labels.

    Parameters
    ----------
    tokens, labels : list of list of str
    score : float64 [B]
        Natural log, not normalised.
    exact : bool [B]
        The labels are proven to be the best.
    popped : int64 [B]
        States that a lazy search took from its queue; 0 where the grammar was expanded.
    """

    tokens: list[list[str]]
    labels: list[list[str]]
    score: NDArray[np.float64]
    exact: NDArray[np.bool_]
    popped: NDArray[np.int64]

    @classmethod
    def blank(cls, tokens: list[list[str]]) -> Self:
        """Return what is known before a search: addresses without tokens have no labels."""
        size = len(tokens)
        return cls(
            tokens,
            [[] for _ in tokens],
            np.zeros(size),
            np.ones(size, dtype=np.bool),
            np.zeros(size, dtype=np.int64),
        )


def components_of(labelled: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Put tokens with the same label together; street names behind a crossing are second ones.

    Raises
    ------
    ValueError
        A label comes back after another one: usaddress's RepeatedLabelError.
    """
    found: dict[str, list[str]] = {}
    crossed, last = False, None
    for token, label in labelled:
        crossed = crossed or label == CROSSING
        name = f"Second{label}" if crossed and "StreetName" in label else label
        if name != last and name in found:
            raise ValueError(f"{name} comes back after {last}")
        found.setdefault(name, []).append(token)
        last = name
    return {name: " ".join(tokens).strip(" ,;") for name, tokens in found.items()}


def type_of(labels: Sequence[str]) -> str:
    """Return usaddress's name for what labels describe."""
    crossing, number = CROSSING in labels, "AddressNumber" in labels
    if crossing != number:
        return "Intersection" if crossing else "Street Address"
    return "PO Box" if "USPSBoxID" in labels else "Ambiguous"
