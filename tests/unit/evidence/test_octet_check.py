"""The switch's byte counters compared with the bytes that iperf3 moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.evidence.device_traffic import Moved
from pytest_pinet.evidence.octet_check import CableEnd, check_octets, factor, settled
from pytest_pinet.model.evidence import PortCounters

PAYLOAD = 100_000_000
CABLES = [
    CableEnd("a:onboard", "port sw1/p1", Moved(PAYLOAD, 0), Moved(PAYLOAD, 0)),
    CableEnd("b:onboard", "port sw1/p2", Moved(0, PAYLOAD), Moved(0, PAYLOAD)),
]


def counted(rx: float, tx: float, discards: int = 0, epoch: str = "boot", frames: bool = False) -> PortCounters:
    return PortCounters(0.0, round(rx), round(tx), rx_discards=discards, epoch=epoch, frames=frames)


BEFORE = [counted(1000, 2000), counted(3000, 4000)]


def after(in_factor: float, out_factor: float, discards: int = 0) -> list[PortCounters]:
    """Return counters where the sender's port received, and the receiver's port sent, this multiple of the payload."""
    return [counted(1000 + in_factor * PAYLOAD, 2000, discards), counted(3000, 4000 + out_factor * PAYLOAD)]


def check(*reads: Sequence[PortCounters]) -> list[PortCounters]:
    """Check the counters with these readings; the last one repeats."""
    answers = list(reads)

    def wait(condition: Callable[[], bool], seconds: float) -> bool:
        assert seconds == 5.0
        return any(condition() for _ in range(len(reads)))

    wire = factor(1500, 52, 1500)
    return check_octets(CABLES, BEFORE, lambda: answers.pop(0) if len(answers) > 1 else answers[0], wire, 5.0, wait)


def test_the_factor_is_that_of_full_segments_with_a_frame_check_sequence() -> None:
    assert factor(1500, 52, 1500) == pytest.approx((1500 + 18) / (1500 - 52))
    assert factor(1500, 28, 64) == pytest.approx((64 + 28 + 18) / 64)


@pytest.mark.parametrize("counts", [1.0483, 1.007, 1.0])
def test_ports_that_count_frames_or_segments_agree(counts: float) -> None:
    assert check(after(counts, counts)) == after(counts, counts)


def test_stale_counters_are_read_again() -> None:
    assert check(after(0.7, 0.6), after(0.9, 0.9), after(1.0483, 1.0483)) == after(1.0483, 1.0483)


def test_traffic_over_another_nic_is_invalid() -> None:
    with pytest.raises(InvalidMeasurement, match=r"only 50.0 MB came in from a:onboard at port sw1/p1, for 100.0 "):
        check(after(0.5, 1.0483))


def test_loss_behind_the_first_port_is_named_with_its_discards() -> None:
    with pytest.raises(
        InvalidMeasurement, match=r"108.0 MB came in from a:onboard at .*\(this port discarded 77 frames"
    ):
        check(after(1.08, 1.0483, discards=77))


def test_loss_behind_the_last_port_is_the_receivers() -> None:
    says = r"112.0 MB went out to b:onboard at port sw1/p2, but only 100.0 MB arrived: the rest was lost on the cable"
    with pytest.raises(InvalidMeasurement, match=says):
        check(after(1.0483, 1.12))


def test_counters_that_started_anew_say_nothing() -> None:
    fresh = [counted(5, 5, epoch="reboot"), counted(5, 5, epoch="reboot")]
    assert check(fresh) == fresh


@pytest.mark.parametrize("counts", [1.0483 * 0.97, 1.0483 * 0.9])
def test_a_port_that_counts_frames_is_held_to_two_percent(counts: float) -> None:
    seen = [replace(reading, frames=True) for reading in after(counts, counts)]
    with pytest.raises(
        InvalidMeasurement, match=r"for 100.0 MB of payload that iperf3 moved: the traffic took another way"
    ):
        check(seen)
    full = [replace(reading, frames=True) for reading in after(1.0483, 1.0483)]
    assert check(full) == full


def test_a_narrow_counter_may_start_over_once() -> None:
    old = [replace(counter, rx_octets=2**32 - 1000, bits=32) for counter in BEFORE]
    rx = (2**32 - 1000 + round(1.0483 * PAYLOAD)) % 2**32
    new = [replace(old[0], rx_octets=rx), replace(old[1], tx_octets=4000 + round(1.0483 * PAYLOAD))]
    wait = lambda condition, seconds: condition()  # noqa: E731
    assert check_octets(CABLES, old, lambda: new, factor(1500, 52, 1500), 0.0, wait) == new
    assert new[0].octets_since(old[0])[0] == round(1.0483 * PAYLOAD)


def test_a_narrow_counter_that_may_have_wrapped_twice_is_not_checked() -> None:
    moved = 5_000_000_000
    cables = [CableEnd("a:onboard", "port sw1/p1", Moved(moved, 0), Moved(moved, 0))]
    old = [replace(BEFORE[0], bits=32)]
    assert check_octets(cables, old, lambda: old, 1.05, 0.0, lambda condition, seconds: condition()) == old


def test_counters_that_still_move_are_waited_for() -> None:
    readings = [10_000_000, 20_000_000, 30_000_000, 30_000_100]
    clock = iter(range(0, -100, -10))

    def read() -> list[PortCounters]:
        # All are old, so there is no wait for newer ones.
        return [PortCounters(float(next(clock)) - 1e9, readings.pop(0), 0)]

    found = settled(read, 5.0, lambda condition, seconds: any(condition() for _ in range(10)))
    assert found[0].rx_octets == 30_000_100
    assert readings == []


def test_counters_of_this_moment_are_read_once() -> None:
    reads: list[int] = []

    def read() -> list[PortCounters]:
        reads.append(1)
        return BEFORE

    assert settled(read, 0.0, lambda condition, seconds: condition()) == BEFORE
    assert len(reads) == 1
