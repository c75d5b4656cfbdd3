"""Traffic after a time without traffic: lost pings on an idle link, and the first answer and second after silence.

At first ten pings a second: a loss of 5 % is then seen within 30 s. One ping in ten seconds would need minutes. But
pings keep a link awake, and some faults come only after silence: so no packet of us follows, for the whole idle time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import Probe
from pytest_pinet.measure.ping import ping_peer
from pytest_pinet.measure.short_run import SECONDS, share_of_line
from pytest_pinet.model.figures import FIRST_ANSWER, FIRST_SECOND, IDLE_LOSS, Sample
from pytest_pinet.model.traffic import USUAL_PATH, Ping
from pytest_pinet.traffic import echoes
from pytest_pinet.traffic.tool import TrafficTool, Watch

PING_INTERVAL_S = 0.1
# Before an idle time of a call's own, pings last as long as the idle time, and no longer than this.
MOST_PINGS_S = 60.0
# The usual seconds of pings and of idle time of each profile. A verdict takes three of them: 60 s of pings (standard).
PINGS_AND_IDLE_S = {
    "fast": (2.0, 2.0),
    "standard": (20.0, 12.0),
    "soak": (MOST_PINGS_S, 300.0),
    "full": (MOST_PINGS_S, 300.0),
}
# A link that gives no answer for so long is dead, and does not come back by itself.
ANSWER_TIMEOUT_S = 10.0


def lasts_s(pings_s: float, idle_s: float) -> float:
    """Return how long the measurement of an idle time lasts."""
    return pings_s + idle_s + SECONDS + 2.0


@dataclass(frozen=True)
class Idle(Probe):
    """One idle time is one value: pings for ``pings_s`` without other traffic, silence for ``idle_s``, then traffic.

    ``reboot`` boots the device under test and opens the link again, after an idle time from which it did not come back.
    """

    tool: TrafficTool
    reboot: Callable[[Link], None]
    pings_s: float
    idle_s: float
    figures: ClassVar = (IDLE_LOSS, FIRST_ANSWER, FIRST_SECOND)

    @property
    def name(self) -> str:
        return f"idle-ping-t{self.idle_s:g}"

    @property
    def seconds(self) -> float:
        return lasts_s(self.pings_s, self.idle_s)

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Measure one idle time, and the traffic after it.

        If no answer comes within 10 s, this is its first answer, and nothing came in the first second. Raises LabError,
        such as TrafficError if no ping before the idle time is answered.
        """
        count = max(1, round(self.pings_s / PING_INTERVAL_S))
        report, text = ping_peer(link, Ping(count, PING_INTERVAL_S), watch)
        _wait(self.idle_s, watch)
        with ThreadPoolExecutor(1, thread_name_prefix="pinet-idle") as pool:
            # At the same time: the pings alone would wake the link before the traffic begins.
            second = pool.submit(share_of_line, self.tool, link, watch, self.setup.family)
            first_s, said = _first_answer(link, watch)
            share = 0.0 if first_s is None else second.result()
        notes: tuple[str, ...] = ()
        if first_s is None:
            first_s = ANSWER_TIMEOUT_S
            notes = (f"no answer from {link.peer.endpoint} within {first_s:.0f} s after an idle time",)
            # A boot would undo the setup of the path. Without a boot, the next pings say that the link is dead.
            if self.setup == USUAL_PATH:
                self.reboot(link)
        values = {IDLE_LOSS.name: report.loss, FIRST_ANSWER.name: first_s, FIRST_SECOND.name: share}
        return Sample(values, f"{text}\n{said}", notes=notes, tool="ping")


def _wait(seconds: float, watch: Watch | None) -> None:
    """Send nothing for so many seconds."""

    def interrupted() -> bool:
        if watch is not None:
            watch()
        return False

    Deadline(seconds).wait_until(interrupted, 0.2)


def _first_answer(link: Link, watch: Watch | None) -> tuple[float | None, str]:
    """Ping until an answer comes; return the time since the first request, and the output. None: none came in time."""
    dut, peer = link.dut, link.peer
    output: list[Completed] = []
    with echoes.stream(dut.shell, dut.ip, peer.ip, 3 * ANSWER_TIMEOUT_S, output.append) as process:
        echoes.await_answers(process, 1, ANSWER_TIMEOUT_S, watch or (lambda: None))
    seen = echoes.parse(output[0].stdout.splitlines())
    if not seen:
        raise echoes.refused(dut.shell, output[0])
    first_s = echoes.first_answer_s(seen, echoes.RESOLUTION_S)
    return first_s, "\n".join(output[0].stdout.splitlines()[:50])
