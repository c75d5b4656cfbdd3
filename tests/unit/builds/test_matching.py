"""Compares the build that a board reports with the requested build."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_pinet.ab.options import ABOptions
from pytest_pinet.builds.matching import mismatches, missing_modules
from pytest_pinet.evidence.running import read_running
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, KernelId, Loaded, ModuleId, RunningBuild
from tests.support.local_shell import LocalShell

VERSION = "Linux version 6.12.25 (me@here) (gcc) #7 SMP"
KERNEL = KernelId("arm64", "6.12.25", VERSION, build_ids=frozenset({"aa", "bb"}))
FILE = BuildFile(BuildFileRole.KERNEL, "kernel8.img", "/x/Image", "0" * 64, 1)
SINGLE = BuildFile(BuildFileRole.MODULE, "r8169.ko.xz", "/x/r8169.ko.xz", "1" * 64, 1)
MODULE = ModuleId("r8169", "r8169.ko.xz", "6.12.25 SMP", "arm64", "S1", "cc")
BUILD = Build("new", (FILE,), KERNEL)


def running(build: Build | None = BUILD, **more: Any) -> RunningBuild:
    mark = f" pinet.build={build.key}" if build is not None else ""
    found = RunningBuild("pi5-1", "Linux pi5-1 6.12.25", VERSION, f"root=/dev/x rootwait quiet{mark}", build_id="aa")
    return replace(found, **more)


def test_a_board_that_runs_it() -> None:
    assert mismatches(BUILD, running(), booted=True) == []


@pytest.mark.parametrize(
    ("build", "found", "told"),
    [
        (BUILD, running(None), f"the command line has no {BUILD.key}: pi5-1 booted its known-good build"),
        (BUILD, running(replace(BUILD, cmdline=("a",))), "pi5-1 booted build "),
        (BUILD, running(version="Linux version 6.12.24"), "the kernel says 'Linux version 6.12.24', the image '"),
        (BUILD, running(build_id="dd"), "the kernel's build id is dd, which is not in the image"),
    ],
)
def test_another_kernel(build: Build, found: RunningBuild, told: str) -> None:
    (why,) = mismatches(build, found, booted=True)
    assert why.startswith(told)


def test_a_word_that_the_firmware_left_out() -> None:
    build = replace(BUILD, cmdline=("quiet", "pci=nomsi"))
    assert mismatches(build, running(build), booted=True) == ["'pci=nomsi' is not on the command line"]


@pytest.mark.parametrize(
    ("loaded", "told"),
    [
        (Loaded("S1", "cc"), []),
        (Loaded(None, "cc"), []),
        (Loaded(None, None), []),
        (Loaded("S2", "cc"), ["module r8169 has srcversion S2, not S1"]),
        # Built from the same source with other options.
        (Loaded("S1", "dd"), ["module r8169 has build id dd, not cc"]),
    ],
)
def test_modules_are_those_of_the_build(loaded: Loaded, told: list[str]) -> None:
    build = replace(BUILD, modules={"r8169": MODULE})
    assert mismatches(build, running(modules={"r8169": loaded}), booted=True) == told


def test_a_module_of_a_tree_may_be_absent_but_not_one_that_was_named() -> None:
    tree = replace(BUILD, modules={"r8169": MODULE})
    assert mismatches(tree, running(), booted=True) == []
    build = Build("one", (SINGLE,), modules={"r8169": MODULE})
    assert missing_modules(build, running(None)) == ["r8169"]
    assert mismatches(build, running(None), booted=False) == ["module r8169 is not loaded"]
    assert missing_modules(build, running(None, modules={"r8169": Loaded()})) == []


def test_options_and_sysctls_are_what_was_asked_for() -> None:
    build = Build("set", options=(("e1000e", "debug", "1"),), sysctls=(("net.ipv4.tcp_rmem", "4096 65536 65536"),))
    good = running(None, parameters={"e1000e.debug": "Y"}, sysctls={"net.ipv4.tcp_rmem": "4096\t65536\t65536"})
    assert mismatches(build, good, booted=False) == []
    hidden = replace(good, parameters={})
    assert mismatches(build, hidden, booted=False) == []
    bad = running(None, parameters={"e1000e.debug": "0"}, sysctls={"net.ipv4.tcp_rmem": "4096 131072 6291456"})
    assert mismatches(build, bad, booted=False) == [
        "module e1000e runs with debug=0, not 1",
        "sysctl net.ipv4.tcp_rmem is '4096 131072 6291456', not '4096 65536 65536'",
    ]
    assert mismatches(build, replace(good, sysctls={}), booted=False) == ["there is no sysctl net.ipv4.tcp_rmem"]


def test_this_machine_says_what_it_runs() -> None:
    found = read_running(LocalShell("runner"), [("no_such", "option")], ["net.ipv4.tcp_sack", "no.such", "x; reboot"])
    assert found.version.startswith("Linux version ")
    assert found.uname.startswith("Linux ")
    assert found.boot_id is not None
    assert found.marker is None
    assert found.sysctls.keys() == {"net.ipv4.tcp_sack"}
    assert found.parameters == {}
    assert found.record()["version"] == found.version


def test_what_a_build_is_in_results() -> None:
    build = replace(BUILD, options=(("e1000e", "debug", "1"),), sysctls=(("net.core.rmem_max", "1"),))
    record = ABOptions(build, None).record(Side.B)
    assert record["files"] == [{"role": "kernel", "name": "kernel8.img", "sha256": "0" * 64, "size": 1}]
    assert (record["options"], record["sysctls"]) == (["e1000e.debug=1"], ["net.core.rmem_max=1"])
    assert record["key"] == build.key != BUILD.key
