"""A third-party package with a traffic tool, a tuning, an exporter, an evidence source and hooks.

``install`` makes a folder for PYTHONPATH in which the package is installed: this file as its module, and the metadata
that pip would write.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_pinet.evidence.sources import Texts
from pytest_pinet.history.points import Point
from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.setting import SettingScope
from pytest_pinet.tuning.values import whole

if TYPE_CHECKING:
    from pytest_pinet import Link
    from pytest_pinet.model.record.result import ResultRecord

ENTRY_POINTS = """
[pytest11]
acme = pinet_acme

[pytest_pinet.traffic_tools]
acme = pinet_replay:ReplayTool

[pytest_pinet.tunings]
queue_length = pinet_acme:QueueLength

[pytest_pinet.evidence_sources]
acme_load = pinet_acme:Load

[pytest_pinet.exporters]
acme-lines = pinet_acme:lines
acme-broken = pinet_acme:broken
"""


class QueueLength(FileSetting):
    """The number of packets that may wait in front of a NIC."""

    name = "queue_length"
    form = "a number of packets such as 1000"
    where = SettingScope.DUT_DEVICE
    files = ("tx_queue_len",)

    def parse(self, value: object) -> str:
        return whole(value, self.form, 1, 100_000)


class Load:
    """The load averages, kept only as text."""

    name = "acme_load"

    def files(self, device: str) -> Sequence[str]:
        return ("/proc/loadavg",)

    def command(self, device: str) -> str:
        return ""

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        return evidence


def lines(points: Sequence[Point]) -> str:
    """Return a line per value."""
    return "".join(f"{point.figure},{(point.value or 0) / 1e6:.1f}\n" for point in points)


def broken(points: Sequence[Point]) -> str:
    """Raise an error, as third-party code may do."""
    raise KeyError("no such column")


def pytest_pinet_machine_facts(item: pytest.Item, link: Link) -> Mapping[str, object]:
    """Return facts that the shelf knows."""
    return {"shelf": 3, "dut": link.dut.endpoint.node.name}


@pytest.hookimpl(optionalhook=True)
def pytest_pinet_result(result: ResultRecord) -> None:
    """Try to change the result, then raise an error."""
    result.build["uname"] = "changed"
    raise RuntimeError(f"the chat is down\nand has more to say of {result.verdict}")


def install(folder: Path) -> Path:
    """Make the folder, which also has the module of ``replay_tool``."""
    from tests.support import replay_tool

    replay_tool.install(folder)
    metadata = folder / "pinet_acme-2.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pinet-acme\nVersion: 2.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copyfile(__file__, folder / "pinet_acme.py")
    return folder
