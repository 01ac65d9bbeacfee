"""Taggers in a row, each trained on its own corpus and reading the labels of those before it."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.taggers.pipelines.declaration import read_pipeline as read_pipeline
    from fstcrf.taggers.pipelines.evaluation import PipelineScore as PipelineScore
    from fstcrf.taggers.pipelines.evaluation import score_pipeline as score_pipeline
    from fstcrf.taggers.pipelines.pipeline import Pipeline as Pipeline
    from fstcrf.taggers.pipelines.task import Task as Task
    from fstcrf.taggers.pipelines.trained import TrainedPipeline as TrainedPipeline
    from fstcrf.taggers.pipelines.trained import load_pipeline as load_pipeline

__all__, __getattr__ = importer(
    __name__,
    {
        "declaration": "read_pipeline",
        "evaluation": "PipelineScore score_pipeline",
        "pipeline": "Pipeline",
        "task": "Task",
        "trained": "TrainedPipeline load_pipeline",
    },
)
