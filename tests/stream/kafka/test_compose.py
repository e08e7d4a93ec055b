"""The compose file holds together, as far as that shows without an engine that runs it."""

import shutil
import subprocess
from xml.etree import ElementTree

import pytest
import yaml

from onlinesrl.runs.config.loading import load
from tests.support.paths import REPO
from tests.support.waiting import PATIENCE

DOCKER = REPO / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
POM = "{http://maven.apache.org/POM/4.0.0}"


def test_files_and_volumes_are_there():
    build = SERVICES["learner"]["build"]
    context = DOCKER / build["context"]
    copied = [
        name
        for line in (context / build["dockerfile"]).read_text().splitlines()
        if line.startswith("COPY ")
        for name in line.split()[1:-1]
    ]
    assert copied
    assert [name for name in copied if not (context / name).exists()] == []
    sent = (context / ".dockerignore").read_text().splitlines()
    assert [name for name in copied if f"!{name}" not in sent] == []
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            there = (DOCKER / source).is_file() if "/" in source else source in COMPOSE["volumes"]
            assert there, volume


def test_the_broker_is_of_the_version_that_is_tested():
    dependency = ElementTree.parse(DOCKER / "broker" / "pom.xml").find(f".//{POM}dependency")
    assert dependency is not None
    version = dependency.findtext(f"{POM}version")
    for name in ("broker", "topics"):
        assert SERVICES[name]["image"] == f"apache/kafka:{version}"


def test_the_machines_of_a_cluster_find_its_head():
    services = yaml.safe_load((DOCKER / "ray-compose.yaml").read_text())["services"]
    assert set(services) == {"head", "worker", "learner"}
    assert {"--head", "--port=6379", "--num-cpus=0"} <= {*services["head"]["entrypoint"]}
    assert services["worker"]["entrypoint"][:3] == ["ray", "start", "--address=head:6379"]
    start, _, run = services["learner"]["entrypoint"][-1].partition(" && exec onlinesrl run ")
    assert "--address=head:6379" in start.split()
    path, *settings = run.split()
    config = load(DOCKER.parent / path, settings[1::2])
    assert settings[::2] == ["--set"] * len(settings[1::2])
    assert config.distribute is not None
    assert (config.distribute.engine, config.distribute.address) == ("ray", "auto")


@pytest.mark.parametrize("file", ["compose.yaml", "ray-compose.yaml"])
def test_the_file_is_understood_where_there_is_a_compose(file):
    command = ["docker", "compose"]
    if shutil.which("docker") is None or _fails([*command, "version"]):
        return
    assert _fails([*command, "-f", str(DOCKER / file), "config"]) == ""


def _fails(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.stderr or "it says nothing" if done.returncode else ""
