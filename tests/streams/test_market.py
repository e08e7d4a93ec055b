"""Our own world that stays: what its script makes, with certified answers that tell good from bad."""

import json

from conftest import REPO, command

from tests.support.stream_scripts import STREAMS, generator


def test_the_world_follows_the_market(tmp_path) -> None:
    market = generator("market")
    text = (STREAMS / "market" / "market.jsonl").read_text(encoding="utf-8")
    assert text == market.made()
    config = str(REPO / "configs" / "market.yaml")
    assert command("check", config) == 0
    assert command("run", config, "--set", f"output={tmp_path}", "--until", "1500") == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["certified"], summary["bad"]) == (1500, 0)
    assert summary["auc"] > 0.7
    values = {}
    for line in (tmp_path / "predictions.jsonl").read_text().splitlines():
        change = json.loads(line)
        assert values.get(change["args"][0]) == change["old"]
        values[change["args"][0]] = change["value"]
    lines = [json.loads(line) for line in text.splitlines()[:1500]]
    day = max(int(line["id"].split()[1]) for line in lines if line["id"].startswith("trade"))
    turned = {name: market.TRADES * turned for name, turned in market.hidden().items()}
    ranked = [(value, turned.get(name, day) < day) for name, value in values.items() if value]
    good, bad = ([value for value, is_bad in ranked if is_bad == kind] for kind in (False, True))
    right = sum((a > b) + 0.5 * (a == b) for a in good for b in bad)
    assert right / (len(good) * len(bad)) > 0.7
    assert len(bad) > 5
