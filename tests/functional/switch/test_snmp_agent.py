"""SNMP with net-snmp's own agent: versions, access rights, missing tables, and changes confirmed without an effect."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import CapabilityError, SwitchError
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.switch import managed_switch, snmp
from pytest_pinet.lab.switch.switchport import Capability, PortState
from tests.support.linux_switch import LinuxBench, linux_bench
from tests.support.snmpd_agent import BRIDGE_MIB, SNMPD, V3, agent, managed, received_sets, switch_of

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not SNMPD or not shutil.which("snmpget"), reason="needs snmpd and snmp"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinuxBench]:
    with linux_bench(tmp_path_factory.mktemp("snmp")) as found, agent(found):
        yield found


@pytest.mark.parametrize(
    "settings",
    [
        {"version": "1", "community": "writes"},
        {"community": "reads", "write_community": "writes"},
        {**V3, "auth_protocol": "sha256", "priv_protocol": "aes"},
    ],
    ids=["v1", "v2c", "v3-authPriv"],
)
def test_a_port_goes_down_and_comes_up(shared: LinuxBench, settings: dict[str, str]) -> None:
    undo = UndoStack()
    with managed(switch_of(shared, **settings), shared) as switch:
        assert switch.capabilities == {Capability.LINK, Capability.ADMIN, Capability.COUNTERS}
        assert switch.state("p1").admin_up
        switch.set_admin("p1", False, undo)
        assert not shared.is_up("p1")
        assert undo.close() == []
        assert shared.is_up("p1")
        assert switch.counters(["p1", "p2"]).keys() == {"p1", "p2"}


def test_an_agent_without_vlans_cannot_rewire(shared: LinuxBench) -> None:
    with managed(switch_of(shared, community="writes"), shared) as switch:
        assert not switch.rewires
        switch.wire([frozenset({"p1", "p2"})], UndoStack())
        with pytest.raises(
            CapabilityError, match=r"cannot move a port to another VLAN; its capabilities: admin, counters, link"
        ):
            switch.set_vlan("p1", 20)


@pytest.mark.parametrize(
    ("settings", "says", "act"),
    [
        (
            {"community": "reads", "write_community": "wrong"},
            r"switch sw does not answer SNMP version 2c at 127\.0\.0\.1:1161 within 1 s",
            "check that the switch has power, and check its address and write_community in LAB:3; if it may only be "
            "read, write `read_only: true`",
        ),
        (
            {"community": "wrong"},
            r"switch sw does not answer SNMP version 2c at 127\.0\.0\.1:1161 within 1 s",
            "check that the switch has power, and check its address and community in LAB:3",
        ),
        (
            {**V3, "auth_key": "wrong-key-of-it"},
            r"switch sw at 127\.0\.0\.1:1161 refused SNMP: Wrong SNMP PDU digest",
            "correct user, protocols and keys of sw in LAB:3",
        ),
        (
            {**V3, "user": "nobody"},
            r"switch sw at 127\.0\.0\.1:1161 refused SNMP: Unknown USM user",
            "correct user, protocols and keys of sw in LAB:3",
        ),
        (
            {"community": "reads", "address": "snmp://127.0.0.1:9"},
            r"switch sw does not answer SNMP version 2c at 127\.0\.0\.1:9 within 1 s",
            "check that the switch has power, and check its address and community in LAB:3",
        ),
    ],
)
def test_a_refused_request_names_the_missing_right(
    shared: LinuxBench, settings: dict[str, str], says: str, act: str
) -> None:
    with managed(switch_of(shared, **settings), shared) as switch:
        with pytest.raises(SwitchError) as caught:
            switch.set_admin("p1", False)
        assert re.fullmatch(says, caught.value.message)
        assert caught.value.act == act.replace("LAB", shared.lab_file)
    assert shared.is_up("p1")
    # The message contains no secret.
    assert "wrong" not in str(caught.value).replace("Wrong", "")


# The settings of a switch whose ports may only be read, and the reason in messages.
READ_ONLY = {
    "v1": ({"version": "1", "community": "reads"}, "this community may only read it"),
    "v2c": ({"community": "reads"}, "this community may only read it"),
    "v3": ({**V3, "user": "reader"}, "user 'reader' may only read it"),
    "lab file": ({"community": "writes", "read_only": "true"}, "LAB:3 says `read_only: true`"),
}


@pytest.mark.parametrize("access", READ_ONLY)
def test_a_switch_that_may_only_be_read_is_used_as_it_is_wired(tmp_path: Path, access: str) -> None:
    settings, note = READ_ONLY[access]
    undo = UndoStack()
    with linux_bench(tmp_path) as bench, agent(bench, "honest"):
        note = note.replace("LAB", bench.lab_file)
        writer = snmp.connect(described := switch_of(bench, community="writes"), described.settings)
        writer.configure({"p3": PortState(vlan=20), "p4": PortState(admin_up=False)})
        writer.close()
        sets = received_sets(bench)
        with managed(switch_of(bench, **settings), bench) as switch:
            assert switch.capabilities == {Capability.LINK, Capability.COUNTERS, Capability.FDB}
            assert (switch.rewires, switch.about.note) == (False, note)
            states = switch.states(["p1", "p2", "p3", "p4"])
            assert [(s.vlan, s.admin_up, s.poe) for s in states.values()] == [
                (1, True, True),
                (1, True, True),
                (20, True, True),
                (1, False, True),
            ]
            assert switch.counters(["p1"])["p1"].rx_octets >= 0
            assert switch.neighbours(["p1"]).keys() == {"p1"}
            switch.wire([frozenset({"p1", "p2"})], undo)
            with pytest.raises(CapabilityError) as caught:
                switch.wire([frozenset({"p2", "p3"})], undo)
            assert caught.value.message == (
                "switch sw has port p2 in VLAN 1, port p3 in VLAN 20, and pinet cannot move these ports, "
                f"because {note}"
            )
            with pytest.raises(SwitchError) as down:
                switch.wire([frozenset({"p1", "p4"})], undo)
            assert down.value.message == (
                f"port p4 of switch sw is administratively down, and pinet cannot bring it up, because {note}"
            )
            changes: list[Callable[[], None]] = [
                lambda: switch.set_vlan("p1", 20, undo),
                lambda: switch.set_admin("p1", False, undo),
                lambda: switch.set_poe("p1", False, undo),
                lambda: switch.switch_power("p1", False),
            ]
            for change in changes:
                with pytest.raises(CapabilityError, match=rf"cannot .*, because {re.escape(note)}; its capabilities: "):
                    change()
            assert undo.close() == []
            assert switch.states(["p1", "p2", "p3", "p4"]) == states
        # The agent refused before it looked at the values, or received no set at all.
        assert received_sets(bench) == sets
        assert not [*tmp_path.glob("journal/*.json")]


def test_a_writer_is_found_without_a_change(tmp_path: Path) -> None:
    with linux_bench(tmp_path) as bench, agent(bench, "honest"):
        reader = snmp.connect(described := switch_of(bench, community="reads"), described.settings)
        before = reader.states(["p1", "p2", "p3", "p4"])
        with managed(switch_of(bench, community="writes"), bench) as switch:
            assert switch.about.note == ""
            assert {Capability.ADMIN, Capability.VLAN, Capability.POE} <= switch.capabilities
        # The text arrived at the tables, and was refused for its type.
        assert {value.strip() for _, _, value in received_sets(bench)} == {'"?"'}
        assert reader.states(["p1", "p2", "p3", "p4"]) == before
        reader.close()


def test_the_ports_of_a_crashed_run_wait_for_the_right_to_set_them(tmp_path: Path) -> None:
    with linux_bench(tmp_path) as bench, agent(bench, "honest"):
        with managed(switch_of(bench, community="writes"), bench) as switch:
            switch.set_vlan("p1", 20)
        with (
            managed(switch_of(bench, community="reads"), bench) as switch,
            pytest.raises(SwitchError) as caught,
        ):
            switch.put_back({"p1": PortState(vlan=1)})
        assert caught.value.message == (
            "VLAN 1 on port p1 of switch sw was not restored, because this community may only read it"
        )
        assert [*tmp_path.glob("journal/*.json")]
        with managed(switch_of(bench, community="writes"), bench) as switch:
            switch.put_back({"p1": PortState(vlan=1)})
            assert switch.state("p1").vlan == 1
        assert not [*tmp_path.glob("journal/*.json")]


def test_a_port_that_the_switch_does_not_have(shared: LinuxBench) -> None:
    with (
        managed(switch_of(shared, ("p1", "gi0/9"), community="reads"), shared) as switch,
        pytest.raises(
            SwitchError,
            match=r"switch sw has no port with the name, description, alias or number 'gi0/9'; .*: 1, 2, .*p4",
        ),
    ):
        switch.states(["gi0/9"])


def test_a_port_can_be_named_by_its_number(shared: LinuxBench) -> None:
    index = shared.sh("cat /sys/class/net/p2/ifindex").strip()
    with managed(switch_of(shared, (index,), community="writes"), shared) as switch:
        switch.set_admin(index, False)
        assert not shared.is_up("p2")
        switch.set_admin(index, True)


def test_an_event_loop_of_other_code_is_not_used(shared: LinuxBench) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with managed(switch_of(shared, community="reads"), shared) as switch:
            assert switch.state("p1").admin_up
        assert asyncio.get_event_loop() is loop
        assert loop.run_until_complete(asyncio.sleep(0, 5)) == 5
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@pytest.mark.parametrize("mode", ["honest", "late"])
def test_ports_are_moved_by_q_bridge(tmp_path: Path, mode: str) -> None:
    undo = UndoStack()
    with (
        linux_bench(tmp_path) as bench,
        agent(bench, mode),
        managed(switch_of(bench, community="writes"), bench) as switch,
    ):
        assert {Capability.VLAN, Capability.FDB} <= switch.capabilities
        switch.wire([frozenset({"p1", "p2"}), frozenset({"p3", "p4"})], undo)
        found = switch.states(["p1", "p2", "p3", "p4"])
        assert {port: state.vlan for port, state in found.items()} == {"p1": 3900, "p2": 3900, "p3": 3902, "p4": 3902}
        assert undo.close() == []
        assert {state.vlan for state in switch.states(["p1", "p2", "p3", "p4"]).values()} == {1}


@pytest.mark.parametrize(
    ("mode", "seen"),
    [
        ("nothing", "switch sw accepted VLAN 3900, but did not create it"),
        (
            "half",
            "switch sw accepted a change, but 0.5 s later port p1 is not in exactly one access VLAN and up instead of "
            "VLAN 3900 and up, port p2 is not in exactly one",
        ),
    ],
)
def test_an_agent_that_accepts_a_change_without_effect_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, seen: str
) -> None:
    monkeypatch.setattr(managed_switch, "READ_BACK_TIMEOUT_S", 0.5)
    with (
        linux_bench(tmp_path) as bench,
        agent(bench, mode),
        managed(switch_of(bench, community="writes"), bench) as switch,
    ):
        with pytest.raises(SwitchError) as caught:
            switch.wire([frozenset({"p1", "p2"})], UndoStack())
        assert caught.value.message.startswith(seen)


@pytest.mark.skipif(not BRIDGE_MIB, reason="needs Debian's snmp-bridge-mib")
def test_the_bridge_agent_of_debian_accepts_vlans_without_effect(tmp_path: Path) -> None:
    with linux_bench(tmp_path) as bench, agent(bench, "debian"):
        backend = snmp.connect(switch := switch_of(bench, community="writes"), switch.settings)
        try:
            # The agent confirms.
            with pytest.raises(SwitchError, match="switch sw accepted VLAN 20, but did not create it"):
                backend.configure({"p1": PortState(vlan=20)})
            assert backend.states(["p1"])["p1"].vlan is None
            # A value without read-back is not reported as a capability, so that no code relies on it.
            assert Capability.VLAN not in backend.capabilities
        finally:
            backend.close()
