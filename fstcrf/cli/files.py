"""A model as the options of ``fstcrf tag`` change it, and any file tagged by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from fstcrf.cli.models import (
    Model,
    constrained,
    deciding_by,
    joint_file,
    load_deciding,
    pipeline_of,
    whole,
)
from fstcrf.cli.questions import question
from fstcrf.cli.sources import InputFile, model_input
from fstcrf.cli.tagging import Outcomes, tag_file
from fstcrf.cli.weights import weighted
from fstcrf.ext.arrow.command import is_parquet, tag_table
from fstcrf.ext.documents.command import check_alone, tag_documents
from fstcrf.lazy import LazyModule
from fstcrf.taggers import Composition, JointCRF, Tagger

if TYPE_CHECKING:
    from fstcrf.taggers import pipelines
else:  # plain tagging does not wait for them
    pipelines = LazyModule("fstcrf.taggers.pipelines")


@dataclass(frozen=True)
class FileTagger:
    """Tags files as options of ``fstcrf tag`` ask."""

    model: Model  # under the grammars of the options, with their weights
    options: Mapping[str, Any]
    decode: Any
    pipeline: bool  # the model is the composition of a pipeline

    @classmethod
    def of(cls, model_path: str, options: Mapping[str, Any]) -> FileTagger:
        """Load a model and change it according to the options; UsageError if that is impossible."""
        deciding = load_deciding(model_path)
        pipeline, decode = pipeline_of(deciding), options["decode"]
        if pipeline is not None:
            if options["document_consistency"]:
                raise click.UsageError(f"--documents needs a joint model: {joint_file(model_path)}")
            decode = decode or pipeline.decoder
        model = _changed(whole(deciding), options, decode, pipeline=pipeline is not None)
        return cls(model, options, decode, pipeline is not None)

    def tag(self, path: str, output: str) -> Outcomes:
        """Write a file again, with the requested answers; errors name the file."""
        if is_parquet(path):
            return tag_table(self.tagger(), path, output, self.options)
        source = self._source(path)
        if self.options["document_consistency"]:
            return tag_documents(self.model, source, path, output, dict(self.options))
        tagger = self.tagger()
        asked = question(tagger, self.options)
        return tag_file(tagger, source, path, output, asked)

    def check_text(self) -> None:
        """Raise the UsageError of options that text cannot be tagged with."""
        self._source(None)
        if not self.options["document_consistency"]:
            question(self.tagger(), self.options)

    def tagger(self) -> Tagger:
        """Return the requested decoder; UsageError if there is no such way to decide."""
        return deciding_by(self.model, self.decode, pipeline=self.pipeline)

    def _source(self, path: str | None) -> InputFile:
        options = self.options
        if not options["document_consistency"]:
            check_alone(dict(options))
        how = {name: options[name] for name in ("columns", "kind", "separator", "fill")}
        return model_input(self.model, path=path, **how)


def _changed(
    model: Model, options: Mapping[str, Any], decode: str | None, *, pipeline: bool
) -> Model:
    """Return a model with the weights and the grammars of options."""
    if options["grammar"]:
        model = constrained(model, options["grammar"])
    if options["weights"] is None:
        return model
    together = isinstance(model, Composition) and decode not in ("cascade", "marginals")
    if pipeline and isinstance(model, JointCRF):
        together = pipelines.TrainedPipeline(model, cast("Any", decode)).together
    if not together:
        raise click.UsageError("--weights is for taggers that decide together: --decode joint")
    return weighted(cast("Composition", model), options["weights"])
