"""Builds of commits: made once, only from what changed, never half, and ended with the process that made them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import BuildError, ConfigError, LabError
from pytest_pinet.exact.board import NICS
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.model.build import BuildFileRole
from pytest_pinet.tree import builder
from pytest_pinet.tree.builder import FLAGS, KernelConfig, TreeBuilder, read_config, small_config
from pytest_pinet.tree.sources import Tree
from tests.support.apt_programs import tool
from tests.support.build_files import RELEASE
from tests.support.kernel_repository import KernelRepository, stand_in_tools

FAULTS_S = 30.0
CONFIG = KernelConfig("own", "# allnoconfig\nCONFIG_NET=y\n", has_device_trees=False)
# What `pinet gate --tree` does, in a process of its own.
PROCESS = """
import sys
from pathlib import Path
from pytest_pinet.tree.builder import KernelConfig, TreeBuilder
from pytest_pinet.tree.sources import Tree

config = KernelConfig("own", "# allnoconfig\\nCONFIG_NET=y\\n", has_device_trees=False)
with TreeBuilder(Tree(Path(sys.argv[1])), config, print) as builder:
    builder.build(sys.argv[2])
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelRepository:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    stand_in_tools(tmp_path / "bin", monkeypatch)
    return KernelRepository(tmp_path / "linux")


@contextmanager
def building(repository: KernelRepository, config: KernelConfig = CONFIG) -> Iterator[tuple[TreeBuilder, list[str]]]:
    """Yield a builder, and what it says."""
    said: list[str] = []
    with TreeBuilder(Tree(repository.folder), config, said.append) as found:
        yield found, said


def compiled(repository: KernelRepository) -> list[str]:
    """Return the names of the files that were compiled since the last call."""
    list_file = Tree(repository.folder).folder / "out/compiled"
    if not list_file.exists():
        return []
    names = sorted(list_file.read_text().split())
    list_file.unlink()
    return names


def test_a_commit_is_built_once_and_the_next_one_only_where_it_differs(repository: KernelRepository) -> None:
    first = repository.git("rev-parse", "HEAD")
    second = repository.commit("v2", {"drivers/a.c": "changed\n"})
    before = repository.state()
    with building(repository) as (builds, said):
        assert builds.kept(first) is None
        folder = builds.build(first)
        assert builds.kept(first) == folder
        assert compiled(repository) == ["a", "b"]
        builds.build(second)
        assert compiled(repository) == ["a"]
        said.clear()
        assert builds.build(first) == folder
        assert (compiled(repository), said) == ([], [])
    assert repository.state() == before


def test_a_build_is_one_that_the_gate_reads_with_its_commit(repository: KernelRepository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    with building(repository, read_config("pi_defconfig", exact=False)) as (builds, _):
        folder = builds.build(commit)
    found = load_build(str(folder))
    assert found.name == commit[:12]
    assert found.source is not None
    assert (found.source.commit, found.source.compiler) == (commit, "stand-in 1.0")
    assert Path(found.source.config).read_text() == "CONFIG_NET=y\n"
    assert {file.role: file.name for file in found.files} == {
        BuildFileRole.KERNEL: "kernel8.img",
        BuildFileRole.MODULES: RELEASE,
        BuildFileRole.DEVICE_TREE: "board.dtb",
    }
    assert list(found.modules) == ["nic"]


def test_a_configuration_without_device_trees_gives_a_build_without_them(repository: KernelRepository) -> None:
    makefile = (repository.folder / "Makefile").read_text()
    without = re.sub("^dtbs_install:.*", "dtbs_install:", makefile, flags=re.MULTILINE)
    commit = repository.commit("v2", {"Makefile": without})
    with building(repository, KernelConfig("own", "CONFIG_NET=y\n")) as (builds, _):
        assert not load_build(str(builds.build(commit))).of(BuildFileRole.DEVICE_TREE)


def test_equal_sources_give_equal_bytes_whoever_builds_them(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repository.git("rev-parse", "HEAD")
    second = repository.commit("docs", {"Documentation/index.rst": "text\n"})
    with building(repository) as (builds, _):
        one = (builds.build(first) / "Image").read_bytes()
        monkeypatch.setenv("KBUILD_BUILD_USER", "another")
        monkeypatch.setenv("KBUILD_OUTPUT", "/nowhere")
        other = (builds.build(second) / "Image").read_bytes()
    assert one == other
    assert b"KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 2026\n" in one
    assert f"KCFLAGS={FLAGS}\n".encode() in one


def test_ccache_is_used_if_it_is_installed(repository: KernelRepository, tmp_path: Path) -> None:
    commit = repository.git("rev-parse", "HEAD")
    tool(tmp_path / "bin", "ccache", 'exec "$@"')
    with building(repository) as (builds, _):
        assert b"CC=ccache aarch64-linux-gnu-gcc\n" in (builds.build(commit) / "Image").read_bytes()


def test_a_commit_that_does_not_compile_says_why_and_the_next_one_is_built(repository: KernelRepository) -> None:
    broken = repository.commit("broken", {"drivers/a.c": "x\nerror: unknown type name 'u23'\n"})
    mended = repository.commit("mended", {"drivers/a.c": "a\n"})
    with building(repository) as (builds, _):
        message = rf'^{broken[:12]} \("broken: a change"\) does not compile: drivers/a.c:2:error: unknown type name'
        with pytest.raises(BuildError, match=message) as caught:
            builds.build(broken)
        assert "CC      a.o" in caught.value.excerpt
        assert builds.kept(broken) is None
        assert builds.build(mended).is_dir()


def test_a_full_disk_is_not_the_fault_of_the_commit(repository: KernelRepository) -> None:
    full = repository.commit("full", {"drivers/a.c": "fatal error: writing a.o: No space left on device\n"})
    with building(repository) as (builds, _), pytest.raises(LabError, match=r"cannot be built here: .* No space left"):
        builds.build(full)


def test_the_time_of_the_last_build_of_this_kind_is_said(repository: KernelRepository) -> None:
    commits = [repository.commit(name, {"drivers/a.c": name}) for name in ("one", "two", "three", "four")]
    with building(repository) as (builds, said):
        for commit in commits[:3]:
            builds.build(commit)
        assert [line.rpartition("): ")[2] for line in said if "compiling" in line] == [
            "compiling",
            "compiling",
            "compiling; the last time, this took 0 s",
        ]
        assert said[2] == f'{commits[0][:12]} ("one: a change"): built in 0 s'
    with building(repository, KernelConfig("other", "# allnoconfig\nCONFIG_X=y\n")) as (builds, said):
        builds.build(commits[3])
        assert said[1].endswith("compiling")


def test_the_builds_that_were_not_used_for_the_longest_time_are_removed(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [repository.commit(name, {"drivers/a.c": name * 1000}) for name in ("1", "2", "3")]
    with building(repository) as (builds, _):
        for at, commit in enumerate(commits[:2]):
            os.utime(builds.build(commit), (at, at))
        size = sum(path.lstat().st_size for path in (builds.build(commits[0])).rglob("*"))
        monkeypatch.setattr(builder, "KEPT_BYTES", 2 * size + 100)
        builds.build(commits[2])
        assert [builds.kept(commit) is not None for commit in commits] == [True, False, True]


def started(repository: KernelRepository, commit: str) -> subprocess.Popen[bytes]:
    # Unbuffered, because tests read its lines while it waits.
    argv = [sys.executable, "-u", "-c", PROCESS, str(repository.folder), commit]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def waits(repository: KernelRepository) -> bool:
    """Return whether a process of make or of its shells works in the folder of the repository in the cache."""
    folder = str(Tree(repository.folder).folder)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        found += [words] if words[0] in ("make", "/bin/sh", "sh") and any(folder in word for word in words) else []
    return bool(found)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("step", ["compile", "install"])
def test_a_process_that_is_killed_leaves_no_compiler_and_the_next_one_goes_on(
    repository: KernelRepository, tmp_path: Path, number: signal.Signals, step: str
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    files = {"drivers/b.c": f"b\nwait {flag}\n"} if step == "compile" else {"wait-at-install": f"{flag}\n"}
    commit = repository.commit("slow", files)
    folder = Tree(repository.folder).folder
    with started(repository, commit) as process:
        half = folder / ("out/b.o" if step == "compile" else f"builds/draft/lib/modules/{RELEASE}/kernel/nic.ko")
        assert Deadline(FAULTS_S).wait_until(half.exists), process.communicate(timeout=FAULTS_S)
        process.send_signal(number)
        process.communicate(timeout=FAULTS_S)
    # The compiler ends, although what it waits for is still there.
    assert Deadline(FAULTS_S).wait_until(lambda: not waits(repository))
    flag.unlink()
    done = compiled(repository)
    with building(repository) as (builds, _):
        assert builds.kept(commit) is None
        found = builds.build(commit)
        assert (found / "Image").is_file()
        # make removed only what was not complete.
        assert (done, compiled(repository)) == (["a", "b"], ["b"] if step == "compile" else [])
    assert [path.name for path in (folder / "builds").iterdir()] == [found.name]


def test_a_compiler_that_survives_keeps_the_tree_until_it_ends(repository: KernelRepository, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    commit = repository.commit("slow", {"drivers/b.c": f"b\nwait {flag}\n"})
    with started(repository, commit) as first:
        assert Deadline(FAULTS_S).wait_until((Tree(repository.folder).folder / "out/b.o").exists)
        for child in Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        first.kill()
    assert waits(repository)
    with started(repository, commit) as second:
        assert second.stdout is not None
        assert second.stdout.readline().startswith(b"waiting for process")
        flag.unlink()
        assert second.wait(FAULTS_S) == 0


def test_another_process_waits_for_the_tree(repository: KernelRepository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    with building(repository), started(repository, commit) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"waiting for process {os.getpid()}".encode())
        process.kill()


def test_missing_programs_are_named_with_their_packages(
    repository: KernelRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(repository.folder)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin/flex").unlink()
    with pytest.raises(LabError, match=r"^building a kernel needs flex, git, make, setpriv, which this m") as caught:
        TreeBuilder(tree, CONFIG, print)
    assert caught.value.act == "apt install --no-install-recommends flex git make util-linux"


def test_a_defconfig_that_the_commit_does_not_have_is_a_mistake(repository: KernelRepository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    with building(repository, read_config("pj_defconfig", exact=False)) as (builds, _):
        message = r"unknown defconfig in arch/arm64/configs of \w{12} 'pj_defconfig', did you mean 'pi_defconfig'\?"
        with pytest.raises(ConfigError, match=message):
            builds.build(commit)


def test_a_configuration_is_a_file_or_the_name_of_a_defconfig(tmp_path: Path) -> None:
    own = tmp_path / "own.config"
    own.write_text("CONFIG_NET=y\n")
    assert read_config(str(own), exact=True) == KernelConfig("own.config", "CONFIG_NET=y\n", has_device_trees=False)
    assert read_config("bcm2711_defconfig", exact=False) == KernelConfig("bcm2711_defconfig")
    assert read_config("a_defconfig", exact=False).key != read_config("b_defconfig", exact=False).key
    with pytest.raises(ConfigError, match=r"^there is no file no/such.config; expected a configuration"):
        read_config("no/such.config", exact=True)
    own.write_text("text\n")
    with pytest.raises(ConfigError, match=r"own.config is no configuration of the kernel; expected lines such as CON"):
        read_config(str(own), exact=True)
    own.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"own.config is no configuration of the kernel: .*utf-8"):
        read_config(str(own), exact=True)


def test_the_small_configuration_has_each_exact_driver_and_can_be_of_one() -> None:
    def modules(*drivers: str) -> set[str]:
        return set(re.findall(r"^CONFIG_(\w+)=m", small_config(drivers).text, re.MULTILINE))

    every = modules()
    shared = {"NET_PKTGEN", "VLAN_8021Q"}
    for driver in {nic.driver for nic in NICS.values()}:
        own = modules(driver)
        assert shared < own < every
    assert set().union(*(modules(nic.driver) for nic in NICS.values())) == every
    assert modules("r8152") == {*shared, "USB_RTL8152"}
    assert "allnoconfig" in small_config(["r8152"]).text
