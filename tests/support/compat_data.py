"""Sequences for the drop-in interfaces: what their users have, made up."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["WEATHER", "sequences"]

Items = list[Any]

WEATHER: tuple[Items, list[str]] = (
    [{"walk": 1, "shop": 0.5}, {"walk": True}, ["shop", "clean"], {"clean": {"at": "home"}}, {}],
    ["sunny", "sunny", "rainy", "rainy", "sunny"],
)


def sequences(seed: int, *, n: int = 40) -> tuple[list[Items], list[list[str]]]:
    """Return sequences of nested dicts, lists and values, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    every: list[Items] = []
    target: list[list[str]] = []
    for _ in range(n):
        labels = [("A", "B-é", "_", "x|y")[i] for i in rng.integers(4, size=rng.integers(1, 8))]
        words = [f"{label.lower()}{rng.integers(5)}" for label in labels]
        items: Items = []
        for t, word in enumerate(words):
            own: dict[str, Any] = {
                "word": word,
                "odd": t % 2 == 1,
                "size": float(rng.exponential()),
            }
            if t:
                own["before"] = {"word": words[t - 1], "in": [f"t{t}", "s"]}
            items.append(own if rng.random() < 0.8 else [f"word:{word}", "bias", "bias"])
        every.append(items)
        target.append(labels)
    return every, target
