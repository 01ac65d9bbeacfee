"""Work on many files, here or on machines elsewhere: processes of this machine, workers of Dask.

============  =====================================================================
files         inputs to outputs of the same names in a folder, and the record
work          one file of a run, and its outcome
processes     worker processes of this machine, restarted after they are killed
client        files in workers of Dask
dask          an executor for training with parts in workers of Dask
connection    clusters of Dask, and checks of their workers
============  =====================================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.cluster.client import through_dask as through_dask
    from fstcrf.ext.cluster.dask import DaskExecutor as DaskExecutor
    from fstcrf.ext.cluster.files import Record as Record
    from fstcrf.ext.cluster.files import TextFile as TextFile
    from fstcrf.ext.cluster.files import parts_of as parts_of
    from fstcrf.ext.cluster.processes import through_processes as through_processes
    from fstcrf.ext.cluster.work import FileOutcome as FileOutcome
    from fstcrf.ext.cluster.work import FileTask as FileTask
    from fstcrf.ext.cluster.work import perform as perform

__all__, __getattr__ = importer(
    __name__,
    {
        "client": "through_dask",
        "dask": "DaskExecutor",
        "files": "Record TextFile parts_of",
        "processes": "through_processes",
        "work": "FileOutcome FileTask perform",
    },
)
