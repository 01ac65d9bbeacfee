"""The protocol of all recipes: choose on held-out data, freeze, and only then read test data.

A recipe asks `Protocol.choose` for each of its settings, with candidates from its source code and a
score on held-out data. `Protocol.freeze` writes ``settings.json``: the trials, the choices, and
their SHA-256. `Protocol.test` reads test data, and refuses before that. Random work is repeated
with several seeds (`over_seeds`).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fstcrf.errors import DataError
from fstcrf.files import atomic_write
from fstcrf.recipes.experiment import Setting, Work
from fstcrf.recipes.report import folded, number, table

T = TypeVar("T")

Value = bool | int | float | str | None  # a setting
Settings = Mapping[str, Any]  # settings of one system, by name


def grid(**values: Sequence[Value]) -> list[dict[str, Any]]:
    """Return settings with each combination of values, the last one running fastest."""
    return [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]


FILE = "settings.json"  # file of frozen settings, in the folder of the report

SEEDS = 5  # runs of random work


class HeldOutTrial(msgspec.Struct, frozen=True):
    """A candidate with its figure on held-out data; more is better."""

    settings: dict[str, Value]
    held_out: float


class SettingChoice(msgspec.Struct, frozen=True):
    """The choice for one system, and all trials, in order."""

    settings: dict[str, Value]
    trials: tuple[HeldOutTrial, ...] = ()


class Frozen(msgspec.Struct, frozen=True):
    """The contents of ``settings.json``."""

    recipe: str
    choices: dict[str, SettingChoice]
    sha256: str  # of the two, as compact JSON with sorted keys
    run: str = ""  # fingerprint of data and options
    code: str = ""  # version and commit of the code that chose, or took choices that were kept
    date: str = ""  # UTC, ISO 8601


class Protocol:
    """Choices of one run; DataError if the folder of the report has choices of another run."""

    def __init__(self, recipe: str, setting: Setting) -> None:
        self._recipe, self._setting = recipe, setting
        path = None if setting.report is None else setting.report / FILE
        if path is not None and path.exists() and frozen(path).run != setting.parts.run:
            raise _of_another_run(path)
        self._choices: dict[str, SettingChoice] = {}
        self._sha256 = ""

    def choose(
        self,
        name: str,
        candidates: Sequence[Settings],
        held_out: Callable[[Settings], float],
        about: object = None,
        *,
        quick: Settings | None = None,
    ) -> Settings:
        """Return the candidate with the best figure of held-out data; the first of equals.

        Every trial is kept as it ends. A single candidate is chosen without one, as `quick` is by
        a run that is not full.
        """
        if self._sha256:
            raise RuntimeError(f"{name}: settings are chosen before they are frozen")
        if quick is not None and not self._setting.full:
            candidates = [quick]
        if len(candidates) == 1:
            choice = SettingChoice(dict(candidates[0]))
        else:
            works = [self._trial(name, one, held_out, about) for one in candidates]
            figures = self._setting.all_kept(works, float)
            pairs = zip(candidates, figures, strict=True)
            trials = tuple(HeldOutTrial(dict(one), figure) for one, figure in pairs)
            choice = SettingChoice(max(trials, key=lambda trial: trial.held_out).settings, trials)
        self._choices[name] = choice
        return choice.settings

    def _trial(
        self, name: str, settings: Settings, held_out: Callable[[Settings], float], about: object
    ) -> Work[float]:
        words = ", ".join(f"{key} {value}" for key, value in settings.items())
        part = f"{name}, held-out, {words}"

        def make() -> float:
            found = float(held_out(settings))
            self._setting.say(f"{self._recipe}: {part}: {found:.2f}")
            return found

        return Work(part, make, about)

    def freeze(self) -> str:
        """Write the settings down and return their SHA-256; from here on test data may be read."""
        sha256 = digest(self._recipe, self._choices)
        parts, date = self._setting.parts, dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        frozen = Frozen(self._recipe, self._choices, sha256, parts.run, parts.code, date)
        if self._setting.report is not None:
            _written(frozen, self._setting.report / FILE)
        self._sha256 = sha256
        return sha256

    def test(self, read: Callable[[], T]) -> T:
        """Return test data; RuntimeError if the settings are not frozen."""
        if not self._sha256:
            raise RuntimeError("settings are frozen before test data is read")
        return read()

    def statement(self) -> str:
        """Return one sentence of the report on where settings are from."""
        return (
            f"Chosen on held-out data and frozen in `{FILE}` before the test data was read; "
            f"SHA-256 `{self._sha256[:16]}…`."
        )

    def section(self) -> str:
        """Return trials and choices, as a folded section of the report."""
        blocks = [
            folded(f"{name}: {len(choice.trials)} tried", _trials(choice))
            for name, choice in self._choices.items()
            if choice.trials
        ]
        given = [
            [name, _words(choice.settings)]
            for name, choice in self._choices.items()
            if not choice.trials
        ]
        if given:
            blocks.append(table(["system", "settings of the recipe: this run chose none"], given))
        return "\n\n".join(["## Settings", self.statement(), *blocks])


def digest(recipe: str, choices: Mapping[str, SettingChoice]) -> str:
    """Return the SHA-256 of settings, 64 hexadecimal digits."""
    plain = {"recipe": recipe, "choices": dict(choices)}
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


def frozen(path: Path) -> Frozen:
    """Read frozen settings; DataError if they have been changed."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Frozen)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"no settings of a recipe: {error}", path=str(path)) from None
    if digest(found.recipe, found.choices) != found.sha256:
        raise DataError("the settings were changed after they had been frozen", path=str(path))
    return found


def _written(settings: Frozen, path: Path) -> None:
    if path.exists():
        if frozen(path).sha256 != settings.sha256:
            raise _of_another_run(path)
        return
    with atomic_write(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(settings), indent=1) + b"\n")


def _of_another_run(path: Path) -> DataError:
    return DataError(
        "settings of another run were frozen here; give another folder with --output, "
        "or remove that folder with all parts of the other run",
        path=str(path),
    )


def over_seeds(
    setting: Setting,
    name: str,
    make: Callable[[int], T],
    kind: type[T],
    *,
    seeds: int = SEEDS,
    about: object = None,
) -> list[T]:
    """Run random work once for each seed, starting with the run's seed; each result is saved."""
    works = [
        Work(f"{name}, seed {seed}", partial(make, seed), (about, seed))
        for seed in range(setting.seed, setting.seed + seeds)
    ]
    return setting.all_kept(works, kind)


def _trials(choice: SettingChoice) -> str:
    names = list(choice.settings)
    edges = ", ".join(_edges(choice))
    chosen = f"chosen; {edges} at the edge of what was tried" if edges else "chosen"
    body = [
        [*(_word(trial.settings[name]) for name in names), number(trial.held_out), mark]
        for trial in choice.trials
        for mark in [chosen if trial.settings == choice.settings else ""]
    ]
    return table([*names, "held-out", ""], body)


def _edges(choice: SettingChoice) -> Iterator[str]:
    """Yield the settings whose value is the smallest or largest number of three or more."""
    for name, value in choice.settings.items():
        tried = {trial.settings[name] for trial in choice.trials}
        numbers = [x for x in tried if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(numbers) > 2 and value in (min(numbers), max(numbers)):
            yield name


def _words(settings: Settings) -> str:
    return ", ".join(f"{name} {_word(value)}" for name, value in settings.items())


def _word(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
