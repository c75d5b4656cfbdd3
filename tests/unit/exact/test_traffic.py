"""What the traffic program sends, and the events of the host."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.traffic import AMOUNTS, EVENTS_OF, MORE, Event, Events, amounts_of, events_of, joined_turns
from pytest_pinet.model.exact import LINK, REPLUG, USER, ExactWindow, Function, is_one_by_one
from pytest_pinet.model.traffic import Direction

SEND = Function("", "tcp_sendmsg")


def window(traffic: str, octets: int, ns: int, count: int | None = None) -> ExactWindow:
    functions = {} if count is None else {SEND: count}
    return ExactWindow(traffic, Direction.TX, octets, 100, ns, count, functions, count)


def test_of_frames_at_full_load_the_turn_with_the_middle_time_counts() -> None:
    turns = [window("pktgen", 60, ns, count) for ns, count in ((700, 7), (300, 3), (600, 6))]
    other = window("pktgen", 1514, 100, 1)
    assert joined_turns([*turns, other]) == (turns[2], other)


def test_connections_are_added_up() -> None:
    first, second = window("tcp", 1000, 600, 60), window("tcp", 1000, 500, 50)
    (found,) = joined_turns([first, second])
    assert (found.octets, found.packets, found.virtual_ns) == (2000, 200, 1100)
    assert (found.instructions, found.pmu_instructions, dict(found.functions)) == (110, 110, {SEND: 110})
    assert found.goodput_bps == 2000 * 8e9 / 1100


def single(traffic: str, ns: int, **counts: int) -> ExactWindow:
    functions = {Function("", name): count for name, count in counts.items()} | {Function("", USER): 9000}
    total = sum(functions.values())
    return ExactWindow(traffic, Direction.TX, 60, 100, ns, total, functions, total - 9000)


def test_of_frames_one_by_one_each_function_has_its_middle_count() -> None:
    # The watchdog of the driver runs in one turn, the refill of a cache is seen one time less in another turn.
    turns = [single("frame", 0, send=500, refill=20), single("frame", 0, send=500, refill=20, watchdog=300),
             single("frame", 0, send=500, refill=10)]  # fmt: skip
    (found,) = joined_turns(turns)
    assert {function.name: count for function, count in found.functions.items()} == {"send": 500, "refill": 20}
    assert (found.instructions, found.pmu_instructions, found.packets) == (520, 520, 100)
    # 16 ns for each instruction: the program waits in between.
    assert found.virtual_ns == 520 * 16


def test_without_the_plugin_the_counter_of_the_guest_gives_the_time_of_single_frames() -> None:
    bare = [ExactWindow("frame", Direction.TX, 60, 100, 0, None, {}, count) for count in (520, 520, 510)]
    (found,) = joined_turns(bare)
    assert (found.instructions, found.virtual_ns) == (None, 520 * 16)


def test_single_frames_without_any_count_are_no_window() -> None:
    bare = ExactWindow("frame", Direction.TX, 60, 100, 0)
    other = window("pktgen", 60, 100)
    assert joined_turns([bare, other]) == (other,)


def test_requests_have_their_middle_time() -> None:
    (found,) = joined_turns([single("request", ns, send=500) for ns in (600, 400, 500)])
    assert (found.octets, found.packets, found.virtual_ns, found.instructions) == (60, 100, 500, 500)


def test_events_have_their_middle_time() -> None:
    (found,) = joined_turns([single("replug", ns, probe=500) for ns in (2600, 2400, 2500)])
    assert (found.name, found.virtual_ns, found.instructions) == ("replug-tx", 2500, 500)


def test_of_several_frames_at_once_and_of_faults_the_instructions_are_the_time() -> None:
    for traffic in ("batch", "fault-stall", "vlan", "multicast"):
        (found,) = joined_turns([single(traffic, 0, send=count) for count in (500, 520, 510)])
        assert (found.instructions, found.virtual_ns) == (510, 510 * 16)


def test_work_one_by_one_is_known_by_the_name_of_the_window() -> None:
    ways = ("frame-60-rx", "fault-checksum-rx", "vlan-tx", "multicast-rx")
    assert all(is_one_by_one(name) for name in ways)
    assert not any(is_one_by_one(name) for name in ("batch-1514-rx", "pktgen-60-tx", "request-tx", "down-up-tx"))


def test_a_board_with_a_slot_has_the_events_that_its_nic_reports() -> None:
    boards = exact_boards()
    assert amounts_of(boards["e1000e"], (7, 2, 22)) == AMOUNTS

    def events(name: str, *qemu: int) -> list[str]:
        return [amount.traffic for amount in amounts_of(boards[name], qemu)]

    # In QEMU 7.2, e1000e does not report that its link is switched off.
    assert events("e1000e-slot", 7, 2, 22) == ["replug"]
    assert events("e1000e-slot", 10, 0, 2) == ["link", "replug"]
    assert events("virtio-net-slot", 7, 2, 22) == ["link", "replug"]


def test_a_board_with_a_device_model_has_ordinary_traffic_and_the_windows_of_its_nic() -> None:
    genet = exact_boards()["genet"]
    found = amounts_of(genet, (7, 2, 22))
    assert [amount for amount in found if amount in AMOUNTS] == list(AMOUNTS)
    assert {amount.traffic for amount in found if amount not in AMOUNTS} == set(genet.nic.windows)
    # No traffic whose number of frames can differ comes before a single frame.
    single = [is_one_by_one(f"{amount.traffic}-{amount.direction}") for amount in found]
    assert single == sorted(single, reverse=True)
    # Each name that a board has exists.
    assert {name for board in exact_boards().values() for name in board.nic.windows} <= {one.traffic for one in MORE}


BOARD, GENET = exact_boards()["virtio-net-slot"], exact_boards()["genet"]
GREETING = b'{"QMP": {"version": {}}}\r\n'
DONE = b'{"timestamp": {}, "event": "DEVICE_DELETED", "data": {}}\r\n{"return": {}}\r\n'


@contextmanager
def qemu(events: Events, answers: Mapping[str, bytes]) -> Iterator[list[dict[str, Any]]]:
    """Answer each command, by default with DONE. Yield the commands."""
    commands: list[dict[str, Any]] = []
    monitor = socket.socket(fileno=os.dup(events.inherited[0]))

    def answer() -> None:
        monitor.sendall(GREETING)
        for line in monitor.makefile():
            command = json.loads(line)
            commands.append(command)
            monitor.sendall(answers.get(command["execute"], DONE))

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield commands
    finally:
        monitor.shutdown(socket.SHUT_RDWR)
        thread.join()
        monitor.close()


def test_each_event_is_done_while_the_guest_waits() -> None:
    every = [*EVENTS_OF[LINK], *EVENTS_OF[REPLUG], *EVENTS_OF[REPLUG], Event.LINK_OFF]
    with closing(Events(BOARD, every)) as events, qemu(events, {}) as commands:
        plugin = events.inherited[1]
        for _ in every:
            os.write(plugin, b"0")
            events.do_next()
            assert os.read(plugin, 1) == b"\n"
    done = [(one["execute"], one["arguments"]) for one in commands if one["execute"] != "query-status"]
    plugged = {
        "driver": "virtio-net-pci",
        "netdev": "nic0",
        "mac": "02:00:00:00:00:01",
        "romfile": "",
        "ioeventfd": False,
        "tx": "timer",
        "x-txtimer": 2000,
        "bus": "nic-slot",
    }
    assert done == [
        ("qmp_capabilities", {}),
        ("set_link", {"name": "dut", "up": False}),
        ("set_link", {"name": "dut", "up": True}),
        ("device_del", {"id": "dut"}),
        ("device_add", {**plugged, "id": "dut1"}),
        ("device_del", {"id": "dut1"}),
        ("device_add", {**plugged, "id": "dut2"}),
        ("set_link", {"name": "dut2", "up": False}),
    ]


def test_a_refused_event_is_one_sentence() -> None:
    refused = b'{"error": {"class": "GenericError", "desc": "Bus \'slot\' does not support hotplugging"}}\n'
    with closing(Events(BOARD, EVENTS_OF[REPLUG])) as events, qemu(events, {"device_del": refused}):
        os.write(events.inherited[1], b"0")
        with pytest.raises(LabError, match=r"^QEMU refused device_del: Bus 'slot' does not support hotplugging$"):
            events.do_next()


def test_the_host_does_what_the_traffic_needs() -> None:
    def events(name: str) -> list[str]:
        (amount,) = [one for one in MORE if f"{one.traffic}-{one.direction}" == name]
        return [str(event) for event in events_of(replace(amount, turns=1))]

    assert events("batch-rx") == ["hold frames", "release frames"] * 6
    assert (events("batch-tx"), events("down-up-tx"), events("vlan-rx")) == ([], [], [])
    assert events("fault-overrun-rx") == ["fault overrun", "fault none"]


def test_a_device_model_gets_each_event_as_a_line() -> None:
    with closing(Events(GENET, (Event.LINK_OFF, Event.LINK_ON))) as events:
        control, plugin = socket.socket(fileno=os.dup(events.inherited[0])), events.inherited[1]
        assert (events.arguments, events.model_words) == ([], f",control={events.inherited[0]}")
        with closing(control):
            for answer in (b"ok\n", b"this NIC cannot be unplugged\n"):
                os.write(plugin, b"0")
                control.sendall(answer)
                if answer == b"ok\n":
                    events.do_next()
                    assert (control.recv(64), os.read(plugin, 1)) == (b"link off\n", b"\n")
            with pytest.raises(
                LabError, match=r"^the device model of genet refused 'link on': this NIC cannot be unplugged$"
            ):
                events.do_next()


def test_a_board_without_events_has_no_monitor() -> None:
    with closing(Events(BOARD, ())) as events:
        assert (events.arguments, events.plugin_words) == ([], "")
