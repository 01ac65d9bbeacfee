"""The recipe ``usaddress``: its own model, under grammars that its output must obey."""

from __future__ import annotations

import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from fstcrf.constraints import contiguous
from fstcrf.errors import DataError
from fstcrf.ext.addresses import AddressParser, Parses, components_of, installed
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes.experiment import Recipe, Setting
from fstcrf.recipes.report import Result, Row, number, prose

PLAIN = "no grammar"
RULE, MORE = "usaddress.grm", "us_address.grm"


@dataclass(frozen=True, slots=True)
class _System:
    name: str
    parser: AddressParser
    parses: Parses


def run(setting: Setting) -> Result:
    gold = read_addresses(setting.files("usaddress/*.xml"))
    texts = [address.text for address in gold]
    plain = AddressParser.installed()
    peer = Peer(texts)
    setting.say(f"usaddress: {len(texts):,} addresses; usaddress.tag raises on {len(peer.raised)}")
    systems = []
    grammars = {
        PLAIN: None,
        "contiguous": contiguous(plain.tagger.labels),
        RULE: Grammar.shipped("usaddress"),
        MORE: Grammar.shipped("us_address"),
    }
    setting.course.until(0.5)
    for name, grammar in setting.course.each(grammars.items()):
        parser = plain if grammar is None else plain.under(grammar)
        systems.append(_System(name, parser, parser.search(texts)))
        setting.say(f"usaddress: {name}: done")
    setting.course.until(0.7)
    parsers, rounds = [system.parser for system in systems], 25 if setting.full else 5
    times = setting.kept("times", lambda: timed(peer, parsers, texts, rounds), Timing)
    rows = [
        row
        for k, s in enumerate(systems)
        for row in setting.rows(s.name, partial(_rows, gold, peer, systems[0], s, times, k))
    ]
    setting.course.until(1.0)
    for system in setting.course.each(systems[1:] if setting.full else systems[-1:]):
        setting.say(f"usaddress: {system.name}: how sure its answers are")
        sure = partial(_sure_rows, peer, system, setting.seed)
        rows += setting.rows(f"{system.name}, how sure", sure)
    sections = [_reading(gold, peer, systems)]
    sections += [_changes(systems[0].parses, s, gold) for s in systems[1:]]
    return Result(rows, sections)


def _rows(
    gold: Sequence[LabelledAddress],
    peer: Peer,
    plain: _System,
    system: _System,
    times: Timing,
    place: int,
) -> Iterator[Row]:
    name, found = system.name, system.parses
    broken = [i for i, labels in enumerate(found.labels) if raises(labels)]
    yield Row(name, "addresses on which usaddress.tag raises", len(broken), len(peer.raised))
    yield Row(name, "addresses with labels proven to be the best", int(found.exact.sum()))
    differ = [i for i, labels in enumerate(found.labels) if labels != peer.labels[i]]
    yield Row(name, "addresses with other labels than usaddress.parse", len(differ))
    needless = [i for i in differ if _obeys(system, peer.labels[i])]
    yield Row(name, "of these, such whose old labels obeyed the grammar", len(needless))
    for metric, numbers in (
        ("% of tokens right", None),
        (f"% of tokens right, where usaddress.tag raises ({len(peer.raised)})", peer.raised),
    ):
        now, before = accuracy(gold, found, numbers), accuracy(gold, plain.parses, numbers)
        yield Row(name, metric, now.of_tokens, before.of_tokens)
        if numbers is None:
            yield Row(name, "% of addresses all right", now.of_addresses, before.of_addresses)
    if system is not plain:
        lengths = np.fromiter(map(len, found.tokens), np.int64)
        pops = found.states_expanded[lengths > 0] / lengths[lengths > 0]
        for what, share in (("median", 0.5), ("99 %", 0.99), ("most", 1.0)):
            yield Row(name, f"states popped a token, {what}", float(np.quantile(pops, share)))
    for what, seconds in times.of[place].items():
        each = 1e3 / len(gold)
        metric = f"ms an address, string to labels, {what}"
        yield Row(name, metric, each * seconds, each * times.tag, seconds)


def _sure_rows(peer: Peer, system: _System, seed: int) -> Iterator[Row]:
    started = time.process_time()
    found = [
        lattice.confidence(seed=seed) for lattice in system.parser.lattices(system.parses.tokens)
    ]
    seconds = time.process_time() - started
    others = sorted(set(range(len(peer.labels))) - set(peer.raised))
    for where, numbers in (("where usaddress.tag raises", peer.raised), ("elsewhere", others)):
        for name, bounds in (
            ("probability of the answer among legal ones", [found[i].probability for i in numbers]),
            ("share of the model's mass that is legal", [found[i].legal for i in numbers]),
        ):
            if numbers:
                pairs = np.array([(b.low, b.high) for b in bounds])
                half = float(np.diff(pairs).mean() / 2)
                metric = f"{name}, {where}"
                yield Row(system.name, f"{metric}: mean", float(pairs.mean()), seconds=seconds)
                yield Row(system.name, f"{metric}: ± of one, mean", half, seconds=seconds)


def _obeys(system: _System, labels: Sequence[str]) -> bool:
    model = system.parser.model
    acceptors = model.conjuncts if hasattr(model, "conjuncts") else ()
    return all(acceptor.walk(labels) > -np.inf for acceptor in acceptors)


def _reading(gold: Sequence[LabelledAddress], peer: Peer, systems: Sequence[_System]) -> str:
    broken = [i for i in peer.raised if raises(gold[i].labels)]
    everywhere = sum(raises(address.labels) for address in gold)
    plain = accuracy(gold, systems[0].parses)
    there = {s.name: accuracy(gold, s.parses, peer.raised).of_tokens for s in systems}
    return prose(
        "usaddress/reading",
        raised=len(peer.raised),
        gold=len(gold),
        broken=len(broken),
        everywhere=everywhere,
        plain=there[PLAIN],
        rule=there[RULE],
        name=RULE,
        addresses=plain.addresses,
        misaligned=plain.misaligned,
    )


def _changes(plain: Parses, system: _System, gold: Sequence[LabelledAddress]) -> str:
    found = changes(plain, system.parses)
    tokens = sum(map(len, found.values()))
    addresses = {change.address for group in found.values() for change in group}
    rows = [
        [f"{old} → {new}", number(len(group)), _right(gold, group, new), _shown(system, group[0])]
        for (old, new), group in found.items()
    ]
    return prose(
        "usaddress/changes", rows, name=system.name, tokens=tokens, addresses=len(addresses)
    )


def _right(gold: Sequence[LabelledAddress], group: Sequence[Change], new: str) -> str:
    """Return the number of changed tokens with the gold label."""
    wanted = [gold[place.address].labels for place in group]
    pairs = zip(wanted, group, strict=True)
    return number(sum(labels[p.token : p.token + 1] == (new,) for labels, p in pairs))


def _shown(system: _System, place: Change) -> str:
    words = [token.strip() for token in system.parses.tokens[place.address]]
    words[place.token] = f"**{words[place.token]}**"
    return " ".join(words)


# --- Labelled addresses ---------------------------------------------------------------------------
#
# An AddressString holds one element for each token, whose name is the token's label:
#
#     <AddressString><AddressNumber>12</AddressNumber> <StreetName>Elm</StreetName></AddressString>
#
# The parser is the standard library's parser, which expands the entities that a file defines: read
# only files from a trusted source.


@dataclass(frozen=True, slots=True)
class LabelledAddress:
    text: str  # its tokens, a blank between them
    # tokens, labels: tokens without the white space around them
    tokens: tuple[str, ...]
    labels: tuple[str, ...]


def read_addresses(paths: Iterable[Path]) -> list[LabelledAddress]:
    """Return the addresses of files; DataError for one that is no XML or holds no address."""
    found: list[LabelledAddress] = []
    for path in paths:
        some = list(_addresses(path))
        if not some:
            raise DataError("no AddressString in this file", path=str(path))
        found += some
    return found


def _addresses(path: Path) -> Iterator[LabelledAddress]:
    try:
        root = ET.parse(path).getroot()  # noqa: S314 (local files; see above)
    except ET.ParseError as error:
        raise DataError(f"no XML: {error}", path=str(path)) from None
    for element in root.iter("AddressString"):
        parts = [(part.text or "", part.tag) for part in element]
        kept = [(text, label) for text, label in parts if text.strip()]
        yield LabelledAddress(
            " ".join(text for text, _ in kept),
            tuple(text.strip() for text, _ in kept),
            tuple(label for _, label in kept),
        )


class Peer:
    """usaddress's labels of addresses; for addresses in `raised`, its ``tag`` raises."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._package = installed()
        self._error = self._package.RepeatedLabelError
        parse = self._package.parse
        self.labels = [[label for _, label in parse(address)] for address in addresses]
        self.raised = [i for i, address in enumerate(addresses) if not self._tags(address)]

    def tag_all(self, addresses: Sequence[str]) -> None:
        """Run ``usaddress.tag`` on each address, as its users do; errors are caught."""
        for address in addresses:
            self._tags(address)

    def _tags(self, address: str) -> bool:
        try:
            self._package.tag(address)
        except self._error:
            return False
        return True


class Accuracy(NamedTuple):
    tokens: int
    right: int
    addresses: int
    all_right: int
    misaligned: int  # addresses that people split into other tokens; they are not compared

    @property
    def of_tokens(self) -> float:
        return 100 * self.right / max(self.tokens, 1)

    @property
    def of_addresses(self) -> float:
        return 100 * self.all_right / max(self.addresses, 1)


def accuracy(
    gold: Sequence[LabelledAddress], found: Parses, numbers: Iterable[int] | None = None
) -> Accuracy:
    """Compare with labels from people, over all addresses or over some numbers."""
    tokens = right = addresses = all_right = misaligned = 0
    for i in range(len(gold)) if numbers is None else numbers:
        if tuple(token.strip() for token in found.tokens[i]) != gold[i].tokens:
            misaligned += 1
            continue
        same = sum(a == b for a, b in zip(gold[i].labels, found.labels[i], strict=True))
        tokens, right = tokens + len(gold[i].labels), right + same
        addresses, all_right = addresses + 1, all_right + (same == len(gold[i].labels))
    return Accuracy(tokens, right, addresses, all_right, misaligned)


def raises(labels: Sequence[str]) -> bool:
    """Return whether a label is repeated after another one, so that ``usaddress.tag`` raises."""
    try:
        components_of([("", label) for label in labels])
    except ValueError:
        return True
    return False


class Change(NamedTuple):
    address: int
    token: int


def changes(before: Parses, after: Parses) -> dict[tuple[str, str], list[Change]]:
    """Return the tokens whose labels differ, by old and new label; the most frequent kind first."""
    found: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for i, (old, new) in enumerate(zip(before.labels, after.labels, strict=True)):
        for t, kind in enumerate(zip(old, new, strict=True)):
            if kind[0] != kind[1]:
                found[kind].append(Change(i, t))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


# --- Time -----------------------------------------------------------------------------------------
#
# usaddress and parsers in turns, so that noise hits all of them.


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of the processor for all addresses, one thread; medians."""

    tag: float  # ``usaddress.tag``, one address after the other
    # for each parser: the first time, with new tokens; again; again, one after the other
    of: list[dict[str, float]]


def timed(
    peer: Peer, parsers: Sequence[AddressParser], addresses: Sequence[str], rounds: int
) -> Timing:
    tag: list[float] = []
    of: list[defaultdict[str, list[float]]] = [defaultdict(list) for _ in parsers]
    for _ in range(rounds):
        tag.append(seconds_of(lambda: peer.tag_all(addresses)))
        for parser, times in zip(parsers, of, strict=True):
            parser.potentials.forget()
            for way, work in _ways(parser, addresses).items():
                times[way].append(seconds_of(work))
    middle = statistics.median
    return Timing(middle(tag), [{way: middle(found) for way, found in t.items()} for t in of])


def _ways(parser: AddressParser, addresses: Sequence[str]) -> dict[str, Callable[[], object]]:
    whole = partial(parser.parse_all, addresses)
    return {
        "first time": whole,
        "again": whole,
        "one by one": lambda: list(map(parser.parse, addresses)),
    }


def seconds_of(work: Callable[[], object]) -> float:
    """Return the processor seconds of some work, without Python's search for circular garbage."""
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()


RECIPE = Recipe(
    "usaddress",
    "US addresses: the model inside usaddress, under grammars that its output must obey",
    needs=("usaddress/*.xml",),
    paper="usaddress",
    run=run,
    packages=("usaddress", "python-crfsuite"),
)
