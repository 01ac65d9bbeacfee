"""US addresses to labels: the model inside usaddress, with a grammar if there is one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Longs, Ragged
from fstcrf.errors import DataError, NoPathError, OptionError
from fstcrf.ext.foreign import load_crfsuite
from fstcrf.ext.tokenwise import TokenPotentials
from fstcrf.kernel import Budget
from fstcrf.lattices import ChainRow, Lattice
from fstcrf.lattices.batching import Paths, path_batches
from fstcrf.lazy import made_once, optional
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import no_path_error, one_warning, warn_unproven
from fstcrf.taggers import CRF

__all__ = [
    "AddressParser",
    "Parses",
    "TokenAttributes",
    "components_of",
    "installed",
    "tokens_of",
    "type_of",
]

_RUN = 2_000  # addresses that are answered at once: their potentials stay in the cache
# for a single address; beyond it, the address is searched as in a batch
_SOON = Budget(states=2_048)


class AddressParser:
    """Parses addresses as usaddress does, under a grammar.

    Parameters
    ----------
    tagger : CRF
        A model of usaddress.
    attributes : TokenAttributes
    grammar : Grammar or str, optional
        Constraints on labels; a grammar of fstcrf by its name, ``"us_address"``.

    Raises
    ------
    GrammarError
        No grammar of fstcrf has that name, or it does not fit the labels.

    Examples
    --------
    >>> parser = AddressParser.installed("usaddress")  # doctest: +SKIP
    >>> parser.tag("123 Main St, Chicago")  # doctest: +SKIP
    """

    def __init__(
        self, tagger: CRF, attributes: TokenAttributes, grammar: Grammar | str | None = None
    ) -> None:
        if isinstance(grammar, str):
            grammar = Grammar.shipped(grammar)
        self.tagger, self.attributes = tagger, attributes
        self.model = tagger if grammar is None else tagger & grammar
        self.potentials = TokenPotentials(tagger, attributes, first=_FIRST, last=_LAST)

    @classmethod
    def installed(cls, grammar: Grammar | str | None = None) -> Self:
        """Return a parser with the model inside the installed package usaddress.

        Raises
        ------
        MissingDependencyError
            usaddress is not installed.
        """
        usaddress = installed()
        attributes = TokenAttributes(usaddress.DIRECTIONS, usaddress.STREET_NAMES)
        return cls(load_crfsuite(usaddress.MODEL_PATH), attributes, grammar)

    def under(self, grammar: Grammar | str) -> Self:
        """Return a parser with the same model under a grammar."""
        return type(self)(self.tagger, self.attributes, grammar)

    # --- Many ---------------------------------------------------------------------------------

    def parse_all(
        self, addresses: Iterable[str], *, budget: Budget | None = None
    ) -> list[list[tuple[str, str]] | None]:
        """Return tokens and labels of each address; parameters as for `search`.

        `None` for an address without legal labels, or if the search exceeded its budget.

        Raises
        ------
        OptionError
            One string: an address is for `parse`.
        """
        _check_several(addresses)
        rest = iter(addresses)
        found: list[list[tuple[str, str]] | None] = []
        with one_warning():
            while some := list(itertools.islice(rest, _RUN)):
                parses, without = self._searched(_tokens(some, len(found)), budget)
                found += map(list, map(zip, parses.tokens, parses.labels))
                for number in without:
                    found[number - len(some)] = None
        return found

    def tag_all(
        self, addresses: Iterable[str], tag_mapping: Mapping[str, str] | None = None
    ) -> list[tuple[dict[str, str], str] | None]:
        """Return components and type of each address; see `tag`, and `parse_all` for `None`."""
        return [
            None if labelled is None else _tagged(labelled, tag_mapping)
            for labelled in self.parse_all(addresses)
        ]

    def search(self, addresses: Sequence[str], *, budget: Budget | None = None) -> Parses:
        """Return the best labels of each address, with the results of the search.

        Parameters
        ----------
        addresses : sequence of str
        budget : Budget, optional
            When to give up on an address; its labels are not ``exact`` then.

        Raises
        ------
        NoPathError
            No labels of an address obey the grammar, or the search exceeded its budget; the message
            names the contradictory constraints.
        """
        _check_several(addresses)
        tokens = _tokens(addresses, 0)
        return self.search_tokens(tokens, budget=budget)

    def search_tokens(self, tokens: list[list[str]], *, budget: Budget | None = None) -> Parses:
        """Return the result of `search` for addresses that are split into tokens."""
        parses, without = self._searched(tokens, budget)
        if without:
            number = without[0]
            raise self._no_labels(tokens[number], number, budget)
        return parses

    def _searched(self, tokens: list[list[str]], budget: Budget | None) -> tuple[Parses, list[int]]:
        """Return the results, and the numbers of the addresses without labels."""
        program, decoder = self.model._program, self.model._program.decoder
        offsets, node = self.potentials.node(tokens)
        bound = kernel.Bound(decoder.machine, offsets, program.per_token((node,)))
        best = decoder.paths(bound, 1, budget)
        states = decoder.machine.axis_states(np.maximum(best.path[0], 0))[0]
        legal = best.n_paths > 0
        labels = [
            names.tolist() if any_path else []
            for names, any_path in zip(
                Ragged(offsets).split(self._state_names[states]), legal.tolist(), strict=True
            )
        ]
        exact = best.proven > 0
        warn_unproven(int((~exact & legal).sum()), len(tokens))
        parses = Parses(tokens, labels, best.score[:, 0], exact, best.states_expanded)
        return parses, np.flatnonzero(~legal).tolist()

    def _no_labels(
        self, tokens: list[str], number: int | None = None, budget: Budget | None = None
    ) -> NoPathError:
        """Return the error that explains why an address has no legal labels."""
        lattice = self.lattices([tokens])[0]
        found: Paths = Paths([lattice], 1, path_batches([lattice], 1, 1, None, budget))
        given_up = None if found.exact[0] else int(found.states_expanded[0])
        return no_path_error(
            lattice.dense.program, lattice.dense.values, sentence=number, given_up=given_up
        )

    def lattices(self, tokens: Sequence[Sequence[str]]) -> list[Lattice]:
        """Return the weighted transducer of each address, given its tokens."""
        program = self.model._program
        offsets, node = self.potentials.node(tokens)
        pairs = itertools.pairwise(offsets.tolist())
        return [Lattice(ChainRow(program, (node[a:b],))) for a, b in pairs]

    @made_once
    def _names(self) -> list[str]:
        return list(map(str, self._state_names))

    @made_once
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
            No labels obey the grammar, or the search exceeded the usual budget; the message names
            the contradictory constraints.
        """
        (tokens,) = _tokens([address], 0)
        _, node = self.potentials.node([tokens])
        best = self.model._program.decoder.sentence_machine().best(node[:, None], _SOON)
        if not best.proven:
            parses, without = self._searched([tokens], None)
            if without:
                raise self._no_labels(tokens)
            return list(zip(tokens, parses.labels[0], strict=True))
        if best.score == -np.inf:
            raise self._no_labels(tokens)
        names = self._names
        return list(zip(tokens, [names[state] for state in best.path], strict=True))

    def tag(
        self, address: str, tag_mapping: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], str]:
        """Return the components of an address by label, and its type, as ``usaddress.tag`` does.

        Parameters
        ----------
        address : str
        tag_mapping : mapping of str to str, optional
            Other names for labels; several may have the same, and go together then.

        Raises
        ------
        ValueError
            A name is repeated after another one; this never happens under the grammars
            ``usaddress`` and ``us_address``, unless `tag_mapping` gives one name to separate
            labels.
        """
        return _tagged(self.parse(address), tag_mapping)


class Parses(NamedTuple):
    """Addresses with their best labels."""

    tokens: list[list[str]]
    labels: list[list[str]]
    score: Floats  # [B] natural log, not normalised
    exact: Bools  # [B] the labels are proven to be the best
    # [B] states that a lazy search expanded; 0 if the grammar was expanded completely
    states_expanded: Longs


def _check_several(addresses: object) -> None:
    """Check that addresses are not one string, whose characters they would be."""
    if isinstance(addresses, str):
        raise OptionError(f"the addresses are {addresses!r}, expected a list; or call parse or tag")


def _tokens(addresses: Iterable[Any], first: int) -> list[list[str]]:
    """Return the tokens of addresses, of which the first has this number."""
    found = []
    for number, address in enumerate(addresses, first):
        if not isinstance(address, str):
            raise DataError(f"address {number} is {address!r}, expected a string")
        found.append(tokens_of(address))
    return found


# --- Tokens and their attributes ------------------------------------------------------------------
#
# The model was trained on these tokens and attributes, so they must be the same to the letter. This
# module makes each in one pass over a token, without the false ones, which have no weight.

_FIRST, _LAST = ("address.start",), ("address.end",)

# Brackets before a word, its characters, punctuation after it; # and & are separate tokens.
_TOKEN = re.compile(r"\(*\b[^\s,;#&()]+[.,;)\n]*|[#&]")
_AMPERSAND = re.compile("&#38;|&amp;")
_INSIDE = re.compile(r".[^\n]*?[^.\w]")  # something after the first character that is punctuation
_WHOLE = frozenset("&#½")
_ASCII_DIGITS = frozenset("0123456789")
_VOWELS = frozenset("aeiou")


def tokens_of(address: str) -> list[str]:
    """Return the tokens of an address, as ``usaddress.tokenize`` does.

    Examples
    --------
    >>> tokens_of("(Apt #5), 12 Elm St. &amp; Oak")
    ['(Apt', '#', '5),', '12', 'Elm', 'St.', '&', 'Oak']
    """
    return _TOKEN.findall(_AMPERSAND.sub("&", address) if "&" in address else address)


class TokenAttributes:
    """The attributes of a token, as python-crfsuite makes them from ``usaddress.tokenFeatures``.

    Parameters
    ----------
    directions, street_types : container of str
        ``usaddress.DIRECTIONS`` and ``usaddress.STREET_NAMES``.

    Examples
    --------
    >>> TokenAttributes({"n"}, {"st"})("St.,")
    ['abbrev', 'digits:no_digits', 'word:st', 'length:w:2', 'endsinpunc:,', 'street_name']
    """

    def __init__(self, directions: Container[str], street_types: Container[str]) -> None:
        self.directions, self.street_types = directions, street_types

    def __call__(self, token: str) -> list[str]:
        """Return the attributes of a token; each has the value 1."""
        bare = token if token in _WHOLE else _bare(token)
        word = bare.lower().replace(".", "")
        found = ["abbrev"] if bare.endswith(".") else []
        found.append(_digits(bare))
        if word.isdigit():
            zeros = word[len(word.rstrip("0")) :]
            found += [f"trailing.zeros:{zeros}", f"length:d:{len(word)}"]
        else:
            found += [f"word:{word}", f"length:w:{len(word)}"]
        if not token.isalnum() and _INSIDE.match(token):
            found.append(f"endsinpunc:{token[-1]}")
        if word in self.directions:
            found.append("directional")
        if word in self.street_types:
            found.append("street_name")
        if not _VOWELS.isdisjoint(word[1:]):
            found.append("has.vowels")
        return found


def _bare(token: str) -> str:
    """Remove non-word characters before a token, and after it except full stops."""
    if token.isalnum():
        return token
    start, end = 0, len(token)
    while start < end and not _is_word(token[start]):
        start += 1
    while end > start and not (token[end - 1] == "." or _is_word(token[end - 1])):
        end -= 1
    return token[start:end]


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _digits(bare: str) -> str:
    if bare.isdigit():
        return "digits:all_digits"
    return "digits:no_digits" if _ASCII_DIGITS.isdisjoint(bare) else "digits:some_digits"


def installed() -> ModuleType:
    """Return the package usaddress."""
    return optional("usaddress", "usaddress is not installed: pip install 'fstcrf[usaddress]'")


# --- Components -----------------------------------------------------------------------------------

_CROSSING = "IntersectionSeparator"


def components_of(
    labelled: Sequence[tuple[str, str]], tag_mapping: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Join tokens with the same label; street names after a crossing are second ones.

    `tag_mapping` has other names for labels, including second street names. ValueError if a label
    is repeated after another one: usaddress's RepeatedLabelError.
    """
    found: dict[str, list[str]] = {}
    crossed, last = False, None
    for token, label in labelled:
        crossed = crossed or label == _CROSSING
        name = f"Second{label}" if crossed and "StreetName" in label else label
        name = (tag_mapping.get(name) or name) if tag_mapping else name
        if name != last and name in found:
            raise ValueError(f"the label {name} is repeated after {last}")
        found.setdefault(name, []).append(token)
        last = name
    return {name: " ".join(tokens).strip(" ,;") for name, tokens in found.items()}


def type_of(labels: Sequence[str]) -> str:
    """Return usaddress's name for the type of address."""
    crossing, number = _CROSSING in labels, "AddressNumber" in labels
    if crossing != number:
        return "Intersection" if crossing else "Street Address"
    return "PO Box" if "USPSBoxID" in labels else "Ambiguous"


def _tagged(
    labelled: Sequence[tuple[str, str]], tag_mapping: Mapping[str, str] | None
) -> tuple[dict[str, str], str]:
    """Return the components of an address, as `components_of` does, and its type."""
    return components_of(labelled, tag_mapping), type_of([label for _, label in labelled])
