"""What the host does when the guest waits for an event: commands of QMP to a QEMU that this test plays."""

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
from pytest_pinet.exact.traffic import EVENTS_OF, MORE, Event, Events, events_of
from pytest_pinet.model.exact import LINK, REPLUG

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
