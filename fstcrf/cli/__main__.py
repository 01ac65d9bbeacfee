"""``python -m fstcrf.cli``."""

from fstcrf.cli.main import main

if __name__ == "__main__":
    main()
