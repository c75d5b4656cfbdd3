"""The virtual lab for tests of the gate, and folders in which pytest runs as a user would run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from pytest_pinet.cli.lab import lab as lab_command
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LabError
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import Runtime, ssh_command, status
from tests.support.inner_run import WITHOUT_HYPOTHESIS
from tests.support.user_command import run_command
from tests.support.waiting import wait_until

LAB_FILE = Path(__file__).parents[2] / "lab" / "virtual.yaml"
BIN = Path(sys.executable).parent
PINET = str(BIN / "pinet")
LINE_RATE_SUITE = Path(__file__).parents[2] / "pytest_pinet" / "suites" / "test_line_rate.py"
# pytest detects CI by these variables. In CI it prints full reasons in its summary.
CI = ("CI", "BUILD_NUMBER")
# For a conftest, where the lab makes a link slow: processor time that other programs or a hypervisor took meanwhile is
# then no excuse, which would make the result invalid. tests/unit/judge/test_busy.py tests the excuse.
SLOW_ON_PURPOSE = """
from pytest_pinet.judge import circumstances

circumstances.KINDS, circumstances.STOLEN = (), float("inf")
"""
# Links of test labs run at this share of their rate. Reports give values at full rate; counters do not.
SCALE = 0.1


def lab_text(file: Path = LAB_FILE, scale: float = SCALE) -> str:
    """Return a lab file for tests: links run at a tenth of their rate, which even a busy machine can carry.

    Each process has its own domain, so that tests that run in parallel need not wait for each other.
    """
    domain = f"host{os.getpid()}"
    text = file.read_text()
    for old, new in (("scale: auto", f"scale: {scale:g}"), ('    host: "*"', f'    {domain}: "*"')):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def lab_that_runs(lab: GateLab, keys: str) -> str:
    """Return a lab file for the running lab, with ``keys`` instead of the launcher and the scale."""
    return lab.text_without_launcher().replace("\npinet:\n", f"\npinet:\n{keys}", 1)


class GateLab:
    """The running virtual lab, as a user sees it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lab = load(file)
        self._runtime = Runtime.of(str(file))
        self.environment = dict(launcher().up(self._lab))

    def down(self) -> None:
        launcher().down(self._lab)

    def pinet(self, command: str, *words: str) -> str:
        """Run ``pinet lab COMMAND --lab FILE WORDS`` in a process of its own, which takes a second."""
        return _output([PINET, "lab", command, "--lab", str(self.file), *words])

    def execute(self, node: str, *command: str) -> str:
        """Run a command on a node."""
        return _output(ssh_command(str(self.file), node, command))

    def degrade(self, target: str, *words: str) -> None:
        """Do what ``pinet lab degrade TARGET WORDS`` does."""
        self._in_process("degrade", target, *words)

    def restore(self, *target: str) -> str:
        """Do what ``pinet lab restore [TARGET]`` does, and return what it prints."""
        return self._in_process("restore", *target)

    def _in_process(self, command: str, *words: str) -> str:
        done = CliRunner().invoke(lab_command, [command, "--lab", str(self.file), *words], catch_exceptions=False)
        assert done.exit_code == 0, f"{command} {words}: {done.output}"
        return done.output

    def text_without_launcher(self) -> str:
        """Return its lab file without launcher and scale, as for an existing lab."""
        lines = self.file.read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(("  launcher: ", "  scale: "))]
        assert len(kept) == len(lines) - 2
        return "".join(kept)

    def status(self) -> dict[str, Any]:
        found = status(str(self.file))
        assert found is not None
        return found

    def nodes_on(self) -> set[str]:
        return {node["name"] for node in self.status()["nodes"] if node["power"] == "on"}

    def switch_power(self, on: bool, *nodes: str) -> None:
        """Switch nodes through the PDU, as a user without a lease would."""
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
        """Return whether the node executes a command."""
        try:
            argv = ssh_command(str(self.file), node, ["true"])
            return subprocess.run(argv, capture_output=True, timeout=20, check=False).returncode == 0
        except (LabError, subprocess.TimeoutExpired):
            return False

    def addresses(self, node: str) -> list[str]:
        """Return every IPv4 address of a node except the loopback's."""
        lines = self.pinet("exec", node, "--", "ip", "-o", "-4", "addr").splitlines()
        return [line.split()[3] for line in lines if line.split()[1] != "lo"]

    def port_groups(self) -> dict[str, str]:
        """Return the bridge of each switch port, independent of the switch's management."""
        (switch,) = json.loads(self.pinet("status", "--json"))["switches"]
        groups: dict[str, str] = switch["groups"]
        return groups

    def holders(self) -> list[str]:
        """Return the acquired places, as labgrid's own client lists them."""
        argv = [str(BIN / "labgrid-client"), "-x", self.environment["LG_COORDINATOR"], "places", "--acquired"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout.split()

    def processes(self, name: str) -> list[int]:
        """Return the processes of this name in the nodes."""
        return processes_in(self._runtime, name)

    def await_traffic(self) -> None:
        """Wait until both ends of a measurement run."""
        wait_until("traffic to start", lambda: len(self.processes("iperf3")) >= 2, timeout_s=120)


def _output(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def processes_in(runtime: Runtime, name: str) -> list[int]:
    """Return the processes of this name in the nodes of a lab. It sees them from the host, also frozen nodes."""
    machines = runtime.read_json("machines.json") or {"processes": []}
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


def _pid_namespace(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None


@contextmanager
def lab_up(file: Path, text: str) -> Iterator[GateLab]:
    """Write ``text`` to ``file`` and yield its virtual lab."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    file.write_text(text)
    lab = GateLab(file)
    try:
        yield lab
    finally:
        lab.down()


class GateRun(pytest.RunResult):  # type: ignore[misc]  # final, but pytest's is what the tests know
    """A run whose outcomes are pytest's: marginal and improved tests passed, tests without a verdict had errors."""

    def parseoutcomes(self) -> dict[str, int]:
        found = super().parseoutcomes()
        for words, outcome in ((("marginal", "improved"), "passed"), (("inconclusive", "invalid"), "errors")):
            count = sum(found.pop(word, 0) for word in words)
            if count:
                found[outcome] = found.get(outcome, 0) + count
        return found


class Project:
    """A folder with a user's test files. pytest runs there in its own process."""

    def __init__(self, folder: Path, lab: GateLab) -> None:
        self.path = folder
        self.lab = lab
        # All warnings are errors, so that tests notice warnings of pytest-pinet.
        (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def argv(self, *options: str, lab_file: Path | None = None) -> list[str]:
        # Another plugin that costs half a second per run; ``environment`` disables Hypothesis.
        words = (
            "-m",
            "pytest",
            "-p",
            "no:allure_pytest",
            f"--pinet-lab={lab_file or self.lab.file}",
        )
        return [sys.executable, *words, *options]

    def environment(self, **more: str) -> dict[str, str]:
        ours = ("PYTEST_", "LG_", "PINET_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k not in CI}
        own = {"LAB": str(self.lab.file), "PINET": PINET, "COLUMNS": "80", "PYTEST_ADDOPTS": WITHOUT_HYPOTHESIS}
        return {**kept, **own, **more}

    def replayed(self, packages: Path, *options: str, keys: str = "  traffic_tool: replay\n") -> pytest.RunResult:
        """Run pytest on the running lab with these keys in its lab file, which use the packages of a folder."""
        file = self.path / "virtual.yaml"
        file.write_text(lab_that_runs(self.lab, keys))
        environment = {**self.lab.environment, "PYTHONPATH": str(packages)}
        return self.pytest(*options, lab_file=file, **environment)  # type: ignore[arg-type]  # none is a time

    def pytest(
        self, *options: str, timeout_s: float = 300, lab_file: Path | None = None, **environment: str
    ) -> pytest.RunResult:
        """Run pytest to its end."""
        started = time.perf_counter()
        done = run_command(
            self.argv(*options, lab_file=lab_file), self.path, self.environment(**environment), timeout_s
        )
        lines, errors = done.stdout.splitlines(), done.stderr.splitlines()
        return GateRun(done.returncode, lines, errors, time.perf_counter() - started)

    def pinet(self, *words: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a ``pinet`` command to its end."""
        return run_command([PINET, *words], self.path, self.environment(), timeout_s)

    @property
    def results(self) -> dict[str, Any]:
        """Return ``results.json`` of the latest run."""
        found: dict[str, Any] = json.loads((self.path / ".pinet" / "latest" / "results.json").read_text())
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        """Return the verdict of each test in the latest run, in order."""
        return {result["test"].partition("::")[2]: result["verdict"] for result in self.results["results"]}


NewProject = Callable[[Mapping[str, str]], Project]


def project_maker(tmp_path_factory: pytest.TempPathFactory, lab: GateLab) -> NewProject:
    """Return a function that makes a folder with test files, whose tests use this lab."""

    def make(files: Mapping[str, str]) -> Project:
        project = Project(tmp_path_factory.mktemp("project"), lab)
        for name, text in files.items():
            project.write(name, text)
        return project

    return make


def shaped(lab: GateLab, target: str, direction: str) -> float:
    """Return the goodput to which the virtual lab shapes an interface."""
    node, _, name = target.partition(":")
    interfaces = next(entry["interfaces"] for entry in lab.status()["nodes"] if entry["name"] == node)
    return float(next(entry for entry in interfaces if entry["name"] == name)[f"{direction}_goodput_bps"])
