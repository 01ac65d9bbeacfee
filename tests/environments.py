"""A wheel in clean environments of all Pythons here: ``python -m tests.environments WHEEL``.

Each has the packages that the wheel's metadata name, and no compiler; there
`tests/wheel.py` trains and tags. Pythons are those on the path, and of pyenv where it is there.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple

OLDEST = (3, 11)
MEGABYTE = 10**6
LARGEST_WHEEL = 4 * MEGABYTE
LARGEST_INSTALLATION = 250 * MEGABYTE
LONGEST_INSTALLATION = 60.0  # seconds of a processor: those on the clock depend on the network
LONGEST_IMPORT = 0.05  # the same, of `import fstcrf`


def needs(wheel: Path) -> list[str]:
    """Return what a wheel requires, without extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        found = message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    return [need for need in found if "extra ==" not in need]


def pythons() -> Iterator[tuple[str, Path]]:
    """Yield version and path of each Python that is new enough, one of each minor version."""
    names = (shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], 20))
    seen: set[str] = set()
    for path in (sys.executable, *filter(None, names), *_of_pyenv()):
        ask = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
        done = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        version = done.stdout.strip()
        new = not done.returncode and tuple(map(int, version.split("."))) >= OLDEST
        if new and version not in seen:
            seen.add(version)
            yield version, Path(path)


def _of_pyenv() -> list[str]:
    """Return the Pythons that pyenv manages, which need not be on the path."""
    command = shutil.which("pyenv")
    if command is None:
        return []
    root = subprocess.run([command, "root"], capture_output=True, text=True, check=True).stdout
    return sorted(map(str, Path(root.strip(), "versions").glob("3.*/bin/python")))


def size(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if not path.is_symlink())


class Installed(NamedTuple):
    """What an installation takes: seconds on the clock and of a processor, bytes; an import."""

    seconds: float
    processor: float
    size: int
    importing: float

    def fits(self) -> bool:
        """Tell whether that is within the limits."""
        return (
            self.size <= LARGEST_INSTALLATION
            and self.processor <= LONGEST_INSTALLATION
            and self.importing <= LONGEST_IMPORT
        )

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"{self.size / MEGABYTE:.1f} MB with all it needs, installed in {self.seconds:.0f} s, "
            f"{self.processor:.0f} s of a processor; import fstcrf {1000 * self.importing:.0f} ms"
        )


def _processor() -> float:
    """Return the seconds that processes which have ended took of a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def importing(python: str, environment: dict[str, str]) -> float:
    """Return the least seconds of a processor that `import fstcrf` takes, of some tries."""
    ask = "import time; t = time.process_time(); import fstcrf; print(time.process_time() - t)"
    command = [python, "-c", ask]
    return min(
        float(subprocess.run(command, check=True, env=environment, capture_output=True).stdout)
        for _ in range(5)
    )


def installed(python: Path, wheel: Path, folder: Path) -> Installed:
    """Install a wheel into a new environment, and use it."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    alone = {"PATH": str(folder / "bin"), "HOME": str(folder), "CC": "false"}
    kept = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ} | alone
    own = str(folder / "bin" / "python")
    pip = [own, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    before, start, used = size(folder), time.perf_counter(), _processor()
    for what in (["--only-binary", ":all:", *needs(wheel)], ["--no-deps", str(wheel)]):
        subprocess.run([*pip, "install", *what], check=True, env=environment)
    taken, used = time.perf_counter() - start, _processor() - used
    more = size(folder) - before
    script = Path(__file__).with_name("wheel.py")
    subprocess.run([own, str(script)], check=True, env=environment, cwd=folder, timeout=300)
    return Installed(taken, used, more, importing(own, environment))


def main(wheel: Path) -> int:
    """Say what the wheel and its installations take; 1 where one is beyond a limit."""
    bad = wheel.stat().st_size > LARGEST_WHEEL
    print(f"{wheel.name}: {wheel.stat().st_size / MEGABYTE:.2f} MB")  # noqa: T201
    for version, python in pythons():
        with tempfile.TemporaryDirectory() as folder:
            found = installed(python, wheel, Path(folder) / "environment")
        bad |= not found.fits()
        print(f"Python {version}: {found}", flush=True)  # noqa: T201
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]).resolve()))
