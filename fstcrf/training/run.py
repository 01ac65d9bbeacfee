"""One run of an optimiser: progress, held-out scores, checkpoint.

Chains over text in memory (`fstcrf.taggers.training`) or in parts (`fstcrf.ext.parts`), segments,
words and rules (`fstcrf.ext`) are trained by the same function, `run_training`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from fstcrf.arrays import Array, Floats
from fstcrf.errors import MemoryWarning, warn
from fstcrf.training.arguments import Run
from fstcrf.training.loop import Checkpoint, Outcome, fit
from fstcrf.training.memory import expected, release
from fstcrf.training.optimiser import Optimiser
from fstcrf.training.options import Options
from fstcrf.training.problem import ParameterSpace


def announce_memory(run: Run, added: int | None, weights: int) -> None:
    """Report the expected memory, `added` bytes by the optimiser; warn if less is free."""
    memory = expected(added, weights)
    if memory is None:
        return
    if run.expect is not None:
        run.expect(memory)
    if not memory.fits:
        warn(str(memory), MemoryWarning)


def run_training(
    optimiser: Callable[[], Optimiser],
    *,
    max_iterations: int,
    patience: int,
    run: Run,
    fingerprint: str,
    evaluate: Callable[[Floats], float] | None,
) -> Outcome:
    """Create an optimiser and run it to its end; `evaluate` maps weights to a held-out score."""
    checkpoint = None
    if run.checkpoint is not None:
        checkpoint = Checkpoint(
            run.checkpoint, fingerprint=fingerprint, every=run.checkpoint_every, resume=run.resume
        )
    running = optimiser()
    release()
    return fit(
        running,
        max_iterations=max_iterations,
        evaluate=evaluate,
        patience=patience,
        report=run.report,
        checkpoint=checkpoint,
        keep_on_interrupt=run.keep_on_interrupt,
    )


def run_fingerprint(
    settings: Options,
    parts: Sequence[bytes],
    space: ParameterSpace,
    theta: Floats,
    gold: list[list[str]] | None,
) -> str:
    """Return a hash of everything that determines the iterations of a training.

    `parts` are hashes of the parts of the data, `gold` the labels of held-out sentences.
    """
    names = {"pairs": "features"}  # as checkpoints name it
    decisive = {names.get(name, name): value for name, value in settings.named().items()}
    del decisive["max_iterations"]
    digest = hashlib.sha256(msgspec.json.encode((decisive, space.topology.labels, gold)))
    for part in parts:
        digest.update(part)
    arrays: list[Array] = [theta, space.node_cells, space.transitions, space.arc_cells]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
