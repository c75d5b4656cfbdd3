"""The findings of ``pinet doctor`` on places, with a real coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.doctor.bench import Bench, Finding, Status, lines
from pytest_pinet.doctor.examine import CHECKS, run
from pytest_pinet.doctor.node_checks import check_coordinator
from tests.support.labgrid_server import LabgridServer, labgrid_server

LAB = """\
options: {{coordinator_address: "{address}"}}
pinet:
  switches:
    s: {{backend: fixed, ports: p1-p9}}
  nodes:
    one: {{board: pi4b, place: pi1, interfaces: {{onboard: {{port: s/p1}}}}}}
    two: {{board: pi4b, place: pi2, interfaces: {{onboard: {{port: s/p2}}}}}}
  domains:
    rack: [one, two]
    shelf: [one]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabgridServer]:
    with labgrid_server(tmp_path_factory.mktemp("coordinator")) as started:
        yield started


def places_free(server: LabgridServer, folder: Path) -> list[Finding]:
    file = folder / "lab.yaml"
    file.write_text(LAB.format(address=server.address))
    lab = load(file)
    bench = Bench(lab, list(lab.nodes.values()), lambda text: None)
    try:
        check_coordinator(bench)
        ((_, found),) = run([check for check in CHECKS if check.name == "places free"], bench)
        return found
    finally:
        assert bench.close() == []


def test_a_contention_domain_without_a_place_is_reported_with_the_command_that_creates_it(
    server: LabgridServer, tmp_path: Path
) -> None:
    server.alice("domain-shelf", "create")
    found = places_free(server, tmp_path)
    assert [(f.node, f.status) for f in found] == [("one", Status.OK), ("two", Status.OK), (None, Status.UNKNOWN)]
    text = " ".join(" ".join(lines("places free", found)).split())
    assert text == (
        "? places free 2 nodes contention domain rack has no place, so only runs on this host wait for each other "
        f"-> if other hosts measure in this lab, too: labgrid-client -x {server.address} -p domain-rack create"
    )
    server.alice("domain-rack", "create")
    assert {f.status for f in places_free(server, tmp_path)} == {Status.OK}
    for place in ("domain-rack", "domain-shelf"):
        server.alice(place, "delete")


def test_places_that_another_user_holds_are_named_and_the_others_leased(server: LabgridServer, tmp_path: Path) -> None:
    server.alice("pi1", "acquire", "--allow-unmatched")
    found = {f.node: f for f in places_free(server, tmp_path) if f.node is not None}
    server.alice("pi1", "release")
    assert found["one"].status is Status.WRONG
    assert found["one"].message.startswith("place pi1 is held by otherhost/alice since ")
    assert found["two"].status is Status.OK
