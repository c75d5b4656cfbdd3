"""The way of ssh into the boards of a lab with a launcher."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual.namespaces import LinkInfo, LinkWatch, NetNamespace
from pytest_pinet.virtual.node import panic_at_boot, panic_in_traffic, stamped
from pytest_pinet.virtual.spec import LabSpec, ManagementSpec, spec_of

LABS = Path(__file__).parents[3] / "lab"


def changed(folder: Path, old: str, new: str) -> Lab:
    text = (LABS / "single-port.yaml").read_text()
    assert old in text
    (folder / "lab.yaml").write_text(text.replace(old, new))
    return load(folder / "lab.yaml")


def test_boards_with_one_port_share_a_network_with_their_switch() -> None:
    nodes = spec_of(load(LABS / "single-port.yaml")).nodes
    assert nodes[0].management == ManagementSpec("eth0", "10.77.1.2/24", "10.77.1.1/24")
    ways = [node.management for node in nodes if node.management is not None]
    assert len({way.address for way in ways}) == len(nodes)
    assert {way.gateway for way in ways} == {"10.77.1.1/24"}
    assert nodes[0].management.host == "10.77.1.2"


def test_a_tagged_vlan_is_a_network_of_its_own() -> None:
    untagged, tagged, peer = spec_of(load(LABS / "single-port-emulated.yaml")).nodes
    assert untagged.management == ManagementSpec("eth0", "10.77.1.2/24", "10.77.1.1/24")
    assert tagged.management == ManagementSpec("eth0", "10.77.2.3/24", "10.77.2.1/24", 4000)
    assert peer.management is None


def test_the_daemon_gets_the_same_specification(tmp_path: Path) -> None:
    spec = spec_of(load(LABS / "single-port-emulated.yaml"))
    spec.write(tmp_path / "spec")
    assert LabSpec.read(tmp_path / "spec") == spec


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("wifi", "node pi5-1 has management: wifi, but the virtual lab has no Wi-Fi"),
        ("vlan:7", "node pi5-1 has management: vlan:7, which needs an emulated board"),
    ],
)
def test_ways_that_the_virtual_lab_does_not_have_are_refused(tmp_path: Path, way: str, says: str) -> None:
    lab = changed(tmp_path, "      board: pi5\n      management: same", f"      board: pi5\n      management: {way}")
    with pytest.raises(ConfigError) as caught:
        spec_of(lab)
    assert says in str(caught.value)


def test_other_boards_keep_a_way_of_their_own(tmp_path: Path) -> None:
    lab = changed(tmp_path, "      board: pi5\n      management: same", "      board: pi5\n      management: separate")
    assert spec_of(lab).nodes[-1].management is None


class OwnNamespace:
    """The namespace of this process."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        yield


def test_a_watch_reads_all_devices_at_the_start_and_ends_when_its_socket_is_closed() -> None:
    seen: list[Mapping[str, LinkInfo]] = []

    async def run() -> None:
        async def follow(links: Mapping[str, LinkInfo]) -> None:
            seen.append(links)
            watch._socket.close()

        watch = LinkWatch(cast(NetNamespace, OwnNamespace()), follow)
        await asyncio.wait_for(watch._task, 5)
        watch.close()

    asyncio.run(run())
    assert [links["lo"].mtu for links in seen] == [65536]


@pytest.mark.parametrize("lines", [panic_at_boot("Raspberry Pi 4"), panic_in_traffic("Raspberry Pi 4")])
def test_a_panic_has_a_first_line_a_trace_and_a_last_line(lines: list[str]) -> None:
    text = stamped(lines, 1.5)
    assert text.startswith("[    1.500000] ")
    assert "Kernel panic - not syncing: " in text
    assert "Hardware name: Raspberry Pi 4 (DT)" in text
    assert "Call trace:" in text
    assert lines[-1].startswith("---[ end Kernel panic - not syncing: ")
