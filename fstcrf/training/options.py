"""The options of training, by name and as one struct, and which of them a run reads.

Options of objectives and methods are fields of their settings (`fstcrf.training.methods`). All
other options are fields of `Options`. An option that the run does not read raises an error, so that
no option is ignored silently.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from fstcrf.arguments import closest
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.text.corpus.schemes import scheme_pair
from fstcrf.training import Optimiser, ParameterSpace, Problem
from fstcrf.training.arguments import (
    AttributeOptions,
    Chain,
    Dev,
    Features,
    Gold,
    GoldOptions,
    PassingOptions,
    PatienceOption,
    Reads,
    Run,
    SeedOption,
)
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.likelihood import LikelihoodSettings
from fstcrf.training.magnitudes import weight_unit
from fstcrf.training.methods import METHODS, OBJECTIVES
from fstcrf.training.preconditioning import Multiplied
from fstcrf.training.settings import (
    MethodSettings,
    ObjectiveSettings,
    Penalised,
    SettingField,
    Settings,
    TrainingRun,
    divided,
    fields_of,
    spoken,
)

Value: TypeAlias = bool | int | float | str | None
"""Allowed values of an option."""


@dataclass(frozen=True, kw_only=True)
class Options(SeedOption, PatienceOption, PassingOptions, GoldOptions, AttributeOptions, Chain):
    """All options of a run."""

    objective: ObjectiveSettings = dataclasses.field(default_factory=LikelihoodSettings)
    method: MethodSettings = dataclasses.field(default_factory=LBFGS)

    @property
    def reads_sets(self) -> bool:
        """Whether ``_`` and ``a|b`` are sets of labels, as they are while `partial` is None."""
        return self.partial is not False

    @property
    def schemes(self) -> tuple[str, str] | None:
        """The schemes of the gold labels and of the model, if there are any."""
        return None if self.scheme in (None, "observed") else scheme_pair(str(self.scheme))

    def named(self) -> dict[str, Value]:
        """Return all options by name, including options of objective and method."""
        return {
            **{name: getattr(self, name) for name in _GENERAL},
            "objective": self.objective.name,
            "method": self.method.name,
            **{name: getattr(self.objective, name) for name in fields_of(type(self.objective))},
            **{name: getattr(self.method, name) for name in fields_of(type(self.method))},
        }


# --- Options and the runs that read them ----------------------------------------------------------

_GENERAL = fields_of(Options)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "objective": tuple(OBJECTIVES),
    "method": tuple(dict.fromkeys(method for methods in METHODS.values() for method in methods)),
}
"""Names of objectives and methods."""


def _special() -> Iterator[tuple[str, tuple[str, str], SettingField]]:
    for objective, methods in METHODS.items():
        for method, settings in methods.items():
            fields = {**fields_of(settings), **fields_of(OBJECTIVES[objective])}
            for name, field in fields.items():
                yield name, (objective, method), field


_SPECIAL: dict[str, dict[tuple[str, str], SettingField]] = {}
for _name, _run, _field in _special():
    _SPECIAL.setdefault(_name, {})[_run] = _field


def fields_named(name: str) -> list[SettingField]:
    """Return the fields of an option, one for each meaning and default."""
    if name in _GENERAL:
        return [_GENERAL[name]]
    return list({(f.meta.description, f.default): f for f in _SPECIAL[name].values()}.values())


def readers_of(name: str) -> dict[tuple[str, str], SettingField]:
    """Return the fields of an option by (objective, method); empty if all runs read it."""
    return _SPECIAL.get(name, {})


def _default(name: str) -> Any:
    defaults = {field.default for field in fields_named(name)}
    return defaults.pop() if len(defaults) == 1 else None


DEFAULTS: Mapping[str, Any] = {
    "objective": LikelihoodSettings.name,
    "method": LBFGS.name,
    **{name: _default(name) for name in (*_GENERAL, *_SPECIAL)},
}
"""Defaults of all options. An option whose default depends on the method has None."""


def _unread(name: str, values: Mapping[str, object]) -> str | None:
    """Return the condition that keeps a run from reading an option, if there is one."""
    if name not in DEFAULTS or name in CHOICES:
        return None
    field = _GENERAL.get(name)
    if field is None:
        objective, method = str(values["objective"]), str(values["method"])
        runs = _SPECIAL[name]
        methods = [m for o, m in runs if o == objective]
        if not methods:
            objectives = _either(dict.fromkeys(o for o, _ in runs))
            return f"needs objective {objectives}, not {objective!r}"
        if method not in methods:
            return f"needs method {_either(methods)}, not {method!r}"
        field = runs[objective, method]
    unmet = next((condition for condition in field.needs if not condition.holds(values)), None)
    return None if unmet is None else unmet.text.format_map(values)


def is_read(name: str, values: Mapping[str, object]) -> bool:
    """Return whether a run with these values of all options reads an option."""
    return _unread(name, values) is None


def _either(names: Collection[str] | Mapping[str, Any]) -> str:
    return " or ".join(map(repr, names))


# --- From names to options, and back --------------------------------------------------------------


def checked_options(
    named: Mapping[str, object], *, reads: bool = True, dev: bool = True, start: bool = False
) -> Options:
    """Check options by name, and return them as `Options`.

    `objective` and `method` are names or settings; an omitted option has its default.
    `reads`, `dev` and `start` are true if the run has earlier taggers, held-out data and an
    initial model. OptionError: an option is unknown, is set twice, has a wrong value, or is not
    read by objective and method.
    """
    values = flat_options(named, _CHOSEN)
    unknown = sorted(set(values) - set(DEFAULTS))
    if unknown:
        raise OptionError(
            f"unknown training option {unknown[0]!r}; {not_there(unknown[0], DEFAULTS, DEFAULTS)}"
        )
    values = {name: _checked(name, value) for name, value in values.items()}
    options = {**DEFAULTS, **values, "reads": reads, "dev": dev, "start": start}
    method = _method(options["objective"], options["method"])
    objective = OBJECTIVES[options["objective"]]
    passed = named.get("method")
    if isinstance(passed, Settings) and type(passed) is not method:
        raise OptionError(
            f"method is {type(passed).__name__}, expected {method.__name__} for objective "
            f"{options['objective']!r}"
        )
    general = {name: value for name, value in values.items() if name in _GENERAL}
    if "scheme" in general and general["scheme"] != "observed":
        scheme_pair(general["scheme"])
    elif general.get("on_illegal", "error") != "error":
        raise OptionError(f"on_illegal {general['on_illegal']!r} needs a scheme: scheme 'iob2'")
    for name in (name for name in options if name in values):
        needed = _unread(name, options)
        if needed is not None:
            raise OptionError(f"{name} {needed}")

    def struct(settings: type[S]) -> S:
        return settings(**{n: values[n] for n in fields_of(settings) if n in values})

    return Options(**general, objective=struct(objective), method=struct(method))


S = TypeVar("S", bound=Settings)

STRUCTS: Mapping[str, type[Settings]] = {
    "target": Gold,
    "features": Features,
    "structure": Chain,
    "reads": Reads,
    "dev": Dev,
    "run": Run,
}
"""Argument of `fstcrf.CRF.train` → its struct, whose fields are options."""
_ALWAYS = ("structure", "run")  # arguments without a bare value
_BARE = {"features": "template"}  # the option that a bare value is, if it has another name
_FLAT = {  # option → argument and field of a struct
    struct.flat_names.get(field.name, field.name): (argument, field.name)
    for argument, struct in STRUCTS.items()
    for field in dataclasses.fields(struct)
}
FLAT_NAMES = frozenset((*_FLAT, *DEFAULTS, "tape", "grammar", "start"))
"""Names of all options of `fstcrf.CRF.train` outside the structs."""
_CHOSEN: Mapping[str, type[Settings]] = {"objective": ObjectiveSettings, "method": MethodSettings}
_BASES = {**STRUCTS, **_CHOSEN}


def flat_options(
    arguments: Mapping[str, Any], structs: Mapping[str, type[Settings]] | None = None
) -> dict[str, Any]:
    """Return the options of a call by their flat names; options that are None are absent.

    `arguments` are arguments of `fstcrf.CRF.train`. A bare value is the first field of a struct.
    `structs` are the arguments that may be structs. OptionError: an argument is a
    struct of another kind, or an option is given twice.
    """
    structs = _BASES if structs is None else structs
    flat = {n: value for n, value in arguments.items() if n not in structs and value is not None}
    options = set(flat)
    for argument, base in structs.items():
        value = arguments.get(argument)
        if value is None:
            continue
        if not isinstance(value, Settings):
            if argument in _ALWAYS or (isinstance(value, type) and issubclass(value, Settings)):
                raise OptionError(f"{argument} is {value!r}, expected {_expected(argument)}")
            flat[_BARE.get(argument, argument)] = value
            continue
        if not isinstance(value, base):
            raise OptionError(
                f"{argument} is {type(value).__name__}(...), expected {_expected(argument)}"
            )
        if argument in CHOICES:
            flat[argument] = value.name
        for field in dataclasses.fields(value):
            option = value.flat_names.get(field.name, field.name)
            if field.name in value.fields_set and option in options:
                struct = f"{argument}={type(value).__name__}(...)"
                raise OptionError(f"{option} is given twice, as an option and in {struct}")
            setting = getattr(value, field.name)
            if field.name in value.fields_set and setting is not None:
                flat[option] = setting
    return flat


def _expected(argument: str) -> str:
    if argument in CHOICES:
        return f"settings of the {argument}, or one of {', '.join(map(repr, CHOICES[argument]))}"
    return f"{STRUCTS[argument].__name__}(...)"


def structured(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `fstcrf.CRF.train` for options with flat names.

    An option that is None is absent. OptionError: as for `checked_options`.
    """
    flat = {name: value for name, value in options.items() if value is not None}
    if unknown := sorted(flat.keys() - FLAT_NAMES):
        advice = not_there(unknown[0], FLAT_NAMES, DEFAULTS)
        raise OptionError(f"unknown training option {unknown[0]!r}; {advice}")
    reads = flat.get("reads", ())
    settings = checked_options(
        {name: value for name, value in flat.items() if name in DEFAULTS},
        reads=not isinstance(reads, Sequence) or bool(reads),
        dev=flat.get("dev") is not None,
        start=flat.get("start") is not None,
    )
    arguments: dict[str, Any] = {}
    structs: dict[str, dict[str, Any]] = {}
    for option, value in flat.items():
        if option in _FLAT:
            argument, field = _FLAT[option]
            structs.setdefault(argument, {})[field] = value
        elif option not in _SPECIAL or option in _UNSTRUCTURED:
            arguments[option] = value
    arguments |= {argument: STRUCTS[argument](**values) for argument, values in structs.items()}
    for choice, struct in (("objective", settings.objective), ("method", settings.method)):
        values = {n: flat[n] for n in fields_of(type(struct)) if n in flat}
        values = {n: value for n, value in values.items() if n not in _UNSTRUCTURED}
        if values:
            arguments[choice] = type(struct)(**values)
    return arguments


_UNSTRUCTURED = ("l2", "max_iterations")  # options of a method that are also arguments


def _checked(name: str, value: object) -> Any:
    if name in CHOICES:
        names = (
            OBJECTIVES
            if name == "objective"
            else dict.fromkeys(m for o in METHODS.values() for m in o)
        )
        if not isinstance(value, str) or value not in names:
            raise OptionError(f"{name} is {value!r}, expected one of {', '.join(map(repr, names))}")
        return value
    return fields_named(name)[0].checked(value)


def _method(objective: str, method: str) -> type[MethodSettings]:
    methods = METHODS[objective]
    if method not in methods:
        others = [other for other, names in METHODS.items() if method in names]
        raise OptionError(
            f"objective {objective!r} is trained by {', '.join(map(repr, methods))}, not "
            f"{method!r}, which is for objective {_either(others)}"
        )
    return methods[method]


def stored_options(values: Mapping[str, object]) -> Options:
    """Return the options of a record, without options that its run did not read."""
    return checked_options(_read(values))


def _read(values: Mapping[str, object]) -> dict[str, Any]:
    values = {_STORED.get(name, name): value for name, value in values.items()}
    options = {**DEFAULTS, **values}
    return {n: v for n, v in values.items() if v is not None and is_read(n, options)}


_STORED = {"features": "pairs"}  # names of options in records of earlier versions


def options_of(values: Mapping[str, object]) -> dict[str, Value]:
    """Return the options of a record that repeat its run: all values that are not defaults."""
    base = checked_options({name: values.get(name) for name in CHOICES}).named()
    return {n: v for n, v in _read(values).items() if v != (DEFAULTS if n in CHOICES else base)[n]}


_RENAMED = {"whole_labels": "partial", "warm_start": "start", "template": "features"}


def advice_on(name: str, parameters: Collection[str]) -> str:
    """Return advice about an unknown parameter of `fstcrf.CRF.train`: the struct that has it."""
    if name in _FLAT and _BARE.get(_FLAT[name][0]) != name:
        argument, field = _FLAT[name]
        return f"pass {argument}={STRUCTS[argument].__name__}({field}=…)"
    for objective, method in readers_of(name):
        classes = {"method": METHODS[objective][method], "objective": OBJECTIVES[objective]}
        argument = next(a for a, settings in classes.items() if name in fields_of(settings))
        return f"pass {argument}={classes[argument].__name__}({name}=…)"
    return not_there(name, parameters, ("those of its signature",))


def not_there(name: str, known: Collection[str], shown: Collection[str]) -> str:
    """Return advice about an unknown name: similar known names, or else the names in `shown`."""
    earlier = [now for before, now in _RENAMED.items() if before == name and now in known]
    near = earlier or closest(name, known, 3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"there are {', '.join(shown)}"


def optimiser_of(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    """Return the optimiser of a run that starts from theta, float64 [space.size]."""
    run = TrainingRun(problem, space, theta, settings.objective, settings.seed, threads)
    method, unit = settings.method, weight_unit(problem.weight)
    likelihood = isinstance(settings.objective, LikelihoodSettings)
    if unit == 1.0 or not (likelihood and isinstance(method, Penalised)):
        return method.optimiser(run)
    run = replace(run, problem=replace(problem, weight=problem.weight / unit))
    return Multiplied(divided(method, unit).optimiser(run), unit)


# --- In words -------------------------------------------------------------------------------------


def methods_text(name: str, description: str | None = None) -> str:
    """Return the methods that read an option: ``lbfgs, cg, gpd of mce``; empty if all do.

    With a description, only methods for which the option has this description.
    """
    runs = [r for r, f in readers_of(name).items() if description in (None, f.meta.description)]
    by_methods: dict[tuple[str, ...], list[str]] = {}
    for objective in METHODS:
        if methods := tuple(m for o, m in runs if o == objective):
            by_methods.setdefault(methods, []).append(objective)
    if len(runs) == sum(map(len, METHODS.values())):
        return ""
    names: list[str] = []
    for methods, objectives in by_methods.items():
        if "likelihood" in objectives:
            names += methods
        elif methods == tuple(METHODS[objectives[0]]):
            names += objectives
        elif not set(methods) <= set(names):
            names.append(f"{' and '.join(methods)} of {' and '.join(objectives)}")
    return ", ".join(names)


def defaults_text(name: str, description: str | None = None) -> str:
    """Return the default of an option, with the methods whose default differs."""
    if name in _GENERAL:
        default = _GENERAL[name].default
        return "" if default is None or isinstance(default, bool) else spoken(default)
    by_value: dict[Any, list[str]] = {}
    for (_, method), field in readers_of(name).items():
        if description in (None, field.meta.description):
            by_value.setdefault(field.default, []).append(method)
    if len(by_value) == 1:
        (default,) = by_value
        return "" if default is None or isinstance(default, bool) else spoken(default)
    default = max(by_value, key=lambda value: len(by_value[value]))
    parts = [spoken(default)]
    parts += [
        f"{', '.join(dict.fromkeys(methods))} {spoken(value)}"
        for value, methods in by_value.items()
        if value != default
    ]
    return "; ".join(parts)


def in_words(name: str, default_format: str = " (default {})") -> str:
    """Return a line with readers, description and default of an option."""
    parts = []
    for description in dict.fromkeys(f.meta.description or "" for f in fields_named(name)):
        readers, default = methods_text(name, description), defaults_text(name, description)
        text = (
            f"{readers}: {description}."
            if readers
            else f"{description[:1].upper()}{description[1:]}."
        )
        parts.append(text + (default_format.format(default) if default else ""))
    return "  ".join(parts)


def summary(name: str) -> str:
    """Return a description of an objective or a method: the first line of its docstring."""
    settings = {**OBJECTIVES, **METHODS["mce"], **METHODS["likelihood"]}
    text = (settings[name].__doc__ or "").splitlines()[0].rstrip(".")
    return text[:1].lower() + text[1:]
