"""``fstcrf info``: what a model is, and its largest weights.

====  =============
info  the command
====  =============
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fstcrf.model import CRF

__all__ = ["info"]


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.option(
    "--top",
    metavar="K",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Print the K largest weights, by absolute value.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(model_path: str, *, top: int, as_json: bool) -> None:
    """Describe a model: labels, columns, templates, training, largest weights."""
    from fstcrf.model import load

    facts = _facts(load(model_path), top)
    if as_json:
        click.echo(json.dumps({"model": model_path, **facts}, ensure_ascii=False))
        return
    click.echo(f"{model_path}: {_headline(facts)}")
    for name, text in _lines(facts):
        click.echo(f"  {name:<11} {text}")
    if facts["top"]:
        click.echo("\nlargest weights")
    for weight in facts["top"]:
        where = weight["attribute"] or "(labels only)"
        click.echo(f"  {weight['weight']:+9.4f}  {weight['slot']:<20} {where}")


def _facts(model: CRF, top: int) -> dict[str, Any]:
    import msgspec

    from fstcrf.features import FeatureIndex

    index = model.index
    facts: dict[str, Any] = {
        "tape": model.tape,
        "labels": model.labels,
        "states": model.topology.n_states,
        "columns": model.columns,
        "reads": [{"tape": tape.name, "labels": tape.labels} for tape in model.reads],
        "attributes": index.n_node_rows + index.n_arc_rows,
        "weights": model.space.size,
        "training": msgspec.to_builtins(model.record),
        "top": [msgspec.to_builtins(weight) for weight in model.top_features(top)],
    }
    if isinstance(index, FeatureIndex):
        facts["templates"] = str(index.templates).splitlines()
        facts["columns_read"] = [str(name) for name in index.templates.columns]
    return facts


def _headline(facts: dict[str, Any]) -> str:
    record = facts["training"]
    order = "" if record is None else f" of order {record['options']['order']}"
    return f"a conditional random field{order} with {facts['weights']:,} weights"


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("writes", f"{facts['tape']}: {len(facts['labels'])} labels"),
        ("labels", " ".join(facts["labels"])),
        ("states", f"{facts['states']:,}"),
        ("attributes", f"{facts['attributes']:,}"),
    ]
    if "templates" in facts:
        lines += [
            ("reads", f"{', '.join(facts['columns_read'])} of {', '.join(facts['columns'])}"),
            ("templates", " ".join(facts["templates"])),
        ]
    lines += [("tape", f"{t['tape']}: {len(t['labels'])} labels") for t in facts["reads"]]
    record = facts["training"]
    if record is None:
        return lines
    options = record["options"]
    penalty = "" if options["method"] == "perceptron" else f", l2 {options['l2']:g}"
    lines += [
        ("trained on", f"{record['sentences']:,} sentences, {record['tokens']:,} tokens"),
        ("method", f"{options['method']}{penalty}, {record['iterations']} iterations"),
        ("objective", f"{record['objective']:,.4f}"),
        ("ended by", record["reason"]),
    ]
    if record["dev_score"] is not None:
        dev = f"{100 * record['dev_score']:.2f} at iteration {record['best_iteration']}"
        lines.append(("dev", dev))
    return lines
