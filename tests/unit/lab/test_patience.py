"""The maximum wait for other users, and the longer one for workers of the same run."""

from __future__ import annotations

from pytest_pinet.lab.contention import SIBLING_S, Patience


class Waiting:
    """A wait with a clock that the test controls."""

    def __init__(self, timeout_s: float) -> None:
        self.now = 100.0
        self.patience = Patience(timeout_s, lambda: self.now)

    def go(self, seconds: float, holder: str, sibling: bool = False) -> Patience:
        """Another user holds the place for a while. The wait checks before and after it."""
        self.patience.look(holder, sibling)
        self.now += seconds
        self.patience.look(holder, sibling)
        return self.patience


def test_the_wait_for_other_runs_ends_at_the_timeout() -> None:
    waiting = Waiting(900)
    assert not waiting.go(899, "alice").over
    assert waiting.patience.progress == "waited 899 s of 900 s"
    assert waiting.patience.remaining_s == 1
    # It is one wait, even if the holder changes.
    assert waiting.go(1, "bob").over
    assert not waiting.patience.hangs
    assert waiting.patience.waited == "900 s"


def test_time_of_workers_of_the_same_run_does_not_count() -> None:
    waiting = Waiting(10)
    for number in range(20):
        assert not waiting.go(1000, f"test {number} of gw1", sibling=True).over
    assert waiting.patience.progress == "a worker of this run; waited 1000 s for it"
    assert not waiting.go(9, "alice").over
    assert waiting.go(1, "alice").over
    assert waiting.patience.waited == "10 s, and 20000 s for workers of this run"
    assert waiting.patience.waited_s == 20010


def test_a_worker_that_never_releases_hangs() -> None:
    waiting = Waiting(10)
    assert not waiting.go(SIBLING_S - 1, "gw1 since 12:00", sibling=True).over
    assert waiting.go(1, "gw1 since 12:00", sibling=True).hangs
    assert waiting.patience.over
    assert waiting.patience.sibling_s == SIBLING_S


def test_a_long_timeout_also_limits_the_wait_for_own_workers() -> None:
    waiting = Waiting(3 * SIBLING_S)
    assert not waiting.go(3 * SIBLING_S - 1, "gw1", sibling=True).over
    assert waiting.go(1, "gw1", sibling=True).hangs


def test_a_timeout_of_zero_does_not_wait_for_other_runs() -> None:
    waiting = Waiting(0)
    assert waiting.go(0, "alice").over
    assert not Waiting(0).go(1, "gw1", sibling=True).over
