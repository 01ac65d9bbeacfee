"""Taggers in a row, each trained on its own corpus and reading the labels of those before it."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.taggers.pipelines.declaration import read_pipeline
    from fstcrf.taggers.pipelines.evaluation import PipelineScore, score_pipeline
    from fstcrf.taggers.pipelines.pipeline import Pipeline
    from fstcrf.taggers.pipelines.task import Task
    from fstcrf.taggers.pipelines.trained import TrainedPipeline, load_pipeline

__all__ = [
    "Pipeline",
    "PipelineScore",
    "Task",
    "TrainedPipeline",
    "load_pipeline",
    "read_pipeline",
    "score_pipeline",
]

__getattr__ = importer(
    __name__,
    {
        "Pipeline": "pipeline",
        "PipelineScore": "evaluation",
        "Task": "task",
        "TrainedPipeline": "trained",
        "load_pipeline": "trained",
        "read_pipeline": "declaration",
        "score_pipeline": "evaluation",
    },
)
