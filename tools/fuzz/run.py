"""Runs examples of one format until one ends in a traceback or does not end."""

from __future__ import annotations

import signal
import time
import traceback
from types import FrameType

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import FlakyFailure

from tools.fuzz.mangle import mangled
from tools.fuzz.target import Target

# Of processor time. No reader needs a tenth of this for a file of the samples' size.
HANG_S = 20.0
# A reader that waits uses no processor: so many signals, HANG_S apart. A fuzzer that is stopped, or waits long for a
# processor, gets one signal for all of that time.
WAITS = 15


class Finding(Exception):
    """An example that a reader neither read nor refused."""


class HangError(Exception):
    """A reader did not end."""


def fuzz(target: Target, examples: int, seconds: float, seed: int, hang_s: float = HANG_S) -> int:
    """Run this many examples, or as many as the time allows; return their number. Raises Finding."""
    samples = target.samples()
    deadline = time.monotonic() + seconds
    count = 0

    @with_seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(mangled(samples))
    def run(data: bytes) -> None:
        nonlocal count
        if time.monotonic() > deadline:
            return
        count += 1
        read(target, data, hang_s)

    try:
        run()
    except FlakyFailure as flaky:
        # The example hung once, but not when it was repeated.
        raise Finding("\n".join(map(str, flaky.exceptions))) from None
    return count


def read(target: Target, data: bytes, hang_s: float = HANG_S) -> None:
    """Read one example. Raises Finding."""

    waits = 0

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal waits
        waits += number == signal.SIGALRM
        if number == signal.SIGPROF or waits >= WAITS:
            raise HangError(f"not read after {hang_s:g} s of processor time, or {WAITS} times as long")

    before = [(number, signal.signal(number, stop)) for number in (signal.SIGALRM, signal.SIGPROF)]
    _set_timers(hang_s)
    try:
        target.read(data)
    except target.refusals as refusal:
        _set_timers(0)
        if not isinstance(refusal, OSError) and not str(refusal).strip():
            raise Finding(f"refused without a message\n{data!r}") from None
    except Exception as error:
        _set_timers(0)
        lines = "".join(traceback.format_exception(error)[-6:])
        raise Finding(f"{type(error).__name__}: {str(error)[:300]}\n{lines}\n{data[:4000]!r}") from None
    finally:
        _set_timers(0)
        for number, handler in before:
            signal.signal(number, handler)


def _set_timers(hang_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, hang_s)
    signal.setitimer(signal.ITIMER_REAL, hang_s, hang_s)
