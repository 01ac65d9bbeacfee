"""Where a model goes: never over an input, and rather elsewhere than nowhere.

=============  =============================================
spare_inputs   the output is none of the inputs
save           save a model; rather elsewhere than not at all
=============  =============================================
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fstcrf.cli.failures import Failure

if TYPE_CHECKING:
    from fstcrf.cli.models import Model

__all__ = ["save", "spare_inputs"]


def spare_inputs(output: str, inputs: Iterable[str | None], *, option: str = "--output") -> None:
    """Check that the output, which an option names, is none of the inputs.

    Raises
    ------
    click.UsageError
        It is one of them.
    """
    target = Path(output).resolve()
    for path in inputs:
        if path is not None and Path(path).resolve() == target:
            raise click.UsageError(f"{option} {output} would overwrite an input")


def save(model: Model, output: str) -> None:
    """Save a model; rather elsewhere than not at all.

    Raises
    ------
    Failure
        It could not be saved where it was wanted; says where it is instead.
    OSError
        It could not be saved at all.
    """
    import tempfile

    try:
        model.save(output)
    except OSError as error:
        spare = Path(tempfile.mkdtemp(prefix="fstcrf-")) / Path(output).name
        try:
            model.save(spare)
        except OSError:
            spare.parent.rmdir()
            raise error from None
        raise Failure(f"{output}: {error.strerror}; the model is in {spare} instead") from None
