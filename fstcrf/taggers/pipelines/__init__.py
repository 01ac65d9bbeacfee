"""Pipelines: taggers, each trained on its own corpus, that read the labels of earlier taggers."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.pipelines.declaration import read_pipeline as read_pipeline
    from fstcrf.ext.pipelines.evaluation import PipelineScore as PipelineScore
    from fstcrf.ext.pipelines.evaluation import score_pipeline as score_pipeline
    from fstcrf.ext.pipelines.pipeline import Pipeline as Pipeline
    from fstcrf.ext.pipelines.task import Task as Task
    from fstcrf.ext.pipelines.trained import TrainedPipeline as TrainedPipeline
    from fstcrf.ext.pipelines.trained import load_pipeline as load_pipeline

__all__, __getattr__ = importer(
    __name__,
    {
        "fstcrf.ext.pipelines.declaration": "read_pipeline",
        "fstcrf.ext.pipelines.evaluation": "PipelineScore score_pipeline",
        "fstcrf.ext.pipelines.pipeline": "Pipeline",
        "fstcrf.ext.pipelines.task": "Task",
        "fstcrf.ext.pipelines.trained": "TrainedPipeline load_pipeline",
    },
)
