"""Taggers in a row, each trained on its own corpus and reading the labels of those before it.

================  ===================================================================
Task              one of them, declared: its text, template, options, what it reads
Pipeline          tasks in the order of reading; trains, and goes on where it stopped
TrainedPipeline   tags: as a cascade, jointly, or by earlier taggers' marginals
read_pipeline     a pipeline from a TOML file
load_pipeline     a trained pipeline from its folder
================  ===================================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.pipelines.declaration import read_pipeline
    from fstcrf.pipelines.pipeline import Pipeline
    from fstcrf.pipelines.task import Task
    from fstcrf.pipelines.trained import TrainedPipeline, load_pipeline

__all__ = ["Pipeline", "Task", "TrainedPipeline", "load_pipeline", "read_pipeline"]

__getattr__ = importer(
    __name__,
    {
        "Pipeline": "pipeline",
        "Task": "task",
        "TrainedPipeline": "trained",
        "load_pipeline": "trained",
        "read_pipeline": "declaration",
    },
)
