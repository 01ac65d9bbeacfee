"""``python -m fstcrf`` is the command ``fstcrf``."""

import sys

from fstcrf.cli import main

if __name__ == "__main__":
    sys.exit(main())
