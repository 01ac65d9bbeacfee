"""What is said of labels beforehand: those that are known, and which are to be more or less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats
from fstcrf.errors import OptionError, ShapeError
from fstcrf.model import decoding
from fstcrf.model.reading import Run

if TYPE_CHECKING:
    from fstcrf.plans import Program

__all__ = ["Bias", "Forced", "Known"]

Forced: TypeAlias = decoding.Forced | Mapping[str, decoding.Forced]
"""Known labels of a sentence; of several tapes, by tape."""
Bias: TypeAlias = decoding.Bias | Mapping[str, decoding.Bias]
"""What is added to the potentials of labels; of several tapes, by tape."""


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """What is known of the labels of sentences, by tape.

    Parameters
    ----------
    forced : mapping of str to sequence
        For some tapes the labels of every sentence: None or ``"_"`` where not known, ``"a|b"`` for
        one of several.
    bias : mapping of str to mapping of str to float
        For some tapes what is added to the potential of a label at every token.
    """

    forced: Mapping[str, Sequence[decoding.Forced | None]]
    bias: Mapping[str, decoding.Bias]

    @classmethod
    def of(
        cls,
        tapes: Sequence[str],
        size: int,
        forced: Sequence[Forced | None] | None,
        bias: Bias | None,
    ) -> Known:
        """Read what users say, of the only tape or by tape.

        Raises
        ------
        ShapeError
            Forced labels of another number of sentences.
        OptionError
            Several tapes, and it does not say which; or a tape that there is not.
        """
        added: dict[str, decoding.Bias] = {}
        if bias is not None:
            added = _by_tape(tapes, bias, "bias")
        if forced is None:
            return cls({}, added)
        if len(forced) != size:
            raise ShapeError(f"forced labels of {len(forced)} sentences for {size}")
        each: list[dict[str, decoding.Forced]] = [
            {} if labels is None else _by_tape(tapes, labels, "forced") for labels in forced
        ]
        named = dict.fromkeys(tape for labels in each for tape in labels)
        return cls({tape: [labels.get(tape) for labels in each] for tape in named}, added)

    def applied(self, program: Program, run: Run, values: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """Return the values of a program's inputs with what is known put in.

        Raises
        ------
        LabelError
            A label that a tape does not have.
        ShapeError
            Labels that are not as many as the tokens of their sentence.
        """
        found = list(values)
        for tape in {**self.bias, **self.forced}:
            place = next(
                k
                for k, what in enumerate(program.inputs)
                if what.kind == "node" and what.tape == tape and not what.context
            )
            topology = program.chain[tape].topology
            node = found[place] + decoding.biases(topology, self.bias.get(tape, {}))
            if tape in self.forced:
                node[~self._mask(program, tape, run)] = -np.inf
            found[place] = node
        return tuple(found)

    def _mask(self, program: Program, tape: str, run: Run) -> Bools:
        topology, lengths = program.chain[tape].topology, np.diff(run.offsets)
        parts = [
            decoding.mask(topology, self.forced[tape][i], n)
            for i, n in zip(run.numbers.tolist(), lengths.tolist(), strict=True)
        ]
        return np.concatenate(parts)


def _by_tape(tapes: Sequence[str], given: Any, what: str) -> dict[str, Any]:
    """Return what is given by tape; of the only tape it may be given as it is."""
    named = isinstance(given, Mapping) and not any(
        isinstance(value, int | float) for value in given.values()
    )
    if not named:
        if len(tapes) > 1:
            raise OptionError(f"{what} of several tapes: give it by tape, of {', '.join(tapes)}")
        return {tapes[0]: given}
    odd = [tape for tape in given if tape not in tapes]
    if odd:
        raise OptionError(f"{what} of a tape {odd[0]!r}: there is {', '.join(tapes)}")
    return dict(given)
