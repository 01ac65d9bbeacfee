"""Stands for pywrapfst where it is not installed: for `make test-without-pynini`."""

raise ModuleNotFoundError("No module named 'pywrapfst'", name="pywrapfst")
