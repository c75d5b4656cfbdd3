"""``pinet gate --exact`` on a real exact board: Debian's kernel, and an e1000e with four more instructions.

``make exact`` runs this file, and ``make smoke`` does, too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.emulated.image import KERNEL, kernel_package
from tests.support.driver_builds import patched_module
from tests.support.gate_project import PINET

pytestmark = [
    pytest.mark.smoke,
    pytest.mark.emulated,
    pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="QEMU for arm64 is missing"),
]
GATE_TIMEOUT_S = 900.0
Gate = Callable[..., tuple[int, str]]


@pytest.fixture
def gate(tmp_path: Path, environment: Mapping[str, str]) -> Gate:
    """Return ``pinet gate --exact`` for e1000e, which gives the exit code and the output."""

    def gate(*words: str | Path) -> tuple[int, str]:
        plugins = ("-p", "no:cacheprovider")
        done = subprocess.run(
            [PINET, "gate", "--exact", *map(str, words), "--pinet-nic=e1000e", *plugins],
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=GATE_TIMEOUT_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return gate


def results(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / ".pinet/latest/results.json").read_text())["results"]
    return found


def test_a_kernel_against_itself_is_equal_to_the_last_digit(gate: Gate, tmp_path: Path) -> None:
    code, out = gate(kernel_package(KERNEL, print))
    assert code == 0, out
    # This run made the proof, which counts as one boot: if a digit of its two boots differed, the exit code would be 2.
    assert "12 unchanged; 1 boot\n" in out
    found = results(tmp_path)
    assert len(found) == 12
    for one in found:
        exact, change = one["exact"], next(iter(one["change"]["directions"].values()))
        assert (exact["a"], change["change"], exact["functions"]) == (exact["b"], 0.0, []), one["id"]
        assert exact["a"]["instructions"] > 1000


def test_four_more_instructions_in_the_receive_path_are_found_and_named(gate: Gate, tmp_path: Path) -> None:
    plain = patched_module(None, tmp_path / "plain")
    longer = patched_module("four-instructions", tmp_path / "longer")
    code, out = gate(longer, f"--against={plain}")
    # By default, four instructions of ten thousand are no regression. They are listed.
    assert code == 0, out
    receive = next(one for one in results(tmp_path) if one["id"].endswith("/frame-60-rx"))
    (function,) = (one for one in receive["exact"]["functions"] if one["name"] == "e1000_receive_skb")
    assert (function["module"], function["b"] - function["a"]) == ("e1000e", pytest.approx(4.0, abs=0.005))
    assert receive["exact"]["modules"] == ["e1000e"]
    line = next(line for line in out.splitlines() if line.startswith("e1000_receive_skb [e1000e]"))
    assert line.split()[-1] == "+4.00"
    # No other function of the driver changes at all.
    code, out = gate(
        longer, f"--against={plain}", "--pinet-instructions=e1000*=0", "--pinet-instructions=e1000_receive_skb=4"
    )
    assert code == 0, out
    code, out = gate(longer, f"--against={plain}", "--pinet-instructions=e1000_receive_skb=0")
    assert code == 1
    assert "misses the limit 0 instructions (--pinet-instructions e1000_receive_skb=0)" in out
