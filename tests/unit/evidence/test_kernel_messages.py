"""A trace of the kernel is quoted by the line that says what it is and where, not by its line of dashes."""

from __future__ import annotations

import pytest

from pytest_pinet.evidence.kernel_messages import troubles

CUT = "[   12.000001] ------------[ cut here ]------------"
WARNED = "[   12.000003] WARNING: CPU: 0 PID: 7 at drivers/net/usb/lan78xx.c:1420 lan78xx_open+0x1c/0x40 [lan78xx]"
BODY = """\
[   12.000004] Modules linked in: lan78xx bcm2835_v4l2
[   12.000005] CPU: 0 PID: 7 Comm: kworker/0:1 Not tainted 6.12.25-v8+ #1
[   12.000006] Hardware name: Raspberry Pi 3 Model B Rev 1.2 (DT)
[   12.000007] Call trace:
[   12.000008]  lan78xx_open+0x1c/0x40 [lan78xx]
[   12.000009] ---[ end trace 0000000000000000 ]---
[   13.000000] eth0: renamed from eth1""".splitlines()


@pytest.mark.parametrize(
    "said",
    [
        [WARNED],
        ["[   12.000003][   T17] WARNING: CPU: 3 PID: 17 at net/core/dev.c:4 f+0x1/0x2"],
        ["[   12.000003] WARNING: net/core/dev.c:4 at f+0x1/0x2, CPU#3: kworker/17"],
        ["[   12.000003] kernel BUG at mm/slub.c:4321!"],
        ["[   12.000002] NETDEV WATCHDOG: eth0 (lan78xx): transmit queue 0 timed out 5000 ms", WARNED],
        ["[   12.000002] refcount_t: underflow; use-after-free.", WARNED],
    ],
)
def test_a_trace_is_quoted_by_what_it_says(said: list[str]) -> None:
    assert troubles([CUT, *said, *BODY]) == said


@pytest.mark.parametrize(
    "line",
    [
        "[   12.1] BUG: scheduling while atomic: swapper/0/0/0x00000002",
        "[   12.1] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000008",
        "[   12.1] Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP",
        "[   12.1] WARNING: possible circular locking dependency detected",
    ],
)
def test_a_trace_without_dashes_is_quoted_by_its_first_line(line: str) -> None:
    assert troubles([line, *BODY]) == [line]


def test_a_trace_that_says_nothing_else_is_quoted_by_its_dashes() -> None:
    assert troubles([CUT, *BODY]) == [CUT]
    assert troubles([CUT]) == [CUT]


def test_two_traces_are_two() -> None:
    assert troubles([CUT, WARNED, *BODY, CUT, WARNED.replace("12.", "14."), *BODY]) == [
        WARNED,
        WARNED.replace("12.", "14."),
    ]


def test_other_lines_with_such_a_word_are_no_trouble() -> None:
    assert troubles(["[    1.0] usb 1-1: WARNING: this device is old", "[    1.1] bcmgenet: Link is Up"]) == []
