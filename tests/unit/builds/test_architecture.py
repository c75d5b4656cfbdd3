"""A build for another processor is a finding of its own, before any board is leased."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds.architecture import require_any_pi, require_machine
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import BuildError
from pytest_pinet.model.build import Build
from tests.support import build_files as made
from tests.support.change_session import Bench, bench_with

X86 = b"\0" * 0x202 + b"HdrS"
RISCV = b"\0" * 0x38 + b"RSC\x05"
# A zImage, which unpacks itself, so its version is not readable.
ARM = b"\0" * 0x24 + b"\x18\x28\x6f\x01" + b"\0" * 0x40


def image(folder: Path, data: bytes) -> Build:
    (folder / "Image").write_bytes(data)
    return load_build(str(folder / "Image"))


@pytest.mark.parametrize(("data", "arch"), [(X86, "x86"), (RISCV, "riscv"), (gzip.compress(X86, mtime=0), "x86")])
def test_a_kernel_that_no_pi_can_run(tmp_path: Path, data: bytes, arch: str) -> None:
    with pytest.raises(BuildError) as told:
        require_any_pi(image(tmp_path, data))
    assert str(told.value) == f"build Image is for {arch}, and a Raspberry Pi has arm64 (or arm): is ARCH= set?"
    assert told.value.kind == "wrong architecture"


def test_a_module_that_no_pi_can_run(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_bytes(made.module("a", machine=made.X86_64))
    with pytest.raises(BuildError, match=r"build a\.ko is for x86_64, and a Raspberry Pi has arm64"):
        require_any_pi(load_build(str(tmp_path / "a.ko")))


def test_a_kernel_of_32_bits_is_for_boards_that_run_one(tmp_path: Path) -> None:
    build = image(tmp_path, ARM)
    require_any_pi(build)
    require_machine(build, "old", "armv7l")
    with pytest.raises(BuildError, match=r"build Image is for arm, and pi runs arm64 \(aarch64\)"):
        require_machine(build, "pi", "aarch64")


def test_settings_are_for_any(tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text("cmdline: quiet\n")
    require_machine(load_build(str(tmp_path)), "pi", "aarch64")


TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")
"""


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, TEST) as found:
        (pytester.path / "Image").write_bytes(X86)
        yield found


@pytest.mark.parametrize("baseline", ["good.yaml", "running", "accepted"])
def test_it_is_a_finding_and_no_board_is_touched(bench: Bench, baseline: str) -> None:
    result = bench.run(builds=("Image", baseline))
    result.assert_outcomes(failed=1)
    head = bench.record["change"]
    assert [(entry["outcome"], entry["finding"]) for entry in head["entries"]] == [("finding", "wrong architecture")]
    assert (head["exit"], head["bisect_exit"]) == (1, 125)
    assert bench.log == []
    result.stdout.fnmatch_lines(["*WRONG ARCHITECTURE*", "*build Image is for x86, and a Raspberry Pi has arm64*"])


def test_one_that_only_its_board_knows_is_a_finding_too(bench: Bench) -> None:
    bench.plan(
        'PLAN = Plan(check=lambda build: BuildError("build new is for arm, and one runs arm64", "wrong architecture")'
        ' if build.name == "new" else None)'
    )
    bench.run().assert_outcomes(failed=1)
    assert [entry["finding"] for entry in bench.record["change"]["entries"]] == ["wrong architecture"]
    assert not any(line.startswith("boot") for line in bench.log)


def test_a_baseline_for_another_processor_is_a_mistake(bench: Bench) -> None:
    result = bench.run(builds=("new.yaml", "Image"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--pinet-baseline: build Image is for x86, and a Raspberry Pi has*"])


def test_a_baseline_that_the_board_cannot_run_ends_the_run(bench: Bench) -> None:
    bench.plan(
        'PLAN = Plan(check=lambda build: BuildError("build good is for arm, and one runs arm64", "wrong architecture")'
        ' if build.name == "good" else None)'
    )
    result = bench.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*build good is for arm, and one runs arm64*"])
