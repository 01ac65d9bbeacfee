"""Addresses: usaddress's model under grammars, beside usaddress; and the worst that can happen.

``python -m tests.benchmarks.addresses WORK JSON`` does one piece of work in a process of its own
and prints a JSON object.

Lazy search alone starts from potentials and ends with the arrays that `fstcrf.best` gives. Answers
are looked at after the clock has stopped; Python's search for circular garbage rests while it runs.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import fstcrf
from fstcrf.constraints import contiguous
from fstcrf.ext.addresses import AddressParser
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes.usaddress import Peer, raises, read_addresses, seconds_of, timed
from tests.benchmarks.work import answer, peak

ALTERNATING, TOKENS, LABELS = 2, 200, 29


def parsed(folder: str, rounds: int, grammar: str = "us_address") -> dict[str, Any]:
    """Parse labelled addresses under a shipped grammar; seconds of the processor, medians."""
    texts = [a.text for a in read_addresses(sorted(Path(folder).glob("*.xml")))]
    parser = AddressParser.installed(Grammar.shipped(grammar))
    peer = Peer(texts)
    found = parser.search(texts)
    times = timed(peer, [parser], texts, rounds)
    full = [tokens for tokens in found.tokens if tokens]
    lattices = parser.lattices(full)
    searches = [seconds_of(lambda: fstcrf.best(lattices)) for _ in range(rounds)]
    lengths = np.array([len(tokens) for tokens in full])
    pops = fstcrf.best(lattices).states_expanded / lengths
    return {
        "addresses": len(texts),
        "raised_before": len(peer.raised),
        "raised": sum(map(raises, found.labels)),
        "inexact": int((~found.exact).sum()),
        "tag": times.tag,
        **times.of[0],
        "search": float(np.median(searches)),
        "pops": {share: float(np.quantile(pops, float(share))) for share in ("0.5", "0.99", "1")},
    }


def adversarial(states: int) -> dict[str, Any]:
    """Search until the budget ends; what is said then, in how much time and memory."""
    labels = [f"L{k}" for k in range(LABELS)]
    emissions = np.zeros((TOKENS, LABELS))
    emissions[np.arange(TOKENS), np.arange(TOKENS) % ALTERNATING] = 1.0
    lattice = fstcrf.Lattice.from_arrays(labels, emissions) & contiguous(labels)
    lattice.best(budget=fstcrf.Budget(states=1))
    before = peak()
    started = time.perf_counter()
    found = fstcrf.best([lattice], budget=fstcrf.Budget(states=states))
    seconds = time.perf_counter() - started
    path = found[0]
    return {
        "seconds": seconds,
        "megabytes": peak() - before,
        "popped": int(found.states_expanded[0]),
        "exact": bool(found.exact[0]),
        "score": None if path is None else path.score,
        "bound": float(found.bounds[0]),
    }


if __name__ == "__main__":
    answer(globals())
