"""The steps of the tutorial "A rack of Pis" that need no boards, as they stand on the page, with a real coordinator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.console_blocks import DOCS, blocks_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
PAGE = DOCS / "tutorials" / "rack.md"
BIN = Path(sys.executable).parent
(LABGRID,) = (block for block in blocks_of(PAGE) if "labgrid-coordinator" in block.commands[0])
# The options that answer all questions of `pinet init --bench`.
ANSWERS = (
    "--board=pi4-1=pi4b", "--board=pi4-2=pi4b", "--power=outlet", "--console=serial", "--switch=snmp",
    "--switch-address=127.0.0.1", "--port=pi4-1=1", "--port=pi4-2=2",
)  # fmt: skip


class Rack:
    """A folder of a reader. The address of the page is one of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The coordinator chooses a free port.
        self.address = "127.0.0.1:0"
        variables = {name: text for name, text in os.environ.items() if not name.startswith(("LG_", "PINET_"))}
        self.environment = {**variables, "PATH": f"{BIN}:{os.environ['PATH']}"}

    def here(self, command: str) -> str:
        return command.replace("10.40.0.1:20408", self.address)

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", self.here(command)],
            cwd=self.folder,
            env={**self.environment, "LG_COORDINATOR": self.address, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def service(self, command: str, ready: str) -> Iterator[str]:
        """Run a command of the page until the context ends. Yield what it printed when it was ``ready``."""
        log = self.folder / f"{command.split()[0]}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self.here(command)}"],
                cwd=self.folder,
                env={**self.environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            wait_until(ready, lambda: ready in log.read_text() or process.poll() is not None, 30)
            assert process.poll() is None, log.read_text()
            yield log.read_text()
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert found is not None
    (tmp_path / "exporter.yaml").write_text(found[1])
    rack = Rack(tmp_path)
    coordinator, exporter = LABGRID.commands[:2]
    with rack.service(coordinator, "listening on") as said:
        rack.address = said.partition("listening on ")[2].split()[0]
        with rack.service(exporter, "Exporter ready"):
            yield rack


def test_the_services_start_and_the_place_has_its_resources(rack: Rack) -> None:
    export, create, match, console, release = LABGRID.commands[2:]
    assert export == "export LG_COORDINATOR=10.40.0.1:20408"
    for command in (create, match):
        done = rack.run(command)
        assert done.returncode == 0, done.stderr
    offered = "rack/pi4-1/NetworkPowerPort"
    wait_until(offered, lambda: offered in rack.run("labgrid-client resources").stdout, 30)
    done = rack.run(console)
    assert "acquired place pi4-1" in done.stdout
    # There is no serial adapter here. Nothing else is missing.
    assert re.search(r"Not all resources are available: \{NetworkSerialPort\([^{}]*\)\}", done.stderr)
    shown = rack.run("labgrid-client -p pi4-1 show").stdout
    assert set(re.findall(r"^Acquired resource '(\w+)'", shown, re.M)) == {
        "NetworkService",
        "NetworkPowerPort",
        "USBSerialPort",
    }
    assert rack.run(release).stdout == "released place pi4-1\n"


def test_the_lab_file_of_init_names_what_the_doctor_then_needs(rack: Rack) -> None:
    init = f"pinet init --bench -o my-bench.yaml --coordinator 10.40.0.1:20408 {' '.join(ANSWERS)}"
    done = rack.run(init)
    assert done.returncode == 0, done.stderr
    variables = re.findall(r"^  export (\w+)=", done.stdout, re.M)
    assert variables == ["LG_CONSOLE_PASSWORD", "LG_SNMP_COMMUNITY"]
    assert rack.run("pinet check my-bench.yaml").returncode == 0
    # The comments of the file make the places.
    text = (rack.folder / "my-bench.yaml").read_text()
    makers = re.findall(r"^#   (labgrid-client .* create && .*)$", text, re.M)
    assert [rack.run(command).returncode for command in makers] == [0, 0]

    unset = rack.run("pinet doctor --lab my-bench.yaml")
    assert "run: export LG_CONSOLE_PASSWORD=..." in " ".join(unset.stdout.split())
    # The doctor then finds the coordinator, and that nothing serves the second place.
    done = rack.run("pinet doctor --lab my-bench.yaml pi4-2", **dict.fromkeys(variables, "secret"))
    assert re.search(r"^ok   coordinator", done.stdout, re.M), done.stdout
    assert re.search(r"^BAD  exporter", done.stdout, re.M), done.stdout


def test_one_board_is_measured_against_the_machine_that_runs_pytest(rack: Rack) -> None:
    (block,) = (block for block in blocks_of(PAGE) if "pinet init" in block.commands[0])
    one = [word for word in ANSWERS if "pi4-2" not in word]
    # The kernel of a virtual machine may report no link speed.
    answers = f"--coordinator 10.40.0.1:20408 --speed 1G --port=pc=2 --interface pc={wired_nic()} {' '.join(one)}"
    done = rack.run(f"{block.commands[0]} {answers}")
    assert done.returncode == 0, done.stderr
    text = (rack.folder / "my-bench.yaml").read_text()
    makers = re.findall(r"^#   (labgrid-client .* create.*)$", text, re.M)
    assert [rack.run(command).returncode for command in makers] == [0, 0]
    secrets = {"LG_CONSOLE_PASSWORD": "x", "LG_SNMP_COMMUNITY": "x"}
    done = rack.run("pinet calibrate --dry-run --lab my-bench.yaml", **secrets)
    assert done.returncode == 0, done.stderr
    assert "pi4b:onboard/pair: 20 connections" in done.stderr
    doctor = rack.run("pinet doctor --lab my-bench.yaml pc", **secrets)
    assert re.search(r"^ok   places free", doctor.stdout, re.M), doctor.stdout


def wired_nic() -> str:
    """Return a NIC of this machine."""
    return next(nic.name for nic in sorted(Path("/sys/class/net").iterdir()) if (nic / "device").exists())
