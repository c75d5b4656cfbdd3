"""The lines of ``docs/how-to/exact-gate.md`` that make a module and gate it, as they stand on the page."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_pinet.exact.qemu import PROGRAM
from tests.support.block_settings import BIN
from tests.support.console_blocks import DOCS, blocks_of

TOOLS = (PROGRAM, "aarch64-linux-gnu-gcc", "apt-get", "dpkg-deb", "make", "cc")
MISSING = [name for name in TOOLS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(bool(MISSING), reason=f"a driver is built and booted here with {', '.join(MISSING)}"),
]
# A gate that fails boots both builds five times.
TIMEOUT_S = 3000.0


def test_the_lines_make_a_module_and_the_gate_names_its_longer_function(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    block = blocks_of(DOCS / "how-to" / "exact-gate.md")[0]
    # The tools above are here, so nothing is installed.
    lines = [line for line in block.commands if not line.startswith("sudo ")]
    fetched = 1 + next(number for number, line in enumerate(lines) if line.startswith("apt-get -q download"))

    def run(commands: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", "\n".join(["set -ex -o pipefail", *commands])], cwd=tmp_path,
            env={**environment, "HOME": str(tmp_path), "PATH": f"{BIN}:{environment['PATH']}"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    code, out = run(lines[:fetched])
    if code:
        pytest.skip(f"Debian's packages are not here: {out[-300:]}")
    code, out = run(lines)
    assert "make -C" in out, out
    assert "e1000e.ko must not be merged: " in out, out
    assert "e1000_receive_skb [e1000e]" in out
    assert code == 1
