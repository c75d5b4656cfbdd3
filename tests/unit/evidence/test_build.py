"""The board's serial number from its device tree, and the hash of measurement parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.evidence.build import parse_serial, read_serial
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.result_record import parameters_hash, with_tool
from tests.support.local_shell import LocalShell

TRAFFIC = Traffic(Direction.TX)


@pytest.mark.parametrize(
    ("text", "serial"),
    [
        ("10000000abcdef01\0", "10000000abcdef01"),
        ("c3d9b8674f4b94f6\0\n", "c3d9b8674f4b94f6"),
        ("", None),
        ("cat: cannot open", None),
        ("\0\0", None),
        ("x" * 65, None),
    ],
)
def test_a_serial_number_ends_in_nul(text: str, serial: str | None) -> None:
    assert parse_serial(text) == serial


def test_a_machine_without_a_device_tree_has_none() -> None:
    file = Path("/proc/device-tree/serial-number")
    assert read_serial(LocalShell()) == (parse_serial(file.read_text()) if file.exists() else None)


def test_the_same_parameters_have_the_same_hash() -> None:
    # This value must never change: it would cut every trend.
    assert parameters_hash(TRAFFIC, 1500) == parameters_hash(Traffic(Direction.TX), 1500) == "c59210ac09be"


def test_values_of_another_tool_have_another_hash() -> None:
    assert with_tool("c59210ac09be", "iperf3") == with_tool("c59210ac09be", "wrk") == "c59210ac09be"
    assert with_tool("c59210ac09be", "netperf") != with_tool("c59210ac09be", "replay") != "c59210ac09be"


@pytest.mark.parametrize(
    "other", [{"duration_s": 6.0}, {"warmup_s": None}, {"window": 65536}, {"bitrate": Bitrate(1e6)}, {"udp": True}]
)
def test_other_parameters_have_another_hash(other: dict[str, Any]) -> None:
    assert parameters_hash(replace(TRAFFIC, **other), 1500) != parameters_hash(TRAFFIC, 1500)
    assert parameters_hash(TRAFFIC, 9000) != parameters_hash(TRAFFIC, 1500)
