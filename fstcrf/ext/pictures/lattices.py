"""Pictures of lattices: a trellis if it is small, else a table for each tape; couplings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NoPathError, OptionError, TooLargeError
from fstcrf.ext.pictures import machines
from fstcrf.ext.pictures import svg as pictures
from fstcrf.lattices.inputs import SentenceInputs
from fstcrf.lattices.machines import JointArrays, joint_arrays
from fstcrf.lattices.questions import Questions

_MOST_STATES, _MOST_TOKENS = 12, 30
"""The limits of a trellis."""

_MOST_TABLES, _MOST_SIDE = 12, 100
"""Tables of couplings, and labels on a side of one."""


def lattice_picture(lattice: Questions, tokens: Sequence[str] | None = None) -> str:
    """Return the picture of a lattice as SVG.

    Parameters
    ----------
    lattice : Lattice
    tokens : sequence of str, optional
        Texts above the columns; numbers by default.

    Raises
    ------
    NoPathError
        Every label sequence is forbidden.
    """
    row = lattice.row
    if not isinstance(row, SentenceInputs):
        return _machine(lattice, tokens)
    names = [str(t) for t in range(len(lattice))] if tokens is None else list(tokens)
    title = f"Lattice of {len(lattice)} tokens: {', '.join(lattice.tapes)}"
    if not names:
        lattice.best()  # raises without a path
        return pictures.tables([pictures.Table("no tokens", (), (), (), ())], title)
    if lattice.row.large:
        note = "the best path; probabilities take multiplying out what is too large to draw"
        return pictures.tables(_best_only(lattice, names, note), title)
    joint = _small(row)
    return (
        pictures.tables(_tables(lattice, names), title)
        if joint is None
        else (pictures.trellis(_trellis(joint, names), title))
    )


def _machine(lattice: Questions, tokens: Sequence[str] | None) -> str:
    """Return the picture of the machine, or, if it is too large, of probabilities."""
    lattice.row.check_alive()
    try:
        return machines.svg(lattice.row.machine)
    except TooLargeError:
        shares = lattice.marginals(lattice.tapes[0])
        given = [str(t) for t in range(len(shares))] if tokens is None else list(tokens)
        names = lattice.on[0].labels
        best = [names[k] for k in shares.argmax(axis=1).tolist()]
        if not lattice.segmented:
            best = list(lattice.best().labels)
        found = pictures.probabilities("labels", names, given, shares.tolist(), best)
        return pictures.tables(found, repr(lattice))


def _small(lattice: SentenceInputs) -> JointArrays | None:
    """Return the lattice multiplied out, if it is to be drawn as a trellis."""
    program = lattice.program
    states = int(np.prod(program.shape)) * program.n_residual
    if len(lattice) > _MOST_TOKENS or states > 4 * _MOST_STATES:
        return None
    try:
        joint = joint_arrays(lattice)
    except TooLargeError:
        return None
    usable = (joint.node > -np.inf).any(axis=0).sum()
    return joint if usable <= _MOST_STATES else None


# --- A trellis ------------------------------------------------------------------------------------


class _Sums(NamedTuple):
    node: Floats  # [T, S] probabilities of states
    arc: Floats  # [T − 1, S, S] of arcs
    best: Longs  # [T] states of the best path


def _trellis(joint: JointArrays, tokens: Sequence[str]) -> pictures.Trellis:
    sums = _sums(joint)
    used = np.flatnonzero((sums.node > 0).any(axis=0))
    row = {int(state): i for i, state in enumerate(used)}
    copies = len(joint.label) > len(set(joint.label.tolist()))
    names = [" ".join(joint.names[joint.label[s]]) for s in used.tolist()]
    if copies:  # the states of a label, numbered
        size = len(joint.names)
        names = [f"{name} {s // size}" for name, s in zip(names, used.tolist(), strict=True)]
    arcs = {
        (t, row[i], row[j]): float(sums.arc[t, i, j])
        for t, i, j in np.argwhere(sums.arc > 0).tolist()
    }
    best = [row[int(state)] for state in sums.best]
    return pictures.Trellis(tokens, names, sums.node[:, used].tolist(), arcs, best)


def _sums(joint: JointArrays) -> _Sums:
    """Return probabilities and the best path, by the definition: pictures are small."""
    length, states = joint.node.shape
    step = np.broadcast_to(joint.step, (length, states, states))
    after, ahead = np.empty((length, states)), np.empty((length, states))
    after[-1] = ahead[-1] = joint.final
    for t in range(length - 2, -1, -1):
        after[t] = np.logaddexp.reduce(step[t + 1] + joint.node[t + 1] + after[t + 1], axis=1)
        ahead[t] = (step[t + 1] + joint.node[t + 1] + ahead[t + 1]).max(axis=1)
    before = np.empty((length, states))
    before[0] = joint.initial + joint.node[0]
    for t in range(1, length):
        before[t] = joint.node[t] + np.logaddexp.reduce(before[t - 1][:, None] + step[t], axis=0)
    log_z = np.logaddexp.reduce(before[-1] + joint.final)
    if log_z == -np.inf:
        raise NoPathError("every label sequence is forbidden")
    onward = joint.node[1:] + after[1:]
    arc = before[:-1, :, None] + step[1:] + onward[:, None, :] - log_z
    best = [int((before[0] + ahead[0]).argmax())]
    for t in range(1, length):
        best.append(int((step[t][best[-1]] + joint.node[t] + ahead[t]).argmax()))
    node, arc = (np.exp(np.minimum(0.0, logs)) for logs in (before + after - log_z, arc))
    return _Sums(node, arc, np.asarray(best))


# --- Tables ---------------------------------------------------------------------------------------


def _tables(lattice: Questions, tokens: Sequence[str]) -> list[pictures.Table]:
    """Return a table of marginals for each tape; the product is not drawn."""
    best = lattice.best()
    return [
        table
        for tape in lattice.on
        for table in pictures.probabilities(
            tape.name,
            tape.labels,
            tokens,
            lattice.marginals(tape.name).tolist(),
            lattice._labels_on(best.labels, tape.name),
        )
    ]


def _best_only(lattice: Questions, tokens: Sequence[str], note: str) -> list[pictures.Table]:
    best = lattice.best()
    return [
        table
        for tape in lattice.tapes
        for table in best_tables(f"{tape}: {note}", lattice._labels_on(best.labels, tape), tokens)
    ]


def best_tables(name: str, path: Sequence[str], tokens: Sequence[str]) -> list[pictures.Table]:
    """Return the tables of a tape's best labels, of which no probabilities are known."""
    labels = list(dict.fromkeys(path))
    shares = [[float(label == one) for label in labels] for one in path]
    return [
        replace(table, texts=[["" for _ in row] for row in table.texts])
        for table in pictures.probabilities(name, labels, tokens, shares, path)
    ]


# --- Couplings ------------------------------------------------------------------------------------


def couplings_picture(lattice: Questions, tokens: Sequence[str] | None = None) -> str:
    """Return the couplings of a lattice's tapes as SVG: a table of potentials for two tapes.

    Constraints of a grammar on single tokens are also couplings. Where sentences bring their own,
    there is a table for each token.
    """
    row = lattice.row
    if not isinstance(row, SentenceInputs):
        raise OptionError(
            "of='couplings' is for lattices of tokens: in a lattice of arcs, couplings "
            "are already part of the scores of arcs"
        )
    program = row.program
    per_token = iter(program.per_token(row.values))
    brought = {id(what): value for what, value in zip(program.inputs, per_token, strict=True)}
    own = iter([brought[id(what)] for what in program.inputs if what.kind == "coupling"])
    found: list[pictures.Table] = []
    for coupling in (*program.couplings, *program.folding.couplings):
        names = [program.labels(tape) for tape in coupling.tapes]
        title = " × ".join(coupling.tapes)
        if coupling.value is not None:
            found.append(_coupling(title, names, coupling.value))
            continue
        said = range(len(lattice)) if tokens is None else tokens
        for token, table in zip(said, next(own), strict=True):
            found.append(_coupling(f"{title}, token {token}", names, table))
    if not found:
        found = [pictures.Table("nothing couples the tapes", (), (), (), ())]
    left = len(found) - _MOST_TABLES
    if left > 0:
        last = pictures.Table(f"… {left:,} more tables", (), (), (), ())
        found = [*found[:_MOST_TABLES], last]
    return pictures.tables(found, f"Couplings of {', '.join(lattice.tapes)}")


def _coupling(title: str, names: Sequence[tuple[str, ...]], value: Floats) -> pictures.Table:
    """Return a table: rows are labels of the first tape, columns are labels of the others."""
    rows = list(names[0])
    columns = [""]
    for labels in names[1:]:
        columns = [f"{head} {label}".strip() for head in columns for label in labels]
    flat = np.asarray(value).reshape(len(rows), -1)
    cut = flat[:_MOST_SIDE, :_MOST_SIDE]
    note = "" if cut.shape == flat.shape else f"of {len(rows):,} × {len(columns):,} labels"
    return pictures.scores(
        title, columns[: cut.shape[1]], rows[: cut.shape[0]], cut.tolist(), note=note
    )
