"""The SNMP-managed virtual switch, tested with net-snmp's own tools."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from pytest_pinet.virtual.status import status
from tests.support.gate_project import wait_until
from tests.support.small_virtual_lab import SNMP_LAB_FILE, Bench, bench_up
from tests.support.snmp_tools import (
    ADMIN,
    BASE_PORT,
    CREATE,
    DESTROY,
    EGRESS,
    FDB,
    HIGH_SPEED,
    IF_NAME,
    IN_ERRORS,
    IN_OCTETS,
    LLDP_NAME,
    LLDP_PORT,
    OPER,
    OUT_DISCARDS,
    OUT_OCTETS,
    PVID,
    ROW,
    UNTAGGED,
    VLAN_NAME,
    Snmp,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

NOBODY = 65534
# Full segments with timestamps at MTU 1500, including the frame check sequence (RFC 3635).
OCTETS_PER_BYTE = 1518 / 1448


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_up(tmp_path_factory.mktemp("snmp"), SNMP_LAB_FILE) as found:
        yield found


@pytest.fixture(scope="module")
def agent(bench: Bench) -> Snmp:
    return Snmp(bench.environment)


@pytest.fixture
def pair(bench: Bench) -> Iterator[Bench]:
    """Yield a bench where left (port 1) and right (port 2) are on and have addresses. All ports are in VLAN 1."""
    bench.connect_pair()
    yield bench
    agent = Snmp(bench.environment)
    agent.many((EGRESS, 1, "x", "FC"), (UNTAGGED, 1, "x", "FC"))
    for port in (1, 2):
        agent.set(PVID, port, "u", "1")
    for vlan in agent.walk(ROW):
        if vlan != "1":
            agent.set(ROW, vlan, "i", DESTROY)
    bench.restore()


def if_index(agent: Snmp, port: int) -> str:
    return agent.get(BASE_PORT, port)


def groups(bench: Bench) -> dict[str, str | None]:
    found = status(bench.lab.file)
    assert found is not None
    bridges: dict[str, str | None] = found["switches"][0]["groups"]
    return bridges


def test_the_environment_has_the_address_and_secrets_of_the_switch(bench: Bench) -> None:
    assert bench.environment["LG_SWITCH_SW_1"].startswith("snmp://127.0.0.1:")
    names = {"COMMUNITY", "READ_COMMUNITY", "USER", "AUTH_KEY", "PRIV_KEY"}
    secrets = {bench.environment[f"LG_SNMP_{name}"] for name in names}
    assert len(secrets) == len(names)
    holding = [
        f
        for f in bench.runtime.path.rglob("*")
        if f.is_file() and bench.environment["LG_SNMP_PRIV_KEY"].encode() in f.read_bytes()
    ]
    assert {file.name for file in holding} == {"snmp.json", "snmpd.conf", "state.json"}
    assert {file.stat().st_mode & 0o777 for file in holding} == {0o600}


def test_bridge_ports_map_to_interface_indices(agent: Snmp) -> None:
    numbers = agent.walk(BASE_PORT)
    assert list(numbers) == ["1", "2", "3", "4", "5", "6"]
    assert not set(numbers) & set(numbers.values())
    assert [agent.get(IF_NAME, index) for index in numbers.values()] == ["p1", "p2", "p3", "p4", "p5", "p6"]


def test_requests_without_a_valid_secret_get_no_answer(agent: Snmp) -> None:
    env = agent.environment
    who = ("-v3", "-u", env["LG_SNMP_USER"], "-l", "authPriv")
    v3 = (*who, "-a", "SHA-256", "-A", env["LG_SNMP_AUTH_KEY"], "-x", "AES", "-X", env["LG_SNMP_PRIV_KEY"])
    read = ("-v2c", "-c", env["LG_SNMP_READ_COMMUNITY"])
    assert agent.run("snmpget", f"{PVID}.1", access=v3).split()[1] == "1"
    assert agent.run("snmpget", f"{PVID}.1", access=read).split()[1] == "1"
    assert "noAccess" in agent.run("snmpset", f"{PVID}.1", "u", "1", access=read)
    assert "Reason" not in agent.run("snmpset", f"{PVID}.1", "u", "1", access=v3)
    for community in ("public", "private"):
        assert "Timeout" in agent.run("snmpget", f"{PVID}.1", access=("-v2c", "-c", community), timeout_s=0.3)


def test_other_users_get_no_answer_even_with_the_secret(agent: Snmp) -> None:
    words = ["-v2c", "-c", agent.environment["LG_SNMP_COMMUNITY"], "-t", "0.3", "-r", "0", agent.address, f"{PVID}.1"]
    done = subprocess.run(
        ["snmpget", *words], capture_output=True, text=True, timeout=10, check=False, user=NOBODY, extra_groups=[],
        env={"MIBS": "", "PATH": os.environ["PATH"], "SNMP_PERSISTENT_DIR": "/nonexistent"},
    )  # fmt: skip
    assert "Timeout" in done.stderr


def test_admin_status_down_takes_the_link_down_at_once(pair: Bench, agent: Snmp) -> None:
    index = if_index(agent, 2)
    assert (agent.get(ADMIN, index), agent.get(OPER, index), agent.get(HIGH_SPEED, index)) == ("1", "1", "100")
    assert agent.set(ADMIN, index, "i", "2") == ""
    assert (agent.get(ADMIN, index), agent.get(OPER, index), agent.get(HIGH_SPEED, index)) == ("2", "2", "0")
    assert not pair.node_carrier("right")
    assert agent.set(ADMIN, index, "i", "1") == ""
    wait_until("the carrier", lambda: pair.node_carrier("right"))
    assert "wrongValue" in agent.set(ADMIN, index, "i", "7")
    assert "notWritable" in agent.set(ADMIN, 1, "i", "2")  # lo is no port of the switch


def test_a_port_moves_into_its_own_vlan_and_back(pair: Bench, agent: Snmp) -> None:
    agent.join(2, 3901)
    assert groups(pair)["p2"] == "br3901"
    assert not pair.pings()
    agent.join(1, 3901)
    wait_until("right to answer in its VLAN", pair.pings)
    learned = agent.walk(FDB)
    assert {index.partition(".")[0] for index, port in learned.items() if port in ("1", "2")} == {"3901"}
    assert "inconsistentValue" in agent.set(ROW, 3901, "i", DESTROY)  # ports are in it
    assert agent.set(PVID, 1, "u", "1") == agent.set(PVID, 2, "u", "1") == ""
    assert agent.set(ROW, 3901, "i", DESTROY) == ""
    assert "br3901" not in groups(pair).values()
    assert agent.walk(ROW) == {"1": "1"}
    wait_until("right to answer again", pair.pings)


def test_a_port_forwards_only_when_its_settings_agree(pair: Bench, agent: Snmp) -> None:
    assert agent.set(ROW, 3902, "i", CREATE) == ""
    assert agent.set(PVID, 2, "u", "3902") == ""
    assert groups(pair)["p2"] is None
    assert agent.set(EGRESS, 3902, "x", "40") == ""
    assert groups(pair)["p2"] is None
    assert agent.set(UNTAGGED, 3902, "x", "40") == ""
    assert groups(pair)["p2"] == "br3902"


def test_the_settings_of_one_packet_are_applied_all_or_none(agent: Snmp, bench: Bench) -> None:
    whole = ((ROW, 3903, "i", CREATE), (VLAN_NAME, 3903, "s", "test"), (EGRESS, 3903, "x", "20"))
    assert "inconsistentValue" in agent.many(*whole, (PVID, 5, "u", "3999"))
    assert "3903" not in agent.walk(ROW)
    assert agent.many(*whole, (UNTAGGED, 3903, "x", "20"), (PVID, 3, "u", "3903")) == ""
    assert agent.get(VLAN_NAME, 3903) == "test"
    assert groups(bench)["p3"] == "br3903"
    assert agent.many((PVID, 3, "u", "1"), (ROW, 3903, "i", DESTROY)) == ""


@pytest.mark.parametrize(
    ("name", "index", "kind", "value", "reason"),
    [
        (PVID, 1, "u", "3998", "inconsistentValue"),
        (PVID, 1, "i", "1", "wrongType"),
        (PVID, 77, "u", "1", "inconsistentName"),
        (EGRESS, 3998, "x", "80", "inconsistentName"),
        (EGRESS, 1, "x", "FF", "wrongValue"),  # ports 7 and 8 are not there
        (ROW, 1, "i", DESTROY, "inconsistentValue"),
        (ROW, 1, "i", CREATE, "inconsistentValue"),
        (ROW, 4095, "i", CREATE, "inconsistentName"),
        (BASE_PORT, 1, "i", "9", "notWritable"),
    ],
)
def test_invalid_settings_are_refused(agent: Snmp, name: str, index: int, kind: str, value: str, reason: str) -> None:
    assert reason in agent.set(name, index, kind, value)


def octets_agree(pair: Bench, agent: Snmp) -> None:
    sent, received = if_index(agent, 1), if_index(agent, 2)
    before = int(agent.get(IN_OCTETS, sent)), int(agent.get(OUT_OCTETS, received))
    moved = pair.iperf()["bytes"]
    after = int(agent.get(IN_OCTETS, sent)), int(agent.get(OUT_OCTETS, received))
    for count in (after[0] - before[0], after[1] - before[1]):
        assert count == pytest.approx(moved * OCTETS_PER_BYTE, rel=0.05)


@pytest.mark.parametrize("fault", [{"swap_with": "right"}, {"down": True}], ids=["swapped", "pulled"])
def test_octets_stay_correct_after_a_cable_was_plugged_in_again(
    pair: Bench, agent: Snmp, fault: dict[str, object]
) -> None:
    """Its device has old counters when it returns, but its queue, which counts segments, is new."""
    octets_agree(pair, agent)
    pair.degrade("left", **fault)
    pair.restore()
    octets_agree(pair, agent)


def test_packets_dropped_by_a_full_queue_are_counted_as_discards(pair: Bench, agent: Snmp) -> None:
    index = if_index(agent, 2)
    before = int(agent.get(OUT_DISCARDS, index))
    pair.degrade("right", rate=0.1, direction="rx")
    pair.serve_iperf()
    pair.ssh("left", "iperf3 -c 10.1.0.2 -u -b 4M -t 1")
    assert int(agent.get(OUT_DISCARDS, index)) > before + 50


def test_frames_broken_by_a_bad_cable_are_counted_as_errors(pair: Bench, agent: Snmp) -> None:
    index = if_index(agent, 1)
    before = int(agent.get(IN_ERRORS, index))
    pair.degrade("left", loss=0.5, direction="tx")
    pair.ssh("left", "ping -q -i 0.01 -c 100 -W 0.2 10.1.0.2 || true")
    wait_until("errors", lambda: int(agent.get(IN_ERRORS, index)) > before + 20)
    pair.restore()
    assert int(agent.get(IN_ERRORS, index)) > before + 20


def test_lldp_reports_the_neighbours_after_a_boot(bench: Bench, agent: Snmp) -> None:
    bench.outlet("left", "0")
    wait_until("left to be gone", lambda: "left" not in agent.walk(LLDP_NAME).values())
    bench.boot("left")
    # lldpd itself sends announcements every 30 s.
    wait_until("left to be there", lambda: "left" in agent.walk(LLDP_NAME).values())
    names = {index.split(".")[1]: name for index, name in agent.walk(LLDP_NAME).items()}
    ports = {index.split(".")[1]: name for index, name in agent.walk(LLDP_PORT).items()}
    assert (names[if_index(agent, 1)], ports[if_index(agent, 1)]) == ("left", "eth0")


def test_lldpd_does_not_change_host_names(bench: Bench) -> None:
    before = os.uname().nodename
    bench.boot("left")
    assert bench.ssh("left", "hostname").strip() == "left"
    assert os.uname().nodename == before


def test_a_port_keeps_its_number_and_counters_when_its_cable_is_pulled(pair: Bench, agent: Snmp) -> None:
    index = if_index(agent, 2)
    before = int(agent.get(IN_OCTETS, index))
    pair.degrade("right", down=True)
    assert (if_index(agent, 2), agent.get(OPER, index)) == (index, "2")
    pair.restore("right")
    assert (if_index(agent, 2), agent.get(OPER, index)) == (index, "1")
    assert int(agent.get(IN_OCTETS, index)) >= before > 0


def test_answers_are_not_cached_for_seconds(pair: Bench, agent: Snmp) -> None:
    index = if_index(agent, 1)
    for _ in range(3):
        before = int(agent.get(IN_OCTETS, index))
        pair.ssh("left", "ping -c1 -W5 -s 1000 10.1.0.2")
        assert int(agent.get(IN_OCTETS, index)) >= before + 1000


def test_a_whole_table_is_read_in_one_request(agent: Snmp) -> None:
    assert len(agent.walk("1.3.6.1.2.1.17")) > 20
