"""``pinet comment``: the commands that repeat a gate."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_pinet.cli import pinet
from pytest_pinet.exact.board import NICS, PARTS, shell_line
from pytest_pinet.exact.qemu import PROGRAM
from pytest_pinet.model.build import BuildSource
from tests.support.exact_records import records, run_of

A, B = "1" * 40, "2" * 40


def repeated(folder: Path, *commits: str, nic: str = "macb") -> list[str]:
    """Return the commands of a comment on the gate of two commits."""
    results = [one.replace(exact=one.exact.replace(nic=nic)) for one in records("slow") if one.exact is not None]
    run = run_of(results, "slow")
    assert run.change is not None
    a, b = (
        build.replace(source=BuildSource(commit=commit))
        for build, commit in zip((run.change.a, run.change.b), commits, strict=True)
    )
    (folder / "results.json").write_text(json.dumps(run.replace(change=run.change.replace(a=a, b=b)).dump()))
    done = CliRunner().invoke(pinet, ["comment", str(folder)])
    assert done.exit_code == 0, done.output
    found = re.search(r"```text\n(.*?)\n```", done.stdout, re.S)
    assert found is not None
    return found[1].splitlines()


def test_the_gate_of_two_commits_and_the_machine_of_its_board_are_repeated(tmp_path: Path) -> None:
    gate, note, machine = repeated(tmp_path, A, B)

    assert gate == f"pinet gate --tree . --good {A} --bad {B} --exact --nic macb"
    assert note.startswith("# The machine of macb, QEMU 7.2.22;")
    assert machine.startswith("qemu-system-aarch64 -machine virt,gic-version=2,")
    assert machine.endswith(" -kernel Image -initrd initramfs -append nokaslr 3<>memory")


def test_a_hostile_text_is_one_word_of_a_command_and_no_commit(tmp_path: Path) -> None:
    gate, *_ = repeated(tmp_path, A, B, nic="x; touch canary")
    assert shlex.split(gate)[-1] == "x; touch canary"
    assert repeated(tmp_path, A, "$(touch canary)")[0].startswith("# The machine")


@pytest.mark.smoke
@pytest.mark.parametrize("nic", ["e1000e", "virtio"])
def test_qemu_accepts_the_line_of_a_board(tmp_path: Path, nic: str) -> None:
    """An empty image does not boot, so QEMU is paused, and ends at its monitor."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed")
    for name in ("Image", "initramfs"):
        (tmp_path / name).write_bytes(bytes(4096))
    line = shell_line("virt", NICS[nic].device, 1, "console=ttyAMA0 $HOME 'x")
    line = line.replace("-monitor none -serial stdio", "-monitor stdio -serial none -S")
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, input="quit\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_each_board_has_a_line_and_an_unknown_one_has_none() -> None:
    for machine, nics in PARTS.items():
        assert all(shell_line(machine.for_pages(16).name, NICS[nic].device, 2, "") for nic in nics)
    assert shell_line("virt; touch canary", "e1000e", 1, "") == ""
    assert shell_line("virt", "e1000f", 1, "") == ""
