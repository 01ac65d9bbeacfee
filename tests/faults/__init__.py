"""What ends a run: disks that fail, processes that die, lost power. ``python -m tests.faults``."""
