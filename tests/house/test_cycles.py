"""Modules of the core do not import each other, not even when they are first used."""

from __future__ import annotations

import ast

import pytest

from tests.house.cycles import cycles, imports, modules

KNOWN = [
    ["fstcrf.lattices.batch", "fstcrf.lattices.emissions.batch"],
    [
        *(
            f"fstcrf.machines.grammar.{name}"
            for name in ("algebra", "binding", "builtin", "expansion", "grammar", "language")
        ),
        "fstcrf.machines.relations",
    ],
    [  # what taggers do by operators (&, @) and CRF.train
        *(f"fstcrf.taggers.{name}" for name in ("composition", "crf", "joint", "product")),
        *(f"fstcrf.taggers.{name}" for name in ("tagger", "tagmaps", "tokens", "training")),
    ],
]
"""Cycles that are left. They may only become fewer and smaller."""


def test_no_cycle_is_new() -> None:
    found = cycles(imports(modules()))
    new = [names for names in found if not any(set(names) <= set(known) for known in KNOWN)]
    assert new == [], "modules import each other: move what both need below both"
    assert found == KNOWN, "a cycle has become smaller: make KNOWN smaller, too"


FORMS = {
    "at the head": "from fstcrf.b import f",
    "in a function": "def g():\n    from fstcrf.b import f",
    "by name": 'b = LazyModule("fstcrf.b")',
    "by name, of a package": 'p = LazyModule("fstcrf.p")\ndef g(): p.f()',
    "for types, else by name": "if TYPE_CHECKING:\n    from fstcrf import b\nelse:\n"
    '    b = LazyModule("fstcrf.b")',
    "a name of a package": "from fstcrf.p import f",
    "a package": "from fstcrf import p\np.f()",
    "a method of another module": 'class A:\n    f = StaticFunction("fstcrf.b", "f", x)',
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_an_import_counts(form: str) -> None:
    texts = {
        "fstcrf": "",
        "fstcrf.a": FORMS[form],
        "fstcrf.b": "from fstcrf import a",
        "fstcrf.p": "if TYPE_CHECKING:\n    from fstcrf.p.c import f as f",
        "fstcrf.p.c": "import fstcrf.b\nfrom fstcrf.b import f",
    }
    trees = {name: ast.parse(text) for name, text in texts.items()}
    (found,) = cycles(imports(trees))
    assert {"fstcrf.a", "fstcrf.b"} <= set(found)


def test_imports_for_type_checkers_do_not_count() -> None:
    text = "if TYPE_CHECKING:\n    from fstcrf import b"
    trees = {"fstcrf.a": ast.parse(text), "fstcrf.b": ast.parse("from fstcrf import a")}
    assert cycles(imports(trees)) == []
