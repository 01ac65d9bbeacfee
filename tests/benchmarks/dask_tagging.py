"""``fstcrf tag --dask``: Parquet files by one worker and by two, in turns.

``python -m tests.benchmarks.dask_tagging MODEL TEXT [--quick]`` prints a JSON object:
seconds of each run, from the start of the command to its end, and those of a processor that each
worker took. The workers are processes of one thread, started by hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fstcrf
from fstcrf.ext.arrow import tagged_schema
from tests.support.dask_cluster import Cluster

FILES, COPIES, ROUNDS = 16, 12, 5


def written(text: Path, model: str, folder: Path, copies: int) -> int:
    """Write a corpus some times into each of some Parquet files; return its sentences."""
    import pyarrow as pa
    from pyarrow import parquet

    corpus = fstcrf.read_columns(text, ("word", "pos", "chunk"))
    words, tags = (corpus.column_lists(name) * copies for name in ("word", "pos"))
    table = pa.table({"word": words, "pos": tags, "0": words, "1": tags})
    try:
        tagged_schema(model, table.select(["0", "1"]).schema)
    except fstcrf.errors.DataError:  # it calls them by names
        table = table.select(["word", "pos"])
    else:
        table = table.select(["0", "1"])
    for k in range(FILES):
        parquet.write_table(table, folder / f"{k:02}.parquet")
    return len(words) * FILES


def timed(cluster: Cluster, model: str, home: Path) -> dict[str, Any]:
    """Tag all files; return seconds, and those of a processor of each worker."""
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        before = client.run(time.process_time)
        start = time.perf_counter()
        command = ["tag", model, str(home / "in"), "-o", str(home / "out")]
        command += ["--set", "overwrite=true"]
        done = subprocess.run(
            [sys.executable, "-m", "fstcrf.cli", *command, "--set", f"dask={cluster.address}"],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        seconds = time.perf_counter() - start
        after = client.run(time.process_time)
    return {"seconds": seconds, "cpu": sorted(after[w] - before[w] for w in before)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--copies", type=int, default=COPIES)
    options = parser.parse_args()
    copies, rounds = (1, 1) if options.quick else (options.copies, options.rounds)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for folder in ("in", "one", "two"):
            (home / folder).mkdir()
        sentences = written(options.text, options.model, home / "in", copies)
        found: dict[str, list[Any]] = {"one": [], "two": []}
        with Cluster(home / "one") as one, Cluster(home / "two") as two:
            one.worker()
            two.worker()
            two.worker()
            for k in range(rounds + 1):  # the first loads what is loaded once
                for side, cluster in (("one", one), ("two", two)):
                    run = timed(cluster, options.model, home)
                    found[side] += [run] * (k > 0)
    json.dump({"sentences": sentences, "files": FILES, **found}, sys.stdout)


if __name__ == "__main__":
    main()
