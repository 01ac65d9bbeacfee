"""The templates that there are to choose from.

===============  =======================================
Template         what `CRF.train` takes as one
named            templates by name, read
check_templates  they go with the data
===============  =======================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fstcrf.corpus import Corpus
from fstcrf.errors import OptionError, TemplateError
from fstcrf.features import TemplateSet
from fstcrf.features.template import as_templates, is_template_text, tape_column

__all__ = ["Template", "check_templates", "named"]

Template = TemplateSet | str | os.PathLike[str]


def check_templates(
    templates: Mapping[str, TemplateSet],
    data: Any,
    target: str | Sequence[Sequence[str]],
    tapes: Sequence[str],
) -> None:
    """Refuse at once what only a later trial would stumble over.

    Raises
    ------
    OptionError
        Columns without a template, or attribute lists with one.
    TemplateError
        A column that is not there, or the target itself.
    """
    if not isinstance(data, Corpus):
        if templates:
            raise OptionError("a template needs columns, not attribute lists")
        return
    if not templates:
        raise OptionError("columns need a feature template: template='chunking.tpl'")
    columns = [*data.columns, *map(tape_column, tapes)]
    for name, template in templates.items():
        resolved = template.resolved(columns, data=data.source)
        if isinstance(target, str) and target in resolved.columns:
            raise TemplateError(f"{name}: a template reads the target column {target!r} itself")


def named(
    template: Template | Sequence[Template] | Mapping[str, Template] | None,
) -> dict[str, TemplateSet]:
    """Return templates by name, read.

    Raises
    ------
    OptionError
        One of them is given twice.
    TemplateError, OSError
        One that cannot be read.
    """
    if template is None:
        return {}
    if isinstance(template, Mapping):
        given = [(str(name), one) for name, one in template.items()]
    else:
        single = isinstance(template, TemplateSet | str | os.PathLike)
        several: Sequence[Any] = [template] if single else list(template)  # type: ignore[arg-type]
        given = [(_name(one, i), one) for i, one in enumerate(several, 1)]
    names = [name for name, _ in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"template {twice[0]} is given twice")
    return {name: as_templates(one) for name, one in given}


def _name(template: Template, number: int) -> str:
    if isinstance(template, TemplateSet) or is_template_text(template):
        return str(number)
    return os.fspath(template)
