"""``fstcrf info``: the properties of a model, and its largest weights."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fstcrf.cli.models import (
    load_deciding,
    load_decoder,
    pipeline_of,
    plan_text,
    tokens_deciding,
    whole,
)
from fstcrf.cli.options import command, input_options, shown
from fstcrf.cli.sources import InputFile, model_input
from fstcrf.errors import OptionError
from fstcrf.taggers import CRF, JointCRF, Tagger
from fstcrf.text.corpus import Sentence
from fstcrf.text.features import FeatureIndex

if TYPE_CHECKING:
    from fstcrf.ext.pipelines.trained import TrainedPipeline
    from fstcrf.ext.tokens import TokenDecoder


@command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="[INPUT]", default="-")
@shown("--top", "K", click.IntRange(min=0), 20, "Print the K largest weights.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--token",
    metavar="T",
    type=click.IntRange(min=0),
    help="Explain the label of this token of INPUT, counted from 0.",
)
@shown("--sentence", "N", click.IntRange(min=0), 0, "Its sentence, counted from 0.")
@input_options
def info(
    model_path: str, path: str, *, top: int, as_json: bool, token: int | None, **given: Any
) -> None:
    """Describe a model, or explain the label of a token.

    Prints labels, columns, templates, the course of training and the largest weights. With
    --token, show the features for and against each label at one token: for a composition,
    each tape while the other tapes keep their best labels; for a pipeline, each task.

    \b
    fstcrf info chunk.fstcrf
    fstcrf info chunk.fstcrf test.txt --sentence 3 --token 5
    """
    if token is not None:
        if as_json:
            raise click.UsageError("--json describes a model: it cannot go with --token")
        _explain(model_path, path, token, **given)
        return
    if path != "-" or given["sentence"] or given["columns"] or given["kind"]:
        raise click.UsageError("a text needs --token, the number of the token to explain")
    decoder = load_decoder(model_path)
    if decoder is not None:
        known = _decoder_facts(decoder)
        told = {"model": model_path, **known}
        plain = "\n".join([f"{model_path}: {known['decoder']}", *_listed(_decoder_lines(known))])
        click.echo(json.dumps(told, ensure_ascii=False) if as_json else plain)
        return
    deciding = load_deciding(model_path)
    model, pipeline = whole(deciding), pipeline_of(deciding)
    if pipeline is not None and not as_json:
        click.echo(_pipeline_text(pipeline))
        return
    if not isinstance(model, CRF | JointCRF):
        _tell_facts(model_path, model, as_json=as_json)
        return
    facts = _tagger_facts(model, top) if isinstance(model, CRF) else _composition_facts(model, top)
    if as_json:
        click.echo(json.dumps({"model": model_path, **facts}, ensure_ascii=False))
    elif "taggers" in facts:
        click.echo(_composition_text(model_path, facts))
    else:
        click.echo(_tagger_text(model_path, facts))


def _tell_facts(name: str, model: Tagger, *, as_json: bool) -> None:
    """Print the properties of a tagger of segments, or of one in a composition."""
    facts = {key: value for key, value in model._facts().items() if value is not None}
    if as_json:
        tapes = [{"tape": tape, "labels": known} for tape, known in model.label_sets.items()]
        click.echo(json.dumps({"model": name, "tapes": tapes, **facts}, ensure_ascii=False))
        return
    sizes = [("writes", f"{tape}: {len(ls)} labels") for tape, ls in model.label_sets.items()]
    lines = [*sizes, *((key, str(value)) for key, value in facts.items())]
    click.echo("\n".join([f"{name}: {model!r}", *_listed(lines)]))


def _tagger_text(name: str, facts: dict[str, Any]) -> str:
    lines = [f"{name}: {_headline(facts)}", *_listed(_lines(facts))]
    if facts["top"]:
        lines += ["", "largest weights"]
    for weight in facts["top"]:
        where = weight["attribute"] or "(labels only)"
        lines.append(f"  {weight['weight']:+9.4f}  {weight['slot']:<20} {where}")
    return "\n".join(lines)


def _listed(lines: list[tuple[str, str]]) -> list[str]:
    return [f"  {name:<11} {text}" for name, text in lines]


# --- Decoders -------------------------------------------------------------------------------------


def _decoder_facts(decoder: TokenDecoder) -> dict[str, Any]:
    known, grammar = decoder.to_json(), decoder.grammar
    calibration = decoder.calibration
    return {
        "decoder": "a decoder of a token classifier's logits",
        **{name: known[name] for name in ("labels", "scheme", "pieces", "temperature", "biases")},
        "types": decoder.types,
        "thresholds": known["thresholds"],
        "grammar": [] if grammar is None else [one.name for one in grammar.bind(decoder.labels)],
        "calibration": None if calibration is None else calibration.kind,
    }


def _decoder_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    added = [f"{name} {value:g}" for name, value in facts["biases"].items() if value]
    lines = [
        ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
        ("spans", f"{facts['scheme']}: {', '.join(facts['types'])}"),
        ("pieces", facts["pieces"]),
        ("temperature", f"{facts['temperature']:g}"),
        ("biases", ", ".join(added) or "none"),
        *(("grammar", name) for name in facts["grammar"]),
    ]
    if facts["thresholds"] is not None:
        least = facts["thresholds"].items()
        shown = [f"{kind} {'never' if p is None else f'{p:g}'}" for kind, p in least]
        lines.append(("thresholds", ", ".join(shown)))
    if facts["calibration"] is not None:
        lines.append(("calibration", facts["calibration"]))
    return lines


# --- Compositions ---------------------------------------------------------------------------------


def _composition_facts(model: JointCRF, top: int) -> dict[str, Any]:
    return {
        "tapes": [{"tape": tape, "labels": known} for tape, known in model.label_sets.items()],
        "normalize": model.normalize,
        "weights": model.weights,
        "grammar": [acceptor.name for acceptor in model.conjuncts],
        "plan": None if model._conditional else asdict(model.plan()),
        "plan_text": plan_text(model),
        "taggers": [_tagger_facts(tagger, top) for tagger in model.taggers],
    }


def _composition_text(name: str, facts: dict[str, Any]) -> str:
    parts = facts["taggers"]
    count = f"{len(parts)} taggers" if len(parts) > 1 else "a tagger"
    weights = zip(parts, facts["weights"], strict=True)
    lines = [("writes", f"{t['tape']}: {len(t['labels'])} labels") for t in facts["tapes"]]
    lines.append(("normalize", facts["normalize"]))
    lines.append(("weights", ", ".join(f"{part['tape']} {w:g}" for part, w in weights)))
    lines += [("grammar", conjunct) for conjunct in facts["grammar"]]
    plan = [f"  {line}" for line in facts["plan_text"].splitlines()]
    blocks = [
        "\n".join([f"{name}: a composition of {count}", *_listed(lines)]),
        "\n".join(["plan", *plan]),
        *(_tagger_text(f"tagger of {part['tape']}", part) for part in parts),
    ]
    return "\n\n".join(blocks)


# --- Taggers --------------------------------------------------------------------------------------


def _tagger_facts(model: CRF, top: int) -> dict[str, Any]:
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
    penalty = f", l2 {options['l2']:g}" if options["method"] in {"lbfgs", "l2sgd", "asgd"} else ""
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


def _pipeline_text(model: TrainedPipeline) -> str:
    composition = model.composition
    lines = [f"decides by {model.way}; joint decisions: {composition.normalize}"]
    lines += [f"grammar: {acceptor.name}" for acceptor in composition.conjuncts]
    for tagger, weight in zip(composition.taggers, composition.weights, strict=True):
        reads = ", ".join(tape.name for tape in tagger.reads)
        lines.append(
            f"{tagger.tape}: {len(tagger.labels)} labels, {len(tagger.theta):,} weights, "
            f"weight {weight:g}{f', reads {reads}' * bool(reads)}"
        )
        if (record := tagger.record) is not None:
            score = record.dev_score
            held = "" if score is None else f"; held-out score {100 * score:.2f}"
            held += f" at iteration {record.best_iteration}" * (score is not None)
            lines.append(
                f"  {record.sentences:,} sentences, {record.tokens:,} tokens; "
                f"{record.iterations} iterations ({record.reason}){held}"
            )
    return "\n".join(lines)


# --- One token ------------------------------------------------------------------------------------


def _explain(model_path: str, path: str, token: int, *, sentence: int, **how: Any) -> None:
    model = tokens_deciding(model_path)
    source = model_input(whole(model), path=path, **how)
    chosen = _sentence(source, path, sentence)
    found = model.explain(chosen, token)
    words = chosen["form" if source.conllu else chosen.columns[0]]
    click.echo(" ".join(f"[{w}]" if t == token else w for t, w in enumerate(words)))
    click.echo(str(found))


def _sentence(source: InputFile, path: str, number: int) -> Sentence:
    seen = 0
    for batch in source.stream(path):
        if number < seen + len(batch):
            return batch[number - seen]
        seen += len(batch)
    raise OptionError(f"--sentence {number} of {seen} sentences; they count from 0")
