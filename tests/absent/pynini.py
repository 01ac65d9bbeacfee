"""Stands for pynini where it is not installed: for `make test-without-pynini`."""

raise ModuleNotFoundError("No module named 'pynini'", name="pynini")
