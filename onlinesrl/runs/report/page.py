"""The page: main figures, sections, and the configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.core.io.atomic_write import plain
from onlinesrl.core.online.temperature import scaled_by
from onlinesrl.runs.config.fingerprint import leaves
from onlinesrl.runs.report.curves import learning_curve, regret_bound, reliability_curve
from onlinesrl.runs.report.examples import ExampleRow, examples_section
from onlinesrl.runs.report.html import (
    WRITE,
    Figures,
    Markup,
    count,
    figure,
    join,
    number,
    or_dash,
    paragraph,
    percent,
    section,
    table,
    tag,
)
from onlinesrl.runs.report.label_sets import set_coverage
from onlinesrl.runs.report.scores import by_predicate, by_value, confusion
from onlinesrl.runs.report.weights import WeightRow, weights_section
from onlinesrl.runs.report.world import cost_curve

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_ROUTES = {
    "elimination": "exact reductions, without search",
    "branch-and-bound": "a search with bounds by message passing, to its end",
    "ilp": "a 0-1 integer programme, solved to optimality",
    "incremental": "the answer from before, solved again where the change touched it",
    "admm": "convex optimisation, until a lower bound proves the energy minimal",
}

_LABELLED = "the units to label got the right label"


def write_report(
    path: Path,
    *,
    title: str,
    summary: Figures,
    metrics: Sequence[Figures],
    weights: Sequence[WeightRow],
    examples: Sequence[ExampleRow],
    changed: Collection[str] = (),
    entities: Markup | None = None,
) -> None:
    """Write the report of a run.

    ``summary`` and ``metrics`` are as in summary.json and metrics.jsonl, ``weights`` are sorted, heaviest
    first, ``examples`` are a few, ``changed`` are the keys that the configuration sets; all may be empty.
    ``entities`` is their section, in a run over records.
    Text from the stream or the rules is escaped; figures that are missing or not finite are left out.
    Raises OSError.
    """
    last = metrics[-1] if metrics else {}
    figures = {**last, **{key: value for key, value in summary.items() if value is not None}}
    config, soft = summary.get("config") or {}, "mae" in figures
    bad = number(figures.get("bad"))
    words = (
        f"{count(bad or 0)} bad examples are in deadletter.jsonl, with their bytes, place and reason; "
        "they were not learned from."
    )
    body = join(
        _figures(figures),
        cost_curve(metrics) if config.get("world") else learning_curve(metrics),
        entities,
        reliability_curve(last),
        by_value(last),
        confusion(last),
        by_predicate(last),
        set_coverage(metrics, config.get("inference") or {}),
        examples_section(examples, soft),
        regret_bound(metrics, config.get("learner") or {}),
        weights_section(weights, soft),
        _solver(figures),
        None if bad is None else section("Bad examples", paragraph(words if bad else "None.")),
        _configuration(config, summary, changed),
    )
    with open(path, "wb", opener=plain) as file:
        file.write(page(title, body).encode(errors="xmlcharrefreplace"))


def curves_page(metrics: Sequence[Figures], update: str) -> str:
    """Return a page of the learning curve and the regret bound, from lines of metrics."""
    return page(
        "Curves",
        join(
            learning_curve(metrics),
            reliability_curve(metrics[-1] if metrics else {}),
            regret_bound(metrics, {"update": update}),
        ),
    )


def page(title: str, body: Markup) -> str:
    """Return a whole page, with its style."""
    style = files("onlinesrl.runs.report").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", tag("h1", title), body), lang="en")


def _figures(figures: Figures) -> Markup:
    """Return the section of the main figures."""
    learned, dropped = (number(figures.get(key)) or 0 for key in ("updates", "dropped_weights"))
    precision, recall = (or_dash(figures.get(key), percent) for key in ("precision", "recall"))
    right = "the atoms are predicted right" if "mae" in figures else _LABELLED
    meanings = {
        "examples": f"{count(learned)} of them learned from",
        "mae": "between the values of the atoms and the true ones",
        "f1": f"{precision} of the atoms it predicted are true, {recall} of the true ones were found",
        "accuracy": f"of {right}",
        "auc": "of the pairs of a true and a false atom are in the right order",
        "average_precision": "over all thresholds of the scores",
        "cll": "of an atom's truth, given its probability, on average",
        "brier": "the mean squared error of the atoms' probabilities",
        "calibration_error": "between probabilities and shares of true atoms, on average",
        "entities": "of the records that are there, at the end",
        "facts": "observed atoms and targets, at the end",
        "changed_atoms": "answers that changed, over all changes",
        "touched_rules": "added, replaced or removed by changes",
        "exact": "of the examples have no wrong atom",
        "hamming": "wrong atoms per example, on average",
        "weights": f"learned, and {count(dropped)} dropped past learner.max_weights",
        "examples_per_second": f"{or_dash(figures.get('seconds'), figure)} seconds in all",
    }
    tiles = []
    for key, meaning in meanings.items():
        if (value := number(figures.get(key))) is not None:
            entry = METRIC_TABLE.get(key)
            name = "Examples per second" if entry is None else entry.title
            text = count(value) if entry is None else WRITE[entry.format](value)
            cells = tag("dt", name), tag("dd", text, class_="value"), tag("dd", meaning)
            tiles.append(tag("div", *cells))
    for key, value in (figures.get("own") or {}).items():
        cells = tag("dt", key), tag("dd", or_dash(value, figure), class_="value"), tag("dd", "own")
        tiles.append(tag("div", *cells))
    lead = paragraph(
        "Each record changed the facts of one world, and its answer followed."
        if (figures.get("config") or {}).get("world")
        else "Every example was predicted before it was learned from, so all figures are about unseen "
        "examples."
    )
    temperature = number(figures.get("temperature"))
    scaled = None if temperature is None else paragraph(f"The {scaled_by(temperature)}.")
    return join(lead, tag("dl", *tiles, class_="figures"), scaled)


def _solver(figures: Figures) -> Markup | None:
    """Return the section of solver routes and certified answers."""
    routes: Mapping[str, object] = figures.get("routes") or {}
    counts = {route: number(solved) or 0.0 for route, solved in routes.items()}
    if not counts:
        return None
    total = sum(counts.values()) or 1.0
    rows = [
        [
            join(tag("code", route), f" \u2013 {_ROUTES[route]}" if route in _ROUTES else None),
            count(solved),
            percent(solved / total),
        ]
        for route, solved in counts.items()
    ]
    certified = number(figures.get("certified"))
    audited = number(figures.get("audited")) or 0
    checked = f"{count(audited)} were solved again as a whole, and compared." if audited else ""
    words = "How probabilities were computed."
    if certified is not None:
        proved = f"{count(certified)} answers are certified to be optimal."
        words = f"How the most probable states were found. {proved} {checked}"
    return section(
        "What the solver did", paragraph(words), table(("route", "solved", "share"), rows)
    )


def _configuration(config: Figures, summary: Figures, changed: Collection[str]) -> Markup | None:
    """Return the configuration, key by key; those ``changed`` are highlighted."""
    if not config:
        return None
    rows = [
        tag(
            "tr",
            tag("td", tag("code", key)),
            tag("td", tag("code", _value(value))),
            class_="changed" if key in changed else "",
        )
        for key, value in leaves(config)
    ]
    version = summary.get("version")
    words = paragraph(
        f"Version {version}." if version else None,
        " Keys in bold are set by the configuration; the others have their defaults."
        if changed
        else None,
    )
    return section("Configuration", words, tag("div", tag("table", *rows), class_="scroll"))


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    return "\u2013" if value is None else str(value)
