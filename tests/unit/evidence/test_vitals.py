"""What samples of a board's links show: standstills, carrier changes, restarts, kernel messages, slow links."""

from __future__ import annotations

import re
import subprocess

import pytest

from pytest_pinet.evidence.vitals import (
    DECAY,
    DROP,
    GONE,
    MESSAGE,
    STALL,
    Goodputs,
    LinkWatch,
    Sign,
    Vitals,
    command,
    kernel_sign,
    parse,
)

# Printed by the script on a virtual board, in batches of 2 s.
RECORDED = (
    "61519.51 eth0 1200 900 1 2 0 -;61519.51 eth1 - - - - - -;61520.51 eth0 1210 900 1 2 - 0;61520.51 eth1 - - - - - -"
)


def test_a_line_has_all_samples_of_its_seconds() -> None:
    first, absent, second, _ = parse(RECORDED)
    assert first == Vitals(61519.51, "eth0", 1200, 900, True, 2, 0, None)
    assert absent == Vitals(61519.51, "eth1", None, None, False, None, None, None)
    assert (second.timeouts, second.queue) == (None, 0)
    for other in ("", "boot 1", "61519.51 eth0 1 2 1 2 0", "x eth0 1 2 1 2 0 -", "kernel [ 1.0] a b c d e f"):
        assert parse(other) == []


class Course:
    """A link and its peer, whose samples are made second by second."""

    def __init__(self) -> None:
        self.dut, self.peer = LinkWatch("dut eth0", "sw"), LinkWatch("peer eth0", "sw")
        self.second = 0
        self.counts = [1000, 1000, 1000, 1000]

    def run(
        self, seconds: int, dut: tuple[int, int] = (0, 0), peer: tuple[int, int] = (0, 0), queue: int | None = None
    ) -> list[Sign]:
        """Let both links receive and send so many packets a second; return what the device under test shows."""
        signs: list[Sign] = []
        for _ in range(seconds):
            self.second += 1
            self.counts = [old + more for old, more in zip(self.counts, (*dut, *peer), strict=True)]
            rx, tx, far_rx, far_tx = self.counts
            self.peer.add(self.second, Vitals(self.second, "eth0", far_rx, far_tx, True, 2, 0, None), ())
            signs += self.dut.add(self.second, Vitals(self.second, "eth0", rx, tx, True, 2, 0, queue), [self.peer])
        return signs


def test_a_link_that_sends_nothing_while_its_queue_fills_stalls_until_it_sends() -> None:
    course = Course()
    assert course.run(20, dut=(5, 5), peer=(5, 5)) == []
    (stall,) = course.run(10, queue=12)
    assert (stall.kind, stall.at_s, stall.over) == (STALL, 20, False)
    assert "dut eth0 sends nothing, and 12 wait in its queue" in stall.text
    (over,) = course.run(1, dut=(5, 5), peer=(5, 5))
    assert (over.kind, over.part, over.over, over.at_s) == (STALL, stall.part, True, 31)


def test_an_idle_link_does_not_stall() -> None:
    course = Course()
    assert course.run(60, queue=0) == []
    assert course.run(60) == []
    # A packet that waits for a moment.
    assert course.run(2, queue=1) + course.run(30, queue=0) == []


def test_a_link_that_receives_nothing_while_its_peer_goes_on_stalls() -> None:
    course = Course()
    assert course.run(20, dut=(5, 5), peer=(5, 5)) == []
    # The peer repeats its packets, and has no answer.
    (stall,) = course.run(15, peer=(0, 1))
    assert (stall.kind, stall.at_s) == (STALL, 20)
    assert "receives nothing, while peer eth0 sends" in stall.text
    (over,) = course.run(1, dut=(5, 5), peer=(5, 5))
    assert over.over


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # The traffic has ended.
        (((500, 500), (500, 500)), ((0, 0), (0, 0))),
        # The peer goes on with another partner, which answers.
        (((50, 50), (50, 50)), ((0, 0), (50, 50))),
        # The peer never sent to this link.
        (((5, 5), (300, 300)), ((0, 0), (0, 300))),
        # A link that was idle.
        (((0, 0), (0, 5)), ((0, 0), (0, 5))),
    ],
)
def test_traffic_that_ends_or_never_was_is_no_stall(
    before: tuple[tuple[int, int], tuple[int, int]], after: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    course = Course()
    assert course.run(20, *before) + course.run(40, *after) == []


def states(*lines: str) -> list[Sign]:
    """Return what one link shows in these seconds: ``RX TX CARRIER CHANGES TIMEOUTS``."""
    link = LinkWatch("dut eth0", "sw")
    return [
        sign for at, line in enumerate(lines) for one in parse(f"{at} eth0 {line} -") for sign in link.add(at, one, ())
    ]


def test_a_carrier_that_goes_and_comes_is_a_drop_even_between_two_samples() -> None:
    lost, back = states("1 1 1 2 0", "1 1 0 3 0", "1 1 0 3 0", "2 2 1 4 0")
    assert (lost.kind, lost.at_s, lost.over) == (DROP, 1, False)
    assert (back.part, back.at_s, back.over) == (lost.part, 3, True)
    (short,) = states("1 1 1 2 0", "1 1 1 4 0")
    assert (short.kind, short.over) == (DROP, True)


def test_a_driver_that_was_restarted_or_a_device_that_went_is_seen() -> None:
    (restarted,) = states("100 90 1 2 0", "3 2 1 2 0")
    assert (restarted.kind, restarted.over) == (GONE, True)
    gone, back = states("100 90 1 2 0", "- - - - -", "3 2 1 2 0")
    assert (gone.kind, gone.over, back.kind, back.over) == (GONE, False, GONE, True)


def test_the_watchdog_of_a_transmit_queue_is_a_stall_without_the_kernels_log() -> None:
    (late,) = states("1 1 1 2 0", "1 1 1 2 -", "1 1 1 2 1", "1 1 1 2 1")
    assert (late.kind, late.over) == (STALL, True)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "[ 9.1] macb 1f00100000.ethernet eth0: TX stall detected on queue 0 (tail=1 head=9); re-kicking TSTART",
            STALL,
        ),
        ("[ 9.1] NETDEV WATCHDOG: eth0 (bcmgenet): transmit queue 2 timed out", STALL),
        ("[ 9.1] usb 2-1: reset SuperSpeed USB device number 2 using xhci_hcd", MESSAGE),
        ("[ 9.1] bcmgenet fd580000.ethernet eth0: Link is Down", None),
        ("[ 9.1] usb 2-1: new SuperSpeed USB device number 2 using xhci_hcd", None),
    ],
)
def test_messages_of_the_kernel(line: str, kind: str | None) -> None:
    found = kernel_sign(line, 5.0)
    assert (found.kind if found else None) == kind


def test_a_link_is_slow_after_two_connections_below_half_of_the_first_ones() -> None:
    course = Goodputs("dut tx")
    rates = [62e6, 61e6, 63e6, 20e6, 62e6, 60e6, 3e6, 58e6, 25e6, 3e6, 3e6, 60e6]
    signs = [(number, sign) for number, rate in enumerate(rates) for sign in course.add(number, rate)]
    assert [(number, sign.kind, sign.over) for number, sign in signs] == [(9, DECAY, False), (11, DECAY, True)]
    assert "carries 3.00 Mbit/s; it carried 62.0 Mbit/s after its boot" in signs[0][1].text


def test_the_script_runs_in_each_shell_and_ends_by_itself() -> None:
    script = command(["lo", "no-such.device"], 4, "echo one; echo two", batch_s=2)
    for shell in ("dash", "bash"):
        done = subprocess.run([shell, "-c", script], capture_output=True, text=True, timeout=60, start_new_session=True)
        boot, log, *lines = done.stdout.splitlines()
        assert re.fullmatch(r"boot \d+\.\d+ one two", boot)
        assert log in ("log yes", "log no")
        samples = [one for line in lines if not line.startswith("kernel ") for one in parse(line)]
        assert {one.device for one in samples} == {"lo", "no-such.device"}
        assert all((one.rx is None) == (one.device != "lo") for one in samples)
        assert len(samples) >= 4
