"""Files of CRF++ and of Wapiti, written out from what is in them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from fstcrf.arrays import Floats

__all__ = ["crfpp_binary", "crfpp_text", "double_array", "repaired_crfpp", "wapiti"]

Weights = Mapping[bytes, Sequence[float]]


def crfpp_text(
    labels: Sequence[bytes],
    templates: Sequence[bytes],
    weights: Weights,
    *,
    columns: int = 2,
    factor: float = 1,
) -> bytes:
    """A text model; each attribute has its weights, one a label or (template B) a label pair."""
    keys = sorted(weights)
    first = np.cumsum([0, *(len(weights[key]) for key in keys)]).tolist()
    header = [
        b"version: 100",
        b"cost-factor: %g" % factor,
        b"maxid: %d" % first[-1],
        b"xsize: %d" % columns,
    ]
    lines = [*header, b"", *labels, b"", *templates, b""]
    lines += [b"%d %s" % pair for pair in zip(first, keys, strict=False)]
    lines += [b"", *(b"%.16f" % weight for key in keys for weight in weights[key]), b""]
    return b"\n".join(lines)


def crfpp_binary(
    labels: Sequence[bytes],
    templates: Sequence[bytes],
    weights: Weights,
    *,
    columns: int = 2,
    factor: float = 1,
) -> bytes:
    """The same as a binary model: weights are float32."""
    keys = sorted(weights)
    first = np.cumsum([0, *(len(weights[key]) for key in keys)]).tolist()
    trie = double_array(dict(zip(keys, first, strict=False)))
    values = np.array([w for key in keys for w in weights[key]], dtype="<f4")
    texts = [b"".join(text + b"\0" for text in part) for part in (labels, templates)]
    texts[1] += b"\0" * (-(len(texts[0]) + len(texts[1])) % 4)
    header = struct.pack("<IidIII", 100, 0, factor, len(values), columns, len(trie))
    parts = [struct.pack("<I", len(part)) + part for part in texts]
    return b"".join([header, *parts, trie, values.tobytes()])


def double_array(entries: Mapping[bytes, int]) -> bytes:
    """A double array with these keys: nodes take the first base at which their children fit."""
    base, check = {0: 0}, {0: 0}
    taken: set[int] = set()

    def place(unit: int, keys: Sequence[bytes], depth: int) -> None:
        groups: dict[int, list[bytes]] = {}
        for key in keys:
            groups.setdefault(key[depth] + 1 if depth < len(key) else 0, []).append(key)
        begin = next(
            b for b in count(1) if b not in taken and all(b + code not in check for code in groups)
        )
        taken.add(begin)
        base[unit] = begin
        for code in groups:
            check[begin + code] = begin
        for code, group in groups.items():
            if code:
                place(begin + code, group, depth + 1)
            else:
                base[begin] = -entries[group[0]] - 1

    place(0, sorted(entries), 0)
    units = np.zeros(max(check) + 1, dtype=[("base", "<i4"), ("check", "<u4")])
    for unit, parent in check.items():
        units[unit] = base[unit], parent
    return units.tobytes()


def repaired_crfpp(data: bytes) -> bytes:
    """A damaged binary model whose number of weights fits its length again, if it can."""
    if len(data) < 32:
        return data
    fields = list(struct.unpack_from("<IidIII", data))
    place = 28
    for _ in range(2):
        if place + 4 > len(data):
            return data
        place += 4 + struct.unpack_from("<I", data, place)[0]
    rest = len(data) - place - fields[5]
    if rest < 0 or rest % 4:
        return data
    fields[3] = rest // 4
    return struct.pack("<IidIII", *fields) + data[28:]


def wapiti(
    labels: Sequence[bytes],
    patterns: Sequence[bytes],
    weights: Weights,
    *,
    kind: int = 2,
    single: bool = False,
) -> bytes:
    """A model of Wapiti; an observation with * has L weights and then L², all others one kind."""
    values: Floats = np.array([w for ws in weights.values() for w in ws], dtype=float)
    numbers = np.flatnonzero(values).tolist()

    def texts(items: Sequence[bytes]) -> bytes:
        return b"".join(b"%d:%s,\n" % (len(item), item) for item in items)

    return b"".join(
        [
            b"#mdl#%d#%d\n" % (kind, len(numbers)),
            b"#rdr#%d/%d/%d\n" % (len(patterns), 0, single),
            texts(patterns),
            b"#qrk#%d\n" % len(labels),
            texts(labels),
            b"#qrk#%d\n" % len(weights),
            texts(list(weights)),
            b"".join(b"%d=%s\n" % (i, float(values[i]).hex().encode()) for i in numbers),
        ]
    )
