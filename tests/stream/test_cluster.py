"""A cluster of Ray whose machines leave, differ, or lack memory or files; slow, so only in soak."""

import shutil
import subprocess
import sys
from typing import Any

import pytest
from conftest import REPO, Job

from onlinesrl.core.errors import UnavailableError
from onlinesrl.core.parallel.ray_executor import on_ray
from onlinesrl.core.parallel.task_result import PartError
from onlinesrl.core.version import __version__
from onlinesrl.stream.distributed.file_splits import Piece, count_lines
from tests.stream.test_kill import mixed
from tests.support.waiting import until

pytestmark = pytest.mark.soak

MAIN = "from onlinesrl.commands.cli import main; main()"
DISTRIBUTED = {"shards": 3, "round": 1, "workers": 1}
HERE = {"PYTHONPATH": str(REPO)}


@pytest.fixture
def cluster(monkeypatch):
    """A head that takes no tasks; tests add machines.

    Ray is imported here, so that no other test has its native library in the process.
    """
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    for name, value in {**HERE, "RAY_raylet_start_wait_time_s": "120"}.items():
        monkeypatch.setenv(name, value)
    found = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    try:
        yield found
    finally:
        found.shutdown()


def begun(command: str, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def on(cluster: Any, one: Job, workers: int) -> subprocess.Popen[bytes]:
    """Begin a run on the cluster."""
    keys = {"engine": "ray", "address": cluster.address, "workers": workers}
    settings = [part for k, v in keys.items() for part in ("--set", f"distribute.{k}={v}")]
    return begun("run", str(one.config), "--fresh", *settings)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    said = process.communicate(timeout=600)[1].decode()
    return process.returncode, said


def test_a_machine_that_leaves_changes_nothing(cluster, job, citations):
    one = job(mixed(citations, 60, "node"), distribute=DISTRIBUTED, limits={"bad_share": 1.0})
    assert one.run() == 0, one.said
    local = one.results()
    _, leaving = (cluster.add_node(num_cpus=1) for _ in range(2))
    process = on(cluster, one, 2)
    until(lambda: one.checkpoints() or process.poll() is not None)
    cluster.remove_node(leaving)
    code, said = ended(process)
    assert code == 0, said
    assert one.results() == local


def test_a_worker_of_another_version_is_refused(cluster, job, citations, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(REPO / "onlinesrl", other / "onlinesrl")
    version = other / "onlinesrl" / "core" / "version.py"
    version.write_text(version.read_text().replace(__version__, "0.0.1"))
    # workers of Ray look first where the driver does: theirs is imported before they are told
    (other / "sitecustomize.py").write_text("import onlinesrl.core.version\n")
    cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(other)})
    one = job(citations[:9], distribute=DISTRIBUTED)
    code, said = ended(on(cluster, one, 1))
    assert code == 69
    assert f"this worker has onlinesrl 0.0.1, the driver {__version__}" in said
    assert "install the same on every machine" in said
    assert "Traceback" not in said


def test_a_worker_without_memory_ends_the_run_with_a_line(job, citations, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.01")  # of this machine: always more
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "20")
    one = job(citations[:9], distribute=DISTRIBUTED)
    keys = ("--set", "distribute.engine=ray", "--set", "distribute.workers=1")
    code, said = ended(begun("run", str(one.config), "--fresh", *keys))
    assert code == 69, said
    assert "20 workers in succession died over part" in said
    assert "(OutOfMemoryError): killed for lack of memory" in said
    assert "Traceback" not in said


def test_a_file_that_a_worker_has_not_is_said(cluster, tmp_path):
    cluster.add_node(num_cpus=1)
    piece = Piece(0, 0, "day.jsonl", str(tmp_path / "day.jsonl"), 0, 10)
    with on_ray(cluster.address, None) as pool, pytest.raises(PartError) as error:
        list(pool.map(count_lines, None, [piece]))
    assert error.value.exit_code == 74
    assert "day.jsonl" in str(error.value)
    assert str(error.value).startswith("worker ")
    assert "No such file" in str(error.value)


def test_a_cluster_of_another_python_is_refused(cluster, monkeypatch):
    other = (pytest.importorskip("ray").__version__, "3.99.0")
    monkeypatch.setattr("ray._private.utils.compute_version_info", lambda: other)
    with (
        pytest.raises(UnavailableError, match=r"Version mismatch.*Python: 3\.99\.0"),
        on_ray(cluster.address, 1),
    ):
        pass
