"""The recipes; add one here. What a recipe needs is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping

from fstcrf.recipes.recipe import Recipe, Result, Setting

__all__ = ["RECIPES"]


def _usaddress(setting: Setting) -> Result:
    from fstcrf.recipes.usaddress import run  # noqa: PLC0415

    return run(setting)


def _partial_feedback(setting: Setting) -> Result:
    from fstcrf.recipes.partial_feedback.recipe import run  # noqa: PLC0415

    return run(setting)


def _shallow_parsing(setting: Setting) -> Result:
    from fstcrf.recipes.shallow_parsing.recipe import run  # noqa: PLC0415

    return run(setting)


def _mce(setting: Setting) -> Result:
    from fstcrf.recipes.classification_error.recipe import run  # noqa: PLC0415

    return run(setting)


def _seminars(setting: Setting) -> Result:
    from fstcrf.recipes.seminars.recipe import run  # noqa: PLC0415

    return run(setting)


def _consistency(setting: Setting) -> Result:
    from fstcrf.recipes.consistency.recipe import run  # noqa: PLC0415

    return run(setting)


_ALL = (
    Recipe(
        "usaddress",
        "US addresses: the model inside usaddress, under grammars that its output must obey",
        needs=("usaddress/*.xml",),
        paper="usaddress",
        run=_usaddress,
        packages=("usaddress", "python-crfsuite"),
    ),
    Recipe(
        "shallow-parsing",
        "Noun-phrase chunking: a second-order CRF by every optimiser",
        needs=("conll2000/train.txt", "conll2000/test.txt"),
        paper="Sha and Pereira (2003)",
        run=_shallow_parsing,
        packages=("matplotlib", "scipy"),
    ),
    Recipe(
        "partial-feedback",
        "Noun-phrase chunking learnt from rewards for samples",
        needs=("conll2000/train.txt", "conll2000/test.txt"),
        paper="Sokolov et al. (2016)",
        run=_partial_feedback,
    ),
    Recipe(
        "mce",
        "Chunking and entities trained on smooth counts of errors, and on F",
        needs=(
            "conll2000/train.txt",
            "conll2000/test.txt",
            "conll2003/eng.train",
            "conll2003/eng.testa",
            "conll2003/eng.testb",
        ),
        paper="Suzuki et al. (2006)",
        run=_mce,
        packages=("scipy",),
    ),
    Recipe(
        "seminars",
        "Seminar announcements: a field tagger alone, after an entity tagger, and with it",
        needs=(
            "seminars/docs/*.txt",
            "conll2003/eng.train",
            "conll2003/eng.testb",
            "ud_english_ewt/*train.conllu",
            "ud_english_ewt/*test.conllu",
        ),
        paper="Sutton and McCallum (2005)",
        run=_seminars,
        packages=("scipy", "matplotlib"),
    ),
    Recipe(
        "consistency",
        "Named entities that agree across a document, by Gibbs sampling",
        needs=(
            "conll2003/eng.train",
            "conll2003/eng.testa",
            "conll2003/eng.testb",
            "seminars/docs/*.txt",
        ),
        paper="Finkel et al. (2005)",
        run=_consistency,
    ),
)

RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
"""The recipes by name."""
