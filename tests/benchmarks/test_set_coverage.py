"""Sets of labels, and of answers, have the truth as often as asked for, where a fixed threshold loses it."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from msgspec import json
from msgspec.structs import replace

import onlinesrl as srl
from onlinesrl.core.evaluation.label_sets import ANSWERS
from onlinesrl.core.example import decode, named_atoms
from onlinesrl.mln.online.answer_sets import answers
from onlinesrl.stream.schedule import rare_collections
from streams.papers import convert
from streams.papers.defaults.real_data import features, tabbed
from tests.benchmarks.measure import in_turns, ratio, show, sizes
from tests.support.best_states import best_states
from tests.support.paths import REPO, SHARED

DATA = SHARED / "data"
encode = json.encode
COVERAGE = 0.95
TAGS = """
Word(i, word)
End(i, ending)
Before(i, word)
Next(i, i)
Tag(i, tag!)
Word(i, +w) => Tag(i, +t)
End(i, +e) => Tag(i, +t)
Before(i, +w) => Tag(i, +t)
Next(i, j) ^ Tag(i, +s) ^ Tag(j, +t)
"""
TRUST = """
Is(value, rating)
Distrust(rating)
Is(+v, r) => Distrust(r)
-3 Distrust(r)
"""


class Stream(NamedTuple):
    model: str
    query: str
    examples: Iterable[srl.Example]


def questions(changed_after: float = math.inf) -> Iterator[list[tuple[str, str]]]:
    """The words of ATIS with their parts of speech; after so many questions, three pairs change names."""
    swapped = {"ADP": "NOUN", "DET": "PROPN", "VERB": "PRON"}
    swapped |= {other: one for one, other in swapped.items()}
    parts = (tabbed(DATA / "ud_atis" / f"{part}.tsv") for part in ("train", "dev", "test"))
    for n, (words, tags) in enumerate(chain.from_iterable(parts)):
        names = swapped if n >= changed_after else {}
        yield [(word, names.get(tag, tag)) for word, tag in zip(words, tags, strict=True)]


def fields() -> Iterator[list[tuple[str, str]]]:
    """The words of CiteSeer's citations with their fields, topic by topic."""
    for path in sorted((DATA / "citeseer").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            of = json.decode(line)
            yield [(word, x or "-") for word, x in zip(of["tokens"], of["labels"], strict=True)]


def atis(changed_after: float = math.inf) -> Stream:
    """Tags of words."""
    read = [*questions(changed_after)]
    tags = sorted({tag for rows in read for _, tag in rows})

    def examples() -> Iterator[srl.Example]:
        for n, rows in enumerate(read):
            words = ["", *(word for word, _ in rows)]
            places = range(len(rows))
            yield srl.Example(
                id=n,
                evidence={
                    "Word": [[i, words[i + 1]] for i in places],
                    "End": [[i, words[i + 1][-3:]] for i in places],
                    "Before": [[i, words[i]] for i in places],
                    "Next": [[i, i + 1] for i in places[:-1]],
                },
                truth={"Tag": [[i, rows[i][1]] for i in places]},
            )

    return Stream(f"tag = {{{', '.join(tags)}}}\n{TAGS}", "Tag", examples())


def citeseer() -> Stream:
    """Fields of citations, topic by topic."""
    model = (REPO / "streams" / "citations" / "segmentation.mln").read_text(encoding="utf-8")
    examples = convert.DATASETS["citeseer"](DATA / "citeseer")
    return Stream(model, "InField", (srl.Example(**one) for one in examples))


def caviar() -> Stream:
    """When two people meet, in windows of 20 frames."""
    model = (REPO / "streams" / "meetings" / "meetings.mln").read_text(encoding="utf-8")
    windows = (
        srl.Example(**one)
        for path in sorted((DATA / "caviar").glob("*.db"))
        for pair in srl.read(path)
        for one in convert.from_caviar.windows(path.stem, pair.evidence, frames=20)
    )
    return Stream(model, "HoldsAt", windows)


def bitcoin() -> Stream:
    """Which ratings are negative, by those that both people got and gave before."""

    def bin_of(name: str, negative: int, count: int) -> list[str]:
        share = "none" if not count else str(min(3, math.ceil(4 * negative / count)))
        return [f"{name} {share}", f"{name} {share} of {min(4, count.bit_length())}"]

    def examples() -> Iterator[srl.Example]:
        history: dict[tuple[str, str], list[int]] = {}
        with (DATA / "bitcoin_otc" / "ratings.csv").open(encoding="utf-8") as file:
            for n, row in enumerate(csv.DictReader(file)):
                negative, values = int(row["weight"]) < 0, list[str]()
                keys = [("by", row["v1"]), ("of", row["v2"]), ("about", row["v1"])]
                for kind, who in keys:
                    past = history.get((kind, who), [0, 0])
                    values += bin_of(kind, *past)
                truth = {"Distrust": [["r"]] if negative else []}
                evidence = {"Is": [[value, "r"] for value in values]}
                yield srl.Example(id=n, evidence=evidence, truth=truth)
                for kind, who in (("by", row["v1"]), ("of", row["v2"]), ("about", row["v2"])):
                    past = history.setdefault((kind, who), [0, 0])
                    past[0] += negative
                    past[1] += 1

    return Stream(TRUST, "Distrust", examples())


SEQUENCES: dict[str, Callable[[], Iterator[list[tuple[str, str]]]]] = {
    "CiteSeer, fields": fields,
    "ATIS, tags": questions,
    "ATIS, tags that change": partial(questions, changed_after=2500),
}
STREAMS = {
    "CiteSeer, fields": citeseer,
    "ATIS, tags": atis,
    "ATIS, tags that change": partial(atis, changed_after=2500),
    "Bitcoin OTC, distrust": bitcoin,
}


def learner_of(stream: Stream, **more: Any) -> srl.OnlineLearner:
    inference = {"engine": "mcsat", **more}
    return srl.OnlineLearner(
        stream.model, stream.query, update="log-likelihood", inference=inference
    )


def misses(line: Any, true: set[Any], query: str) -> tuple[int, int]:
    """How many sets of a line of predictions lack the truth, and how many there are."""
    if ANSWERS in line.get("sets", {}):
        places = line["sets"][ANSWERS][0]["labels"]
        states = best_states(line)
        place = states.index(true) + 1 if true in states[:-1] else None
        return int(place not in places), 1
    truths = {args[0]: args[1] for _, args in true}
    sets = line["sets"][query]
    wrong = sum(truths.get(str(one["args"][0])) not in map(_text, one["labels"]) for one in sets)
    return wrong, len(sets)


def _text(label: Any) -> str | None:
    return None if label is None else str(label)


def probabilities(example: srl.Example, line: Any, query: str) -> list[float]:
    """The probability of each unit's true label; none of a group's is 1 - their sum."""
    true = {tuple(map(str, atom)) for atom in example.truth[query]}
    values = {tuple(map(str, atom.args)): atom.value for atom in line.marginals[query]}
    units = [tuple(map(str, one.args)) for one in line.sets[query]]
    if query == "Distrust":
        return [values[unit] if unit in true else 1 - values[unit] for unit in units]
    sums, found = dict.fromkeys(units, 0.0), {atom[:1]: values[atom] for atom in true}
    for atom, p in values.items():
        sums[atom[:1]] += p
    return [found[unit] if unit in found else 1 - sums[unit] for unit in units]


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("name", STREAMS)
@sizes("count, thousand", (60, 30), (None, 1000))
def test_sets_have_the_truth_as_often_as_asked_over_each_thousand_examples(
    name: str, count: int | None, thousand: int
) -> None:
    """The fixed threshold is right on the first thousand examples, as a calibration set has it."""
    stream = STREAMS[name]()
    learner, examples = learner_of(stream, coverage=COVERAGE), islice(stream.examples, count)
    shares, sizes_of, fixed, least = list[float](), list[float](), list[float](), 0.0
    before = 0, 0.0, 0.0
    while part := [*islice(examples, thousand)]:
        lines = [prediction.line for prediction in learner.learn_many(part)]
        pairs = zip(part, lines, strict=True)
        scores = [p for one, line in pairs for p in probabilities(one, line, stream.query)]
        least = least or sorted(scores)[math.floor((1 - COVERAGE) * (len(scores) + 1)) - 1]
        total = learner.metrics["sets"][stream.query]
        after = total["units"], total["coverage"] * total["units"], total["size"] * total["units"]
        units, held, labels = (b - a for a, b in zip(before, after, strict=True))
        before = after
        assert units == len(scores)
        if len(part) == thousand:
            shares.append(held / units)
            sizes_of.append(labels / units)
            fixed.append(sum(p >= least for p in scores) / len(scores))
    rows = [
        ("coverage", min(shares), max(shares)),
        ("labels in a set", min(sizes_of), max(sizes_of)),
        ("coverage of a fixed threshold", min(fixed), max(fixed)),
    ]
    show(f"{name}: {len(shares)} times {thousand} examples", ("", "least", "most"), rows)
    assert abs(total["coverage"] - COVERAGE) <= 0.2
    if count is None:
        assert all(abs(share - COVERAGE) <= 0.01 for share in shares)
        if len(shares) > 1:
            assert any(abs(share - COVERAGE) > 0.01 for share in fixed)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize(
    "name", ["CiteSeer, fields", "CAVIAR, meetings", "ATIS, tags", "ATIS, tags that change"]
)
@pytest.mark.parametrize("best", [5, 20])
@sizes("count, thousand", (60, 30), (None, 1000))
def test_sets_of_answers_have_the_truth_as_often_as_asked_over_each_thousand_examples(
    name: str, best: int, count: int | None, thousand: int
) -> None:
    """The fixed threshold is right on the first thousand; CAVIAR has 258 windows."""
    stream = STREAMS[name]() if name in STREAMS else caviar()
    learner = learner_of(stream, engine="mpe", best=best, coverage=COVERAGE)
    examples, least = islice(stream.examples, count), 0.0
    blocks = list[tuple[float, ...]]()
    while part := [*islice(examples, thousand)]:
        lines = [prediction.line for prediction in learner.learn_many(part)]
        scores, held, sizes_of, everything, empty = list[float](), 0, 0, 0, 0
        for one, line in zip(part, lines, strict=True):
            true, predicted = named_atoms(one.truth), named_atoms(line.predicted)
            (unit,) = answers(line, best, (true - predicted, predicted - true))[ANSWERS]
            size = len(line.sets[ANSWERS][0].labels)
            scores.append(unit.probabilities[unit.true])
            held += unit.true < size
            sizes_of += size
            everything += size == len(unit.labels)
            empty += not size
        least = least or sorted(scores)[math.floor((1 - COVERAGE) * (len(scores) + 1)) - 1]
        counts = held, sizes_of, everything, empty, sum(p >= least for p in scores)
        blocks.append((len(part), *(n / len(part) for n in counts)))
    head = ("", "examples", "coverage", "answers in a set", "everything", "empty", "fixed")
    show(f"{name}, best: {best}", head, [(str(n), *row) for n, row in enumerate(blocks)])
    told = learner.metrics["sets"][ANSWERS]
    assert told["units"] == sum(row[0] for row in blocks)
    assert told["coverage"] == pytest.approx(sum(row[0] * row[1] for row in blocks) / told["units"])
    assert abs(told["coverage"] - COVERAGE) <= (0.2 if count else 0.01)
    if count is None:
        whole = [row for row in blocks if row[0] == thousand]
        assert all(abs(row[1] - COVERAGE) <= 0.01 for row in whole)
        if len(whole) > 1:
            assert any(abs(row[-1] - COVERAGE) > 0.01 for row in whole)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("name", ["CiteSeer, fields", "ATIS, tags", "ATIS, tags that change"])
@pytest.mark.parametrize("options", [{}, {"engine": "mpe", "best": 5}], ids=["labels", "answers"])
@sizes("count, thousand", (60, 30), (None, 1000))
def test_sets_of_shards_have_the_truth_as_often_as_asked_over_each_thousand_examples(
    name: str, options: dict[str, Any], count: int | None, thousand: int, tmp_path: Path
) -> None:
    """Beside a run without shards; rounds have a tenth of a thousand. P shards may be off P times as far."""
    stream, model, source = STREAMS[name](), tmp_path / "model.mln", tmp_path / "source.jsonl"
    examples = [*islice(stream.examples, count)]
    model.write_text(stream.model, encoding="utf-8")
    source.write_bytes(b"".join(encode(one) + b"\n" for one in examples))
    truth = {str(one.id): named_atoms(one.truth) for one in examples}
    config = {"model": str(model), "query": stream.query, "source": {"path": str(source)}}
    config |= {"learner": {"update": "log-likelihood"}}
    config |= {"inference": {"engine": "mcsat", "coverage": COVERAGE, **options}}
    rows, worst = list[tuple[Any, ...]](), list[float]()
    for shards in (None, 1, 2, 4):
        part = math.ceil(thousand / 10 / (shards or 1))
        cut = {"shards": shards, "round": part, "workers": 1}
        output = tmp_path / str(shards)
        summary = srl.run(
            config | {"output": str(output)} | ({"distribute": cut} if shards else {})
        )
        figures = summary["sets"][ANSWERS if options else stream.query]
        missed = list[tuple[int, int]]()
        with (output / "predictions.jsonl").open("rb") as lines:
            for line in map(json.decode, lines):
                missed.append(misses(line, truth[str(line["id"])], stream.query))
        wholes = range(0, len(missed) - thousand + 1, thousand)
        blocks = [[*map(sum, zip(*missed[n : n + thousand], strict=True))] for n in wholes]
        shares = [1 - wrong / units for wrong, units in blocks]
        assert sum(units for _, units in missed) == figures["units"]
        assert sum(wrong for wrong, _ in missed) == round(
            figures["units"] * (1 - figures["coverage"])
        )
        rows.append((str(shards), min(shares), max(shares), figures["coverage"], figures["size"]))
        off = max(abs(share - COVERAGE) for share in shares)
        worst.append(off / (shards or 1))
    show(
        f"{name}: {len(shares)} times {thousand}", ("shards", "least", "most", "all", "size"), rows
    )
    assert all(row[3] == pytest.approx(COVERAGE, abs=0.2) for row in rows)
    if count is None:
        assert all(one <= 0.01 for one in worst)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("options", [{}, {"engine": "mpe", "best": 5}], ids=["labels", "answers"])
@pytest.mark.parametrize("name", ["CiteSeer, fields", "Bitcoin OTC, distrust"])
@sizes("count, pairs, most", (5, 1, math.inf), (300, 15, 1.5))
def test_sets_cost_little_beside_what_they_are_made_of(
    name: str, options: dict[str, Any], count: int, pairs: int, most: float
) -> None:
    """Examples as lines of JSON, without and with their truth, and predictions as lines."""
    works: list[list[Callable[[], object]]] = [[], []]
    for more in (options, {**options, "coverage": COVERAGE}):
        stream = STREAMS[name]()
        learned, examples = learner_of(stream, **more).learned, islice(stream.examples, count)
        labelled = [encode(one) for one in examples]
        blind = [encode(replace(decode(line), truth=None)) for line in labelled]
        learned.step(learned.decode_all(labelled))

        def answer(learned: Any, lines: list[bytes], learning: bool) -> list[bytes]:
            outcomes, _ = learned.step(learned.decode_all(lines), learning)
            return [encode(outcome.prediction) for outcome in outcomes]

        works[0].append(partial(answer, learned, blind, False))
        works[1].append(partial(answer, learned, labelled, True))
    with rare_collections():
        seconds = [in_turns(pairs, *both) for both in works]
    rows = [
        (kind, 1e3 * median(plain), 1e3 * median(sets), ratio(sets, plain))
        for kind, (plain, sets) in zip(("predicted", "learned from"), seconds, strict=True)
    ]
    show(f"{name}: CPU without and with sets, {options}", ("", "ms", "sets", "x"), rows)
    assert all(row[-1] <= most for row in rows)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("update", ["adagrad", "log-likelihood", "second-order"])
@pytest.mark.parametrize("best", [5, 20])
@sizes("count, thousand", (60, 30), (None, 1000))
def test_sets_of_labellings_of_a_tagger_have_the_truth_as_often_as_asked(
    name: str, update: str, best: int, count: int | None, thousand: int
) -> None:
    """Over each thousand sentences; the first sentence comes before there is a label."""
    tagger = srl.SequenceTagger(update=update, coverage={"best": best, "coverage": COVERAGE})
    blocks = [[0, 0, 0, 0, 0]]
    for n, rows in enumerate(islice(SEQUENCES[name](), count)):
        x, y = features([word for word, _ in rows]), [label for _, label in rows]
        if n:
            (chosen,) = tagger.predict_sequence_sets([x])
            size = best if chosen is None else len(chosen)
            if blocks[-1][0] == thousand:
                blocks.append([0, 0, 0, 0, 0])
            row = 1, chosen is None or y in chosen, size, chosen is None, not size
            blocks[-1] = [a + b for a, b in zip(blocks[-1], row, strict=True)]
        tagger.learn_one(x, y)
    head = ("", "sentences", "coverage", "labellings in a set", "everything", "empty")
    shares = [(str(n), row[0], *(x / row[0] for x in row[1:])) for n, row in enumerate(blocks)]
    show(f"{name}, {update}, best: {best}", head, shares)
    told = tagger.coverage_
    assert told["units"] == sum(row[0] for row in blocks)
    assert told["coverage"] == pytest.approx(sum(row[1] for row in blocks) / told["units"])
    assert abs(told["coverage"] - COVERAGE) <= (0.2 if count else 0.01)
    if count is None:
        whole = [row for row in shares if row[1] == thousand]
        assert all(abs(row[2] - COVERAGE) <= 0.015 for row in whole)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("best", [5, 20])
@sizes("count, pairs, most", (5, 1, math.inf), (500, 15, 2.0))
def test_sets_of_labellings_cost_little_beside_learning(
    best: int, count: int, pairs: int, most: float
) -> None:
    """Questions learned from one by one, and answers with the best labellings alone."""
    read = [*islice(questions(), count)]
    samples = [(features([w for w, _ in rows]), [tag for _, tag in rows]) for rows in read]
    xs = [x for x, _ in samples]

    def learned(**more: Any) -> srl.SequenceTagger:
        tagger = srl.SequenceTagger(**more)
        for x, y in samples:
            tagger.learn_one(x, y)
        return tagger

    covered = partial(learned, coverage={"best": best, "coverage": COVERAGE})
    tagger = covered()
    works: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("learned from", learned, covered),
        (
            "predicted",
            partial(tagger.predict_sequences, xs, best),
            partial(tagger.predict_sequence_sets, xs),
        ),
    ]
    rows = list[tuple[str, float, float, float]]()
    with rare_collections():
        for kind, *both in works:
            plain, sets = in_turns(pairs, *both)
            rows.append((kind, 1e3 * median(plain), 1e3 * median(sets), ratio(sets, plain)))
    show(f"ATIS, best: {best}: CPU without and with sets", ("", "ms", "sets", "x"), rows)
    assert all(row[-1] <= most for row in rows)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("coverage", [COVERAGE, {"best": 5, "coverage": COVERAGE}])
@sizes("count, most", (5, math.inf), (500, 1.2))
def test_sets_of_a_tagger_cost_the_same_among_more_samples(
    coverage: Any, count: int, most: float
) -> None:
    """Which ``fit`` reads at once."""
    read = [*islice(questions(), count)]
    xs, ys = [features([w for w, _ in rows]) for rows in read], [[t for _, t in r] for r in read]
    tagger = srl.SequenceTagger(coverage=coverage)
    once, often = in_turns(3, *(partial(tagger.fit, n * xs, n * ys) for n in (1, 8)))
    rows = [(1e3 * median(once) / count, 1e3 * median(often) / (8 * count), ratio(often, once) / 8)]
    show(f"ATIS, {coverage}: ms a question", (f"{count}", f"{8 * count}", "x"), rows)
    assert rows[0][-1] <= most
