"""Entry points of every kind: ours are found like other packages' entry points.

All are read once, at the first lookup.
"""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from pytest_pinet.cli.runs import load_exporter
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.evidence.sources import ORDER as SOURCES
from pytest_pinet.evidence.sources import installed_sources
from pytest_pinet.execution import entry_points
from pytest_pinet.execution.entry_points import (
    EVIDENCE_SOURCES,
    EXPORTERS,
    LAUNCHERS,
    RUN_EXPORTERS,
    SWITCH_BACKENDS,
    TRAFFIC_TOOLS,
    TUNINGS,
    Extension,
    missing,
)
from pytest_pinet.lab.launcher import Launcher, launcher_of
from pytest_pinet.lab.switch.switchport import connect
from pytest_pinet.model.lab import Lab, Switch
from pytest_pinet.tuning.registry import ORDER as SETTINGS
from pytest_pinet.tuning.registry import read_tuning

SETUP = Path(__file__).parents[3] / "setup.cfg"
MODULE = """
class Setting:
    name = form = where = disruptive = None
    def parse(self, value): return str(value)
    read = change = restore = holds = effect = parse
class Misnamed(Setting):
    name = "other"
class Half:
    name = "half"
    def parse(self, value): return str(value)
def connect(switch, settings): return object()
def number(points): return 7
def broken(): raise RuntimeError("no licence")
text = "no function"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of installed packages on Python's path."""
    (tmp_path / "odd_parts.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(folder: Path, group: Extension, name: str, target: str, package: str = "odd") -> None:
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group.name}]\n{name} = odd_parts:{target}\n")
    # The result for this path is cached, because packages do not change during a run.
    entry_points._registered.cache_clear()


def test_all_that_setup_cfg_registers_can_be_loaded() -> None:
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(SETUP)
    groups = (TRAFFIC_TOOLS, TUNINGS, SWITCH_BACKENDS, LAUNCHERS, EVIDENCE_SOURCES, EXPORTERS, RUN_EXPORTERS)
    for group in groups:
        lines = parser["options.entry_points"][group.name].split("\n")
        ours = {line.partition(" = ")[0] for line in lines if line}
        assert ours <= group.names, "run `make .venv/developer`: setup.cfg has changed"
        for name in ours:
            group.load(name)


def test_the_orders_name_exactly_our_entry_points() -> None:
    assert set(SETTINGS) == {name for name in TUNINGS.names if "pytest-pinet" in TUNINGS.load(name)[1]}
    assert [source.name for source in installed_sources()[: len(SOURCES)]] == list(SOURCES)


def test_they_are_read_when_a_name_is_looked_up_and_once() -> None:
    code = (
        "import sys; from pytest_pinet.execution.entry_points import TUNINGS, _registered as read; "
        "from pytest_pinet.tuning.registry import boot_part, read_tunings; "
        "boot_part(read_tunings({})[0]); "
        "assert read.cache_info().misses == 0; "
        "assert not {'pytest_pinet.tuning.stack_settings', 'pytest_pinet.tuning.nic_settings'} & set(sys.modules); "
        "read_tunings([{'mtu': 9000}, {'rps': 'all'}]); TUNINGS.names; "
        "assert read.cache_info().misses == 1; "
        "assert 'pytest_pinet.tuning.stack_settings' in sys.modules; "
        "assert 'pytest_pinet.tuning.nic_settings' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("half", "Half", "is not a tuning: Half has no method 'change', 'disruptive', 'effect', 'form', "),
        ("odd", "Misnamed", "has the name 'other'; expected the name that its package registers"),
        ("odd", "broken", "cannot be made: RuntimeError: no licence"),
        ("odd", "text", "is not a tuning: str has no method 'change', "),
        ("odd", "absent", "cannot be imported: AttributeError: module 'odd_parts' has no attribute 'absent'"),
    ],
)
def test_a_tuning_that_cannot_be_used_is_one_sentence(installed: Path, name: str, target: str, says: str) -> None:
    install(installed, TUNINGS, name, target)
    with pytest.raises(ConfigError) as caught:
        read_tuning({name: 1})
    assert str(caught.value).startswith(f"tuning '{name}' of package odd 1.0 {says}")
    assert "\n" not in str(caught.value)


def test_a_tuning_that_two_packages_have_is_refused(installed: Path) -> None:
    install(installed, TUNINGS, "twice", "Setting", "one")
    install(installed, TUNINGS, "twice", "Misnamed", "two")
    with pytest.raises(ConfigError, match=r"^tuning 'twice' is in package one 1\.0 and in package two 1\.0: "):
        read_tuning({"twice": 1})


def test_a_backend_a_launcher_and_an_exporter_of_the_wrong_kind_are_named(installed: Path) -> None:
    install(installed, SWITCH_BACKENDS, "odd", "connect", "a")
    install(installed, LAUNCHERS, "odd", "Half", "b")
    install(installed, EXPORTERS, "odd", "number", "c")
    install(installed, EXPORTERS, "text", "text", "d")
    with pytest.raises(
        ConfigError, match=r"^switch backend 'odd' of package a 1\.0 is not a switch backend: object has no"
    ):
        connect(Switch("sw", "odd", ("p1",), {}, Where("bench.yaml")), {})
    with pytest.raises(
        ConfigError, match=r"^launcher 'odd' of package b 1\.0 is not a launcher: Half has no method 'down', "
    ):
        launcher_of(Lab("bench", "bench.yaml", {}, {}, launcher="odd"))
    with pytest.raises(ConfigError, match=r"^exporter 'odd' of package c 1\.0 returned int; expected text$"):
        load_exporter(EXPORTERS, "odd", "the values of a run")([[]])
    with pytest.raises(ConfigError, match=r"^exporter 'text' of package d 1\.0 is not callable; expected a function"):
        load_exporter(EXPORTERS, "text", "the values of a run")


def test_missing_members_are_found_without_calling_them() -> None:
    class Wanted(Protocol):
        @property
        def asks_a_device(self) -> int: ...

        def close(self) -> None: ...

    class Half:
        @property
        def asks_a_device(self) -> int:
            raise AssertionError("asked")

    assert missing(Half(), Wanted) == ["close"]
    assert not missing(launcher_of(Lab("bench", "bench.yaml", {}, {}, launcher="virtual")), Launcher)
