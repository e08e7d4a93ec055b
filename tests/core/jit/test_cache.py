"""Compiled kernels on disk: damaged files are compiled anew, and what others can write is not used."""

import errno
import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest

from onlinesrl.commands import cli
from onlinesrl.core.errors import OnlinesrlWarning
from onlinesrl.core.jit import cache
from onlinesrl.core.jit.decorators import kernel


def tripled(value: int) -> int:
    return 3 * value


def doubled(value: int) -> int:
    return 2 * value


def loaded() -> int:
    """Compile the kernel or load it, use it, and return how often it was loaded."""
    anew: Any = kernel(tripled)
    assert anew(5) == 15
    return sum(anew._cache_hits.values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of kernels, empty, below the one that NUMBA_CACHE_DIR names; others are as in containers."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "given"))
    monkeypatch.setattr(cache, "PACKAGE", Path("/proc/package"))
    monkeypatch.setenv("HOME", "/proc/home")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    cache.kernel_folder.cache_clear()
    (tmp_path / "given").mkdir(mode=0o700)
    yield tmp_path / "given" / "onlinesrl"
    cache.kernel_folder.cache_clear()


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_a_kernel_is_loaded_from_a_folder_of_its_own(folder: Path) -> None:
    assert [loaded(), loaded()] == [0, 1]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert only_file(folder).name.startswith("tripled-")


def test_the_umask_lets_nobody_else_write(folder: Path) -> None:
    before = os.umask(0)
    try:
        assert [loaded(), loaded()] == [0, 1]
    finally:
        os.umask(before)
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o644


def test_a_damaged_file_is_compiled_anew(folder: Path) -> None:
    loaded()
    anew: Any = kernel(tripled)

    def stored() -> bool:
        return anew._cache.load_overload((numba.types.int64,), anew.targetctx) is not None

    file = only_file(folder)
    content = file.read_bytes()
    places = [*range(0, 70, 3), *range(70, len(content), max(1, len(content) // 60))]
    assert stored()
    for place in places:
        file.write_bytes(content[:place])
        assert not stored()
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert not stored()
    assert [loaded(), loaded()] == [0, 1]


def test_a_file_under_the_name_of_another_kernel_is_not_loaded(folder: Path) -> None:
    loaded()
    file = only_file(folder)
    kernel(doubled)(5)
    (other,) = {*folder.iterdir()} - {file}
    other.write_bytes(file.read_bytes())
    assert kernel(doubled)(5) == 10


def test_a_file_that_others_can_write_is_not_loaded(folder: Path) -> None:
    loaded()
    only_file(folder).chmod(0o666)
    assert [loaded(), loaded()] == [0, 1]
    if os.geteuid() == 0:
        os.chown(only_file(folder), 65534, 65534)
        assert [loaded(), loaded()] == [0, 1]


@pytest.mark.parametrize(("mode", "inner"), [(0o777, True), (0o770, False), (0o722, True)])
def test_a_folder_that_others_can_write_is_not_used(folder: Path, mode: int, inner: bool) -> None:
    folder.mkdir(mode=0o700)
    (folder if inner else folder.parent).chmod(mode)
    with pytest.warns(
        OnlinesrlWarning, match=r"given/onlinesrl: another user can write there.*set"
    ):
        loaded()
    assert not [*folder.iterdir()]


def test_a_folder_of_another_user_is_not_used(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    with pytest.warns(OnlinesrlWarning, match="another user can write there"):
        loaded()
    assert not [*folder.iterdir()]


def test_a_temporary_folder_in_a_shared_one_is_used(folder: Path) -> None:
    folder.parent.chmod(0o1777)  # as /tmp: others cannot rename there what is ours
    assert [loaded(), loaded()] == [0, 1]


def test_where_nothing_can_be_written_the_folder_is_a_private_one_that_is_removed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/proc/given")
    monkeypatch.setattr(cache.tempfile, "tempdir", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        cli._show_warnings()
        assert [loaded(), loaded()] == [0, 1]
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("warning: compiled kernels cannot be cached (/proc/given/onlinesrl: ")
    assert "/proc/package/__pycache__/kernels: " in said and "/proc/home/.cache/onlinesrl: " in said
    assert said.endswith(f"each start compiles them anew; {cache.ADVICE}")
    (temporary,) = tmp_path.glob("onlinesrl-kernels-*")
    status = temporary.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, os.geteuid())
    assert not cache.lasting()
    cache._remove(temporary, os.getpid() + 1)  # as at the end of a fork
    assert temporary.exists()
    cache._remove(temporary, os.getpid())
    assert not temporary.exists()


def test_without_any_folder_kernels_are_compiled_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(cache.tempfile, "mkdtemp", fail)
    with pytest.warns(OnlinesrlWarning, match="compiled kernels cannot be cached"):
        assert [loaded(), loaded()] == [0, 0]


def fail(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", fail)
        with pytest.warns(OnlinesrlWarning, match=rf"in {folder} \(No space left on device\)"):
            assert loaded() == 0
    assert [loaded(), loaded()] == [0, 1]


def test_a_folder_that_this_process_cannot_write_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in an image, whose kernels root has compiled; but not from a folder that others can write."""
    loaded()
    own, temporary = tmp_path / "own", cache.tempfile.TemporaryFile

    def only_in_own(dir: Path) -> Any:
        return temporary(dir=dir) if dir.is_relative_to(own) else fail()

    monkeypatch.setattr(cache.tempfile, "TemporaryFile", only_in_own)
    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    cache.kernel_folder.cache_clear()
    assert loaded() == 1
    assert not own.exists()
    folder.chmod(0o777)
    with pytest.warns(OnlinesrlWarning, match=f"cached in {own}/onlinesrl; .*another user"):
        assert loaded() == 0
    assert only_file(own / "onlinesrl").name == only_file(folder).name


def test_sources_are_told_apart_by_their_content(tmp_path: Path) -> None:
    """Their times may be others in an image than where it was made."""
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("x = 1")
    other.write_text("x = 1")
    os.utime(other, (0, 0))
    assert cache.file_stamp(one) == cache.file_stamp(other)
    other.write_text("x = 2")
    os.utime(other, ns=(one.stat().st_atime_ns, one.stat().st_mtime_ns))
    cache.file_stamp.cache_clear()
    assert cache.file_stamp(one) != cache.file_stamp(other)
