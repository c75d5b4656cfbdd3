"""A device that disappears and returns with the same name, as when its driver is reloaded."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from pytest_pinet.evidence.observer import Observer, command
from pytest_pinet.model.measurement import EventKind
from tests.support.shaped_link import ShapedLink, shaped_link
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture
def link() -> Iterator[ShapedLink]:
    with shaped_link("100mbit") as link:
        add_device(link)
        yield link


def add_device(link: ShapedLink) -> None:
    done = link.dut.run(
        "ip link add new0 type veth peer name new1 && ip addr add 198.18.9.1/24 dev new0 && "
        "ip link set new1 up && ip link set new0 up"
    )
    assert done.returncode == 0, done.stderr


def test_a_recreated_device_is_watched_further_and_reported(link: ShapedLink) -> None:
    with Observer(link.dut, "new0", "sw1/p5", 60) as observer:
        started = time.monotonic()
        link.dut.run("ping -q -b -c 5 -i 0.2 -w 2 -s 1400 198.18.9.255")
        wait_until("a rate", lambda: observer.rate() is not None)
        link.dut.run("ip link del new0")
        # Failed readings are also evidence. Counters of the returned device start at zero.
        wait_until("the loss of the device", lambda: observer.rate() is None or " - - - - " in observer.text)
        add_device(link)
        wait_until("the restart", lambda: EventKind.RESTART in [event.kind for event in observer.events(started)])
        wait_until("a rate", lambda: observer.rate() is not None)
    assert " - - - - " in observer.text


def test_a_plain_shell_does_it_too(link: ShapedLink) -> None:
    process = link.dut.spawn(command("new0", 60).replace("s=bash", "s=dash"))
    try:
        seen: list[str] = []

        def told(reading: bool) -> bool:
            seen.extend(process.lines())
            return bool(seen) and seen[-1].split()[1].isdigit() == reading

        wait_until("a reading", lambda: told(reading=True))
        link.dut.run("ip link del new0")
        wait_until("a failed reading", lambda: told(reading=False))
        add_device(link)
        wait_until("a reading", lambda: told(reading=True))
    finally:
        process.stop()
