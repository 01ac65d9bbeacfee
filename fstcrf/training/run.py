"""One run of an optimiser: progress, held-out scores, checkpoint.

Text in memory (`fstcrf.taggers.training`) and text in parts (`fstcrf.ext.parts`) are counted in
different ways, and then trained by the same function, `run_training`.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Array, Floats
from fstcrf.errors import MemoryWarning, OptionError
from fstcrf.training.executors.executor import Executor
from fstcrf.training.loop import Checkpoint, Outcome, Progress, check_checkpoint, fit
from fstcrf.training.memory import ExpectedMemory, expected, release
from fstcrf.training.optimiser import Optimiser
from fstcrf.training.options import Options
from fstcrf.training.problem import ParameterSpace


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a training runs. The model is the same for all values, unless Ctrl-C ends the training.

    The arguments of `fstcrf.CRF.train` with these names describe the fields.
    """

    threads: int
    report: Callable[[Progress], None] | None
    expect: Callable[[ExpectedMemory], None] | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int | None
    resume: bool
    keep_on_interrupt: bool
    executor: Executor | None
    memory_limit: int | None

    def check(self) -> None:
        """Raise OptionError for wrong numbers, and for options that need a checkpoint file."""
        path, every = self.checkpoint, self.checkpoint_every
        whole_number(self.threads, "threads", least=1)
        if self.resume and path is None:
            raise OptionError("resume needs a checkpoint to go on from")
        if every is not None:
            whole_number(every, "checkpoint_every", least=1)
        if path is None and every not in (None, 10):
            raise OptionError("checkpoint_every needs a checkpoint to write to")
        if path is not None:
            check_checkpoint(path, every=every, resume=self.resume)

    def announce_memory(self, added: int | None, weights: int) -> None:
        """Report the expected memory, `added` bytes by the optimiser; warn if less is free."""
        memory = expected(added, weights)
        if memory is None:
            return
        if self.expect is not None:
            self.expect(memory)
        if not memory.fits:
            warnings.warn(str(memory), MemoryWarning, stacklevel=5)

    def checkpoint_file(self, fingerprint: str) -> Checkpoint | None:
        """Return the checkpoint of the run with this fingerprint, if one is wanted."""
        if self.checkpoint is None:
            return None
        return Checkpoint(
            self.checkpoint,
            fingerprint=fingerprint,
            every=self.checkpoint_every,
            resume=self.resume,
        )


def run_training(
    optimiser: Callable[[], Optimiser],
    *,
    settings: Options,
    run: RunOptions,
    fingerprint: str,
    evaluate: Callable[[Floats], float] | None,
) -> Outcome:
    """Create an optimiser and run it to its end; `evaluate` maps weights to a held-out score."""
    checkpoint = run.checkpoint_file(fingerprint)
    running = optimiser()
    release()
    return fit(
        running,
        max_iterations=settings.method.max_iterations,
        evaluate=evaluate,
        patience=settings.patience,
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
    decisive = settings.named()
    del decisive["max_iterations"]
    digest = hashlib.sha256(msgspec.json.encode((decisive, space.topology.labels, gold)))
    for part in parts:
        digest.update(part)
    arrays: list[Array] = [theta, space.node_cells, space.transitions, space.arc_cells]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
