"""How long a link is silent after its carrier was lost: the cable is replugged at the far end, again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.errors import CapabilityError
from pytest_pinet.evidence.interface import read_interface
from pytest_pinet.execution.shell import Completed
from pytest_pinet.execution.undo import UndoStack, undone
from pytest_pinet.lab.link import far_end
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.events import Counted
from pytest_pinet.measure.short_run import SECONDS, share_of_line
from pytest_pinet.model.figures import Better, Figure, Sample
from pytest_pinet.traffic import echoes
from pytest_pinet.traffic.tool import TrafficTool, Watch

SILENCE = Figure("silence", "s", Better.DOWN)
AFTER = Figure("goodput_after", "share", Better.UP)
# A port with spanning tree forwards nothing for 30 s, and 10GBASE-T trains for up to 10 s.
RECOVERY_TIMEOUT_S = 45.0
START_TIMEOUT_S = 10.0
# So many answers show that the link works: before the carrier is taken away, and after it came back.
ENOUGH = 300
# The sender may pause this long at an end of the silence, or for this share of the silence.
PAUSE_S, PAUSE_SHARE = 0.03, 0.05
_SLOWER = "slower"
_DEAD = "dead"


@dataclass(frozen=True)
class Recovery(Counted):
    """One flap is one value. ``down_s`` is how long the carrier is away. ``tool`` measures the goodput afterwards.

    ``reboot`` boots the device under test and opens the link again, after a flap from which it did not come back.

    A flap is bad if the link is silent for more than ``silence_s``, if its goodput is below the share ``goodput`` of
    the line rate afterwards, or if it comes back with a lower speed.
    """

    tool: TrafficTool
    reboot: Callable[[Link], None]
    down_s: float = 1.0
    silence_s: float = RECOVERY_TIMEOUT_S
    goodput: float = 0.0
    noun: ClassVar = "flaps"
    values: ClassVar = (SILENCE, AFTER)

    @property
    def name(self) -> str:
        return f"recovery-ping-d{self.down_s:g}"

    @property
    def seconds(self) -> float:
        return self.down_s + SECONDS + 5.0

    def why_bad(self, event: Sample) -> str:
        silence_s, goodput = event.values[SILENCE.name], event.values[AFTER.name]
        if silence_s > self.silence_s or _DEAD in event.values:
            return f"silent for {SILENCE.show(silence_s)}"
        if _SLOWER in event.values:
            return "the link came back with a lower speed"
        return f"goodput {AFTER.show(goodput)} of the line rate afterwards" if goodput < self.goodput else ""

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Take the carrier away once, and measure until the link answers again, for 45 s after ``down_s`` at most.

        The silence of a link that does not come back is the whole time, and its board is booted.
        Raises CapabilityError if nothing at the far end may take the carrier away, LabError.
        """
        far_end.check(link)
        with undone(f"look at the far end of {link.dut}") as undo:
            found, is_back = self._flap(link, watch or (lambda: None), undo)
        if not is_back:
            self.reboot(link)
        return found

    def _flap(self, link: Link, watch: Watch, undo: UndoStack) -> tuple[Sample, bool]:
        """Return the flap, and whether the link came back."""
        dut, peer = link.dut, link.peer
        before = read_interface(dut.shell, dut.device)
        far_end.keep_neighbours(link, undo)
        output: list[Completed] = []
        lifetime_s = START_TIMEOUT_S + self.down_s + RECOVERY_TIMEOUT_S + 30
        with echoes.stream(dut.shell, dut.ip, peer.ip, lifetime_s, output.append) as process:
            if not echoes.await_answers(process, ENOUGH, START_TIMEOUT_S, watch):
                raise echoes.refused(dut.shell, process.stop())
            how = far_end.interrupt(link, self.down_s, undo)
            process.lines()
            back = echoes.await_answers(process, ENOUGH, RECOVERY_TIMEOUT_S, watch)
        text = output[0].stdout
        silence = echoes.longest_silence(echoes.parse(text.splitlines()))
        after = read_interface(dut.shell, dut.device)
        if before.carrier_changes is not None and after.carrier_changes == before.carrier_changes:
            raise CapabilityError(
                f"{dut} kept its carrier while {how}, so nothing at its far end can take the carrier away"
            )
        if silence is None:
            raise echoes.refused(dut.shell, output[0])
        notes = [f"{how} for {self.down_s:g} s"]
        if not back:
            notes.append(f"no answer within {RECOVERY_TIMEOUT_S:.0f} s after the carrier was given back")
        limit_s = max(PAUSE_S, PAUSE_SHARE * silence.seconds)
        paused = f"the sender paused for {silence.pause_s * 1000:.0f} ms" if silence.pause_s > limit_s else ""
        slower = after.carrier and (after.speed_mbps or 0) < (before.speed_mbps or 0)
        values = {SILENCE.name: silence.seconds, AFTER.name: share_of_line(self.tool, link, watch) if back else 0.0}
        if slower:
            values[_SLOWER] = 1.0
        if not back:
            values[_DEAD] = 1.0
        return Sample(values, text, excluded=paused, notes=tuple(notes), tool="ping"), back
