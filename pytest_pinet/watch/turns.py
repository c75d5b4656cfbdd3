"""Our own boots and traffic on watched boards: two builds alternate on each board, and connections show a slow link."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pytest_pinet.ab.boots import BuildBooter, RefusedBuild
from pytest_pinet.ab.options import ABOptions
from pytest_pinet.errors import (
    BuildError,
    ConfigError,
    InvalidMeasurement,
    KernelError,
    LabError,
    LinkError,
    PinetError,
    ToolError,
    TrafficError,
    first_line,
)
from pytest_pinet.evidence.vitals import MESSAGE, STALL, Goodputs, Sign, kernel_sign
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.judge.turns import Side, side
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes
from pytest_pinet.matrix.expansion import PAIR
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.model.traffic import Direction, standard_traffic
from pytest_pinet.traffic.tool import TrafficJob
from pytest_pinet.watch.journal import BOOT
from pytest_pinet.watch.watching import POLL_S, Watching

# One connection of our own traffic.
TRAFFIC_S = 10
# How often the answer is looked at while the boards are only watched.
LOOK_S = 60.0
# What ends a turn, and not the watch: a crash of a board, or what is wrong with a peer, a power supply or a switch.
TROUBLE = (KernelError, LabError, InvalidMeasurement)
# So many turns in a row without any board end the watch.
MOST_MISSED = 3


@dataclass(frozen=True)
class Plan:
    """How long to watch (s), the pause between connections of our own traffic (None: no traffic), and the builds.

    Each build runs for ``turn_s`` at a time. ``may_boot`` says whether boards may be booted, given the risk.
    """

    seconds: float
    pause_s: float | None = None
    builds: ABOptions | None = None
    turn_s: float = 7200.0
    may_boot: Callable[[str], bool] = lambda _: False


def pairs(lab: Lab, nodes: Sequence[Node], named: bool) -> list[Combination]:
    """Return a pair for each node, with its first NIC and a peer of its own. Raises ConfigError.

    If the user ``named`` no nodes, a node that becomes a peer has none.
    """
    found: list[Combination] = []
    taken = {node.name for node in nodes} if named else set()
    for node in nodes:
        if node.runner or (node.name in taken and not named):
            continue
        free = {name: one for name, one in lab.nodes.items() if one is node or name not in taken}
        try:
            pair = EndpointSelector(replace(lab, nodes=free)).combination(node.interfaces[0], PAIR)
        except NotEnoughNodes as error:
            if named:
                raise ConfigError(f"{node.name} has no peer for traffic and builds: {error}") from None
            continue
        taken |= {one.name for one in pair.nodes}
        found.append(pair)
    if not found:
        raise ConfigError("no board has a peer: traffic and builds need two boards that reach each other")
    return found


def watch_until(watching: Watching, access: LabAccess, wanted: Sequence[Combination], plan: Plan) -> None:
    """Watch until the time of the plan is over or the answer is certain. Raises PinetError."""
    end = Deadline(plan.seconds)
    booter = BuildBooter(plan.builds, access, watching.say, plan.may_boot) if plan.builds is not None else None
    number = max((one["number"] for one in watching.journal.records if one["what"] == "turn"), default=-1) + 1
    missed = 0
    while not watching.is_over(end):
        which = None
        if booter is not None:
            which = side(number)
            booter.next(which)
        turn = Turn(watching, access, plan.pause_s, which, number)
        try:
            turn.run(wanted, Deadline(min(end.remaining_s, math.inf if booter is None else plan.turn_s)))
        except RefusedBuild as error:
            raise error.error from error
        missed = 0 if turn.opened else missed + 1
        if turn.trouble is not None and missed >= MOST_MISSED:
            raise turn.trouble
        number += 1


@dataclass
class Turn:
    """One turn of a build on all boards, or the whole watch without builds. The links are open all the time."""

    _watching: Watching
    _access: LabAccess
    _pause_s: float | None
    _side: Side | None
    _number: int
    # By node, way and the place of the node's last boot in the journal.
    _goodputs: dict[tuple[str, Direction, int], Goodputs] = field(default_factory=dict)
    _stalled: set[str] = field(default_factory=set)
    opened: list[Link] = field(default_factory=list)
    trouble: PinetError | None = None

    def run(self, wanted: Sequence[Combination], end: Deadline) -> None:
        """Boot and open all pairs, watch them, and close them. Without pairs, only watch."""
        watching = self._watching
        names = [node.name for combination in wanted for node in combination.nodes]
        watching.count()
        with ExitStack() as stack:
            with watching.changing(names):
                for combination in wanted:
                    self._open(combination, stack)
            try:
                while (self.opened or not wanted) and not watching.is_over(end):
                    for link in self.opened if self._pause_s is not None else ():
                        self._send(link)
                    pause = Deadline(min(LOOK_S if self._pause_s is None else self._pause_s, end.remaining_s))
                    pause.wait_until(self._look, POLL_S)
            except TROUBLE as error:
                # A console showed it. The next turn boots the board again.
                watching.check()
                self._blame(error)
            finally:
                with watching.changing(names):
                    stack.close()

    def _open(self, combination: Combination, stack: ExitStack) -> None:
        node = combination.dut.node.name
        self._watching.note("turn", node=node, side=str(self._side or ""), number=self._number)
        try:
            with ExitStack() as opened:
                link = opened.enter_context(self._access.open(combination))
                if self._pause_s is not None:
                    dut, peer, traffic = link.dut, link.peer, standard_traffic(Direction.TX, TRAFFIC_S)
                    self._access.tool.prepare(TrafficJob(dut.shell, peer.shell, dut.ip, peer.ip, traffic))
                self.opened.append(link)
                stack.callback(self._close, opened.pop_all())
        except PinetError as error:
            if isinstance(error, ConfigError):
                raise
            self.trouble = error
            if isinstance(error, BuildError | KernelError) and self._side is Side.B:
                text = f"B did not start on {node}: {first_line(error)}"
                self._watching.sign(node, Sign(time.time(), BOOT, text, over=True))
            # Its hours are of no build.
            self._watching.note("turn", node=node, side="", number=self._number)
            self._watching.say(f"{node} is left out of this turn: {first_line(error)}")

    def _close(self, opened: ExitStack) -> None:
        """Close one link. Its error ends no other link."""
        try:
            opened.close()
        except TROUBLE as error:
            self._blame(error)

    def _look(self) -> bool:
        self._watching.check()
        self._access.watch()
        return False

    def _send(self, link: Link) -> None:
        node, watching = link.combination.dut.node.name, self._watching
        for way in (Direction.TX, Direction.RX):
            traffic = standard_traffic(way, TRAFFIC_S, 1)
            context = MeasureContext(link, self._access.tool, watch=self._access.watch)
            try:
                with self._access.exclusive(link.combination), Runs(context, TRAFFIC_S + POLL_S) as runs:
                    found = runs.again(traffic)
            except (LabError, InvalidMeasurement) as error:
                if isinstance(error, ToolError) or not isinstance(error, LinkError | TrafficError):
                    # This is not the board's fault, such as a lease that another run has.
                    watching.say(f"{node} {way}: not measured: {first_line(error)}")
                elif node not in self._stalled:
                    self._stalled.add(node)
                    text = f"{node} {way}: no traffic: {first_line(error)}"
                    watching.sign(node, Sign(time.time(), STALL, text, part="traffic"))
                return
            if node in self._stalled:
                self._stalled.remove(node)
                watching.sign(node, Sign(time.time(), STALL, f"{node} has traffic again", over=True, part="traffic"))
            if not found.excluded:
                course = self._course(node, way)
                watching.note("rate", node=node, way=str(way), bps=round(found.goodput.bps))
                for sign in course.add(time.time(), found.goodput.bps):
                    watching.sign(node, sign)

    def _course(self, node: str, way: Direction) -> Goodputs:
        """Return the goodputs since the node's last boot. Earlier turns and an earlier watch have written them, too."""
        records = [one for one in self._watching.journal.records if one.get("node") == node]
        # A turn of a build begins with a boot.
        boots = (place for place, one in enumerate(records) if one["what"] == "boot" or one.get("side"))
        key = node, way, max(boots, default=0)
        if key not in self._goodputs:
            self._goodputs[key] = Goodputs(f"{node} {way}")
            for one in records[key[2] :]:
                if one.get("way") == way:
                    self._goodputs[key].add(one["t"], one["bps"])
        return self._goodputs[key]

    def _blame(self, error: PinetError) -> None:
        """Write the crash of a board under test. All else is no event, such as an error of a switch or a peer."""
        text = first_line(error)
        if isinstance(error, KernelError):
            known = kernel_sign(text, time.time())
            self._watching.sign(error.node, known or Sign(time.time(), MESSAGE, text, over=True))
        else:
            self._watching.say(text)
