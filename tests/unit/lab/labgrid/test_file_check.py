"""``pinet check`` says what is wrong with the targets of a lab file. labgrid says it only when a board is used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError
from pytest_pinet.lab import drivers
from pytest_pinet.lab.labgrid.targets import OWN_DRIVERS, Targets

LAB = """\
imports: [pytest_pinet.lab.drivers]
targets:
  main:
    resources:
      NetworkService: {address: 192.0.2.5, username: root}
    drivers:
      PiSSHDriver: {}
      PiStrategy: {}
pinet:
  switches: {cable: {backend: fixed, ports: [pi]}}
  nodes:
    pi: {board: pi4b, target: main, interfaces: {onboard: {port: cable/pi}}}
"""
# A strategy as labgrid's documentation shows them.
STRATEGY = """\
import attr
from labgrid import target_factory
from labgrid.strategy import Strategy

@target_factory.reg_driver
@attr.s(eq=False)
class MyShellStrategy(Strategy):
    bindings = {"ssh": "SSHDriver"}
"""
ONLY_OURS = "pytest-pinet boots boards only with PiStrategy: "
MISTAKES = [
    (
        "a strategy of the user",
        [("imports: [", "imports: [own.py, "), ("      PiStrategy", "      MyShellStrategy")],
        f"8: target 'main' of node 'pi' has the strategy MyShellStrategy, but {ONLY_OURS}replace MyShellStrategy by "
        "PiStrategy, and add pytest_pinet.lab.drivers to 'imports'",
    ),
    (
        "a strategy of labgrid",
        [("PiStrategy", "ShellStrategy")],
        f"8: target 'main' of node 'pi' has the strategy ShellStrategy, but {ONLY_OURS}replace ShellStrategy by "
        "PiStrategy, and add pytest_pinet.lab.drivers to 'imports'",
    ),
    (
        "two strategies",
        [("      PiStrategy: {}\n", "      PiStrategy: {}\n      ShellStrategy: {}\n")],
        "9: target 'main' of node 'pi' has the strategies PiStrategy and ShellStrategy, but can have only one: "
        "remove ShellStrategy",
    ),
    (
        "one strategy twice",
        [("PiSSHDriver: {}\n      PiStrategy: {}", "- PiSSHDriver: {}\n    - PiStrategy: {}\n    - cls: PiStrategy"),
         ("    drivers:\n      -", "    drivers:\n    -")],
        "9: target 'main' of node 'pi' has two strategies, but can have only one: remove PiStrategy",
    ),
    (
        "no strategy",
        [("      PiStrategy: {}\n", "")],
        "6: target 'main' of node 'pi' has no strategy: add `PiStrategy: {}` to its drivers, and "
        "pytest_pinet.lab.drivers to 'imports'",
    ),
    (
        "no drivers",
        [("    drivers:\n      PiSSHDriver: {}\n      PiStrategy: {}\n", "")],
        "3: target 'main' of node 'pi' has no strategy: add `PiStrategy: {}` to its drivers, and "
        "pytest_pinet.lab.drivers to 'imports'",
    ),
    (
        "no ssh driver",
        [("      PiSSHDriver: {}\n", "")],
        "6: target 'main' of node 'pi' has no ssh driver, which a lab without a coordinator needs: add "
        "`PiSSHDriver: {}`",
    ),
    (
        "no import",
        [("imports: [pytest_pinet.lab.drivers]\n", "")],
        "6: PiSSHDriver needs an import: add `imports: [pytest_pinet.lab.drivers]` to this file",
    ),
    (
        "an unknown driver",
        [("      PiStrategy", "      SSHDrivr: {}\n      PiStrategy")],
        "8: unknown driver 'SSHDrivr' in target 'main': did you mean 'SSHDriver'? If not, add the module that has it "
        "to 'imports'",
    ),
    (
        "an unknown resource",
        [("    drivers", "      Qqqq: {}\n    drivers")],
        "6: unknown resource 'Qqqq' in target 'main': add the module that has it to 'imports'",
    ),
    (
        "a resource among the drivers",
        [("      PiStrategy", "      RemotePlace: {name: x}\n      PiStrategy")],
        "8: RemotePlace is none of labgrid's drivers: write it below 'resources' of target 'main'",
    ),
    (
        "a missing argument",
        [(", username: root", "")],
        "5: targets.main.resources.NetworkService lacks the key 'username', which NetworkService needs",
    ),
    (
        "a module that cannot be imported",
        [("imports: [", "imports: [broken.py, ")],
        ": a module of 'imports' cannot be imported: ZeroDivisionError: division by zero",
    ),
    (
        "a module that ends the program",
        [("imports: [", "imports: [ends.py, ")],
        ": a module of 'imports' cannot be imported: SystemExit: no hardware here",
    ),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(STRATEGY)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "ends.py").write_text("raise SystemExit('no hardware here')\n")
    return tmp_path


def write(folder: Path, changes: list[tuple[str, str]]) -> None:
    text = LAB
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "desk.yaml").write_text(text)


@pytest.mark.parametrize(("changes", "says"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES])
def test_check_names_the_line_and_what_to_do(
    folder: Path,
    changes: list[tuple[str, str]],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(folder, changes)
    monkeypatch.chdir(folder)
    assert run(["check", "desk.yaml"]) == 4
    assert capsys.readouterr().err == f"pinet: desk.yaml{'' if says.startswith(':') else ':'}{says}\n"


@pytest.mark.parametrize("command", ["doctor", "discover"])
def test_the_other_commands_say_the_same(folder: Path, command: str) -> None:
    write(folder, MISTAKES[0][1])
    # In a process of its own: labgrid takes the classes of a module only once.
    done = subprocess.run(
        [Path(sys.executable).with_name("pinet"), command, "--lab", "desk.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"desk.yaml:{MISTAKES[0][2]}" in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
    assert done.returncode == 4


def test_a_target_without_its_resource_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    # No exporter serves a lab without a coordinator.
    path = tmp_path / "desk.yaml"
    path.write_text(re.sub(r"    resources:\n.*\n", "    resources: {}\n", LAB))
    lab = load(path)
    targets = Targets(lab)
    with pytest.raises(ConfigError, match=r"desk.yaml:11: labgrid cannot build target 'main': .*NetworkService"):
        targets.make(lab.nodes["pi"])


def test_our_drivers_are_known_by_name() -> None:
    assert set(drivers.__all__) == OWN_DRIVERS
