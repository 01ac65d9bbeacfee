"""The command line: parse, call the library, print.

Nothing heavy is imported before a command needs it: a tagger starts in a fraction of a second.
"""

from fstcrf.cli.main import main

__all__ = ["main"]
