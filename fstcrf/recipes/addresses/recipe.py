"""The recipe ``usaddress``: its own model, under grammars that its output must obey."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.constraints import contiguous
from fstcrf.grammar import Grammar
from fstcrf.recipes.addresses.parser import AddressParser, Parses
from fstcrf.recipes.addresses.peer import Peer
from fstcrf.recipes.addresses.reading import LabelledAddress, read_addresses
from fstcrf.recipes.addresses.scoring import Change, accuracy, changes, raises
from fstcrf.recipes.addresses.sureness import sureness
from fstcrf.recipes.addresses.timing import Timing, timed
from fstcrf.recipes.recipe import Result, Row, Setting
from fstcrf.recipes.report import number, table

__all__ = ["run"]

PLAIN = "no grammar"
RULE, MORE = "usaddress.grm", "us_address.grm"


@dataclass(frozen=True, slots=True)
class System:
    """A parser with its answers.

    Parameters
    ----------
    name : str
    parser : AddressParser
    parses : Parses
    """

    name: str
    parser: AddressParser
    parses: Parses


def run(setting: Setting) -> Result:
    """Tag all labelled addresses plainly and under three grammars, beside usaddress itself.

    Raises
    ------
    MissingDependencyError
        usaddress is not installed.
    DataError
        No labelled addresses.
    """
    gold = read_addresses(setting.files("usaddress/*.xml"))
    texts = [address.text for address in gold]
    plain = AddressParser.installed()
    peer = Peer(texts)
    setting.say(f"usaddress: {len(texts):,} addresses; usaddress.tag raises on {len(peer.raised)}")
    systems = []
    for name, grammar in grammars(plain.tagger.labels).items():
        parser = plain if grammar is None else plain.under(grammar)
        systems.append(System(name, parser, parser.search(texts)))
        setting.say(f"usaddress: {name}: done")
    times = timed(peer, [system.parser for system in systems], texts, 25 if setting.full else 5)
    rows = [
        row for k, s in enumerate(systems) for row in _rows(gold, peer, systems[0], s, times, k)
    ]
    for system in systems[1:] if setting.full else systems[-1:]:
        setting.say(f"usaddress: {system.name}: how sure its answers are")
        rows += _sure_rows(peer, system, setting.seed)
    kinds, examples = (len(texts), len(texts)) if setting.full else (8, 2)
    sections = [_reading(gold, peer, systems)]
    sections += [_changes(systems[0], s, gold, kinds, examples) for s in systems[1:]]
    return Result(rows, sections)


def grammars(labels: Sequence[str]) -> dict[str, Grammar | None]:
    """Return what is compared: nothing, each label in one run, usaddress's rule, and more."""
    return {
        PLAIN: None,
        "contiguous": contiguous(labels),
        RULE: Grammar.shipped("usaddress"),
        MORE: Grammar.shipped("us_address"),
    }


# --- Numbers --------------------------------------------------------------------------------------


def _rows(
    gold: Sequence[LabelledAddress],
    peer: Peer,
    plain: System,
    system: System,
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
        pops = found.popped[lengths > 0] / lengths[lengths > 0]
        for what, share in (("median", 0.5), ("99 %", 0.99), ("most", 1.0)):
            yield Row(name, f"states popped a token, {what}", float(np.quantile(pops, share)))
    for what, seconds in times.of(place).items():
        each = 1e3 / len(gold)
        metric = f"ms an address, string to labels, {what}"
        yield Row(name, metric, each * seconds, each * times.tag, seconds)


def _sure_rows(peer: Peer, system: System, seed: int) -> Iterator[Row]:
    started = time.process_time()
    sure = sureness(system.parser, system.parses.tokens, seed)
    seconds = time.process_time() - started
    others = sorted(set(range(len(peer.labels))) - set(peer.raised))
    for where, numbers in (("where usaddress.tag raises", peer.raised), ("elsewhere", others)):
        for metric, value in sure.summary(where, numbers):
            yield Row(system.name, metric, value, seconds=seconds)


def _obeys(system: System, labels: Sequence[str]) -> bool:
    """Tell whether labels obey the grammar of a system."""
    model = system.parser.model
    acceptors = model.conjuncts if hasattr(model, "conjuncts") else ()
    return all(acceptor.walk(labels) > -np.inf for acceptor in acceptors)


# --- Text -----------------------------------------------------------------------------------------


def _reading(gold: Sequence[LabelledAddress], peer: Peer, systems: Sequence[System]) -> str:
    broken = [i for i in peer.raised if raises(gold[i].labels)]
    everywhere = sum(raises(address.labels) for address in gold)
    everything = [accuracy(gold, system.parses) for system in systems]
    there = {s.name: accuracy(gold, s.parses, peer.raised).of_tokens for s in systems}
    return (
        "## How to read this\n\n"
        f"`usaddress.tag` raises `RepeatedLabelError` on {len(peer.raised)} of {len(gold):,} "
        f"addresses. The labels that people gave break its rule on {len(broken)} of these "
        f"{len(peer.raised)} themselves (and on {everywhere} of all), some of them two addresses "
        "in one. An answer that obeys the rule cannot be right as a whole there, and must differ "
        f"from people where they did not obey it: of the tokens, {there[PLAIN]:.1f} % are right "
        f"without a grammar and {there[RULE]:.1f} % under {RULE}. What the grammar gives is an "
        "answer, and the best one that can be put together, where there was an exception.\n\n"
        "The column usaddress is what usaddress itself reaches, in the same run; its time is that "
        "of `usaddress.tag`, one address after the other. Ours goes from the list of strings to "
        "lists of tokens and labels: for the first time, when no token has been seen before; "
        "again; and again, but one address a call. All of it is time of one processor.\n\n"
        "The share of the model's mass that is legal is the probability, by the model alone, that "
        "labels obey the grammar. Where it is small, model and grammar disagree: such an address "
        "is worth a second look, and the probability of the answer among the legal ones says how "
        "much. Where sums are too large both are bounded, by the best labels that are known or by "
        "labels drawn from the model; ± is half the distance of the bounds.\n\n"
        f"Accuracy is over {everything[0].addresses:,} addresses; people split "
        f"{everything[0].misaligned} into other tokens. The addresses are those of usaddress's "
        "own training data: accuracy says here what a grammar changes, not how well the model "
        "does elsewhere."
    )


def _changes(
    plain: System, system: System, gold: Sequence[LabelledAddress], kinds: int, examples: int
) -> str:
    found = changes(plain.parses, system.parses)
    tokens = sum(map(len, found.values()))
    addresses = {change.address for group in found.values() for change in group}
    head = f"## What {system.name} changes: {tokens} tokens of {len(addresses)} addresses"
    rows = [
        [f"{old} → {new}", number(len(group)), _right(gold, group, new), _shown(system, place)]
        for (old, new), group in found.items()
        for place in group[:1]
    ]
    more = f"{len(rows) - kinds} more kinds: `--full` shows all." if len(rows) > kinds else ""
    shown = table(
        ["label of usaddress → new label", "tokens", "right now", "an example"], rows[:kinds]
    )
    some = [_lines(plain, system, i) for i in sorted(addresses)[:examples]]
    return "\n\n".join(filter(None, [head, shown, more, *some]))


def _right(gold: Sequence[LabelledAddress], group: Sequence[Change], new: str) -> str:
    """Return how many of the changed tokens have the label that people gave."""
    wanted = [gold[place.address].labels for place in group]
    pairs = zip(wanted, group, strict=True)
    return number(sum(labels[p.token : p.token + 1] == (new,) for labels, p in pairs))


def _shown(system: System, place: Change) -> str:
    words = [token.strip() for token in system.parses.tokens[place.address]]
    words[place.token] = f"**{words[place.token]}**"
    return " ".join(words)


def _lines(plain: System, system: System, address: int) -> str:
    """Return an address as a table of tokens with both labels."""
    old, new = plain.parses.labels[address], system.parses.labels[address]
    words = system.parses.tokens[address]
    rows = [
        [word, a, "" if a == b else f"**{b}**"] for word, a, b in zip(words, old, new, strict=True)
    ]
    return table(["token", "usaddress", system.name], rows)
