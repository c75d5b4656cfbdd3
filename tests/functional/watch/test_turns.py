"""``pinet watch`` with two builds and its own traffic, on virtual boards: the builds alternate, and all is undone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.gate_project import PINET, GateLab

pytestmark = pytest.mark.slow
NODE = "pi5-1"


def test_two_builds_alternate_under_traffic_and_are_removed(gate_lab: GateLab, tmp_path: Path) -> None:
    on = gate_lab.nodes_on()
    for name, value in (("old", 1), ("new", 0)):
        (tmp_path / f"{name}.yaml").write_text(f"sysctls: {{net.ipv4.tcp_sack: {value}}}\n")
    words = ("--build", "new.yaml", "--against", "old.yaml", "--turn", "25 s", "--for", "100 s", "--traffic", "0 s")
    done = subprocess.run(
        [PINET, "watch", "ab", NODE, "--lab", str(gate_lab.file), *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    records = [json.loads(line) for line in (tmp_path / "ab" / "events.jsonl").read_text().splitlines()]
    assert [one["side"] for one in records if one["what"] == "turn"][:2] == ["A", "B"], done.stderr
    assert {one["way"] for one in records if one["what"] == "rate"} == {"tx", "rx"}
    # Our own boots, and links that are opened and closed, are no events.
    assert [one for one in records if one["what"] == "sign" and one["kind"] != "silence"] == []
    assert "A old: 0 stalls in " in done.stdout
    assert "B new: 0 stalls in " in done.stdout
    assert "h under traffic: below " in done.stdout
    assert done.returncode == 3
    assert gate_lab.nodes_on() == on
    assert gate_lab.holders() == []
