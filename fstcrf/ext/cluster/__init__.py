"""Work on many files, here or on machines elsewhere: processes of this machine, workers of Dask.

============  =====================================================================
files         inputs to outputs of the same names in a folder, and what is done
work          one file of a run, wherever it is done; what became of it
processes     worker processes of this machine, started again when they are killed
client        files in workers of Dask
dask          an executor for training whose parts are in workers of Dask
connection    clusters of Dask, and whether their workers fit
============  =====================================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.cluster.client import through_dask
    from fstcrf.ext.cluster.dask import DaskExecutor
    from fstcrf.ext.cluster.files import Record, TextFile, parts_of
    from fstcrf.ext.cluster.processes import through_processes
    from fstcrf.ext.cluster.work import FileOutcome, FileTask, perform

__all__ = [
    "DaskExecutor",
    "FileOutcome",
    "FileTask",
    "Record",
    "TextFile",
    "parts_of",
    "perform",
    "through_dask",
    "through_processes",
]

__getattr__ = importer(
    __name__,
    {
        "DaskExecutor": "dask",
        "FileOutcome": "work",
        "TextFile": "files",
        "Record": "files",
        "FileTask": "work",
        "parts_of": "files",
        "perform": "work",
        "through_dask": "client",
        "through_processes": "processes",
    },
)
