"""The virtual lab as the tests of the gate see it, and folders in which pytest runs as a user would run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import Runtime

LAB_FILE = Path(__file__).parents[2] / "lab" / "virtual.yaml"
BIN = Path(sys.executable).parent
PINET = str(BIN / "pinet")
# By these pytest knows a CI, where it prints whole reasons in its summary.
CI = ("CI", "BUILD_NUMBER")


def lab_text() -> str:
    """The default lab as tests run it, without its trial: what this machine carries is none of their business.

    Tests side by side do not measure, and so need not wait for each other's traffic: a domain for each worker.
    """
    domain = os.environ.get("PYTEST_XDIST_WORKER", "host")
    text = LAB_FILE.read_text()
    for old, new in (("scale: auto", "scale: 1"), ('    host: "*"', f'    {domain}: "*"')):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def wait_until(what: str, condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait for a condition; the message says what for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:g} s still waiting for {what}")
        time.sleep(0.05)


class GateLab:
    """The virtual lab that runs, as a user sees it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lab = load(file)
        self._runtime = Runtime.of(str(file))
        self.environment = dict(launcher().up(self._lab))

    def down(self) -> None:
        launcher().down(self._lab)

    def pinet(self, command: str, *words: str) -> str:
        """Run ``pinet lab COMMAND --lab FILE WORDS``."""
        argv = [PINET, "lab", command, "--lab", str(self.file), *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.pinet("status", "--json"))
        return found

    def nodes_on(self) -> set[str]:
        return {node["name"] for node in self.status()["nodes"] if node["power"] == "on"}

    def switch_power(self, on: bool, *nodes: str) -> None:
        """Through the PDU, as somebody who does not lease."""
        ports = self._runtime.read_json("ports.json")
        assert ports is not None
        for node in nodes:
            index = list(self._lab.nodes).index(node) + 1
            url = f"http://127.0.0.1:{ports['pdu']}/relay/{index}/value"
            urlopen(Request(url, data=b"1" if on else b"0", method="PUT"), timeout=20).close()

    def await_boot(self, *nodes: str) -> None:
        for node in nodes:
            wait_until(f"the boot of {node}", lambda node=node: self.answers(node))  # type: ignore[misc]

    def answers(self, node: str) -> bool:
        """Whether it runs what it is told to."""
        argv = [PINET, "lab", "exec", "--lab", str(self.file), node, "--", "true"]
        try:
            return subprocess.run(argv, capture_output=True, timeout=20, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def addresses(self, node: str) -> list[str]:
        """Every IPv4 address of a node but that of its loopback."""
        lines = self.pinet("exec", node, "--", "ip", "-o", "-4", "addr").splitlines()
        return [line.split()[3] for line in lines if line.split()[1] != "lo"]

    def port_groups(self) -> dict[str, str]:
        """The bridge that each switch port is in, whatever the switch's management says."""
        (switch,) = self.status()["switches"]
        groups: dict[str, str] = switch["groups"]
        return groups

    def holders(self) -> list[str]:
        """The places that somebody holds, as labgrid's own client tells."""
        argv = [str(BIN / "labgrid-client"), "-x", self.environment["LG_COORDINATOR"], "places", "--acquired"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout.split()

    def processes(self, name: str) -> list[int]:
        """Processes of this name in the nodes, seen from the host, so that a frozen node is seen, too."""
        machines = self._runtime.read_json("machines.json") or {"processes": []}
        own = Path("/proc/self/ns/pid").readlink()
        spaces = {link for p in machines["processes"] if (link := _pid_namespace(p["pid"])) not in (own, None)}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _pid_namespace(int(entry.name)) in spaces:
                try:
                    if (entry / "comm").read_text().strip() == name:
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def await_traffic(self) -> None:
        """Wait until both ends of a measurement run."""
        wait_until("traffic to start", lambda: len(self.processes("iperf3")) >= 2, timeout_s=40)


def _pid_namespace(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None


RunResult = pytest.RunResult  # in the class below ``pytest`` is a method


class Project:
    """A folder with test files of a user of the gate; pytest runs there in a process of its own."""

    def __init__(self, folder: Path, lab: GateLab) -> None:
        self.path = folder
        self.lab = lab
        # A warning of ours, or one that we provoke, would be an error.
        (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def argv(self, *options: str, lab_file: Path | None = None) -> list[str]:
        # Plugins that cost half a second of each run and are none of ours.
        words = (
            "-m",
            "pytest",
            "-p",
            "no:hypothesispytest",
            "-p",
            "no:allure_pytest",
            f"--pinet-lab={lab_file or self.lab.file}",
        )
        return [sys.executable, *words, *options]

    def environment(self, **more: str) -> dict[str, str]:
        ours = ("PYTEST_", "LG_", "PINET_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k not in CI}
        return {**kept, "LAB": str(self.lab.file), "PINET": PINET, "COLUMNS": "80", **more}

    def pytest(
        self, *options: str, timeout_s: float = 120, lab_file: Path | None = None, **environment: str
    ) -> pytest.RunResult:
        """Run pytest to its end."""
        started = time.perf_counter()
        done = subprocess.run(
            self.argv(*options, lab_file=lab_file),
            cwd=self.path,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        print(done.stdout, done.stderr)  # noqa: T201  (pytest shows it when the test fails)
        lines, errors = done.stdout.splitlines(), done.stderr.splitlines()
        return pytest.RunResult(done.returncode, lines, errors, time.perf_counter() - started)

    def undisturbed(self, *options: str) -> RunResult:
        """As ``pytest``; again where this machine had something else to do: a dip makes a good figure marginal."""
        output = self.pytest(*options)
        for _ in range(2):
            if "marginal" in self.verdicts.values():
                output = self.pytest(*options)
        return output

    @property
    def results(self) -> dict[str, Any]:
        """``results.json`` of the latest run."""
        found: dict[str, Any] = json.loads((self.path / ".pinet" / "latest" / "results.json").read_text())
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each test in the latest run, in the order in which they came."""
        return {result["test"].partition("::")[2]: result["verdict"] for result in self.results["results"]}


NewProject = Callable[[Mapping[str, str]], Project]
