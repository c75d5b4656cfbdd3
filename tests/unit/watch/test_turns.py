"""Our own links on watched boards: what is an event of which board, and what is only said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_pinet.errors import BuildError, LabError, LinkError, PinetError, SwitchError, TrafficError
from pytest_pinet.evidence.vitals import DECAY, MESSAGE, STALL
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.judge.turns import Side
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.console.record import ConsoleRecord
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal as SwitchJournal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.processes import on_a_free_port
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool
from pytest_pinet.watch.journal import BOOT, Journal, Record
from pytest_pinet.watch.turns import Turn
from pytest_pinet.watch.watching import Watching
from tests.support import doctor_lab
from tests.support.link_stand_in import link
from tests.support.local_shell import LocalShell

OOPS = b"[ 7.1] Unable to handle kernel paging request at virtual address dead000000000100\n"
ENOUGH = LabError("the test has seen enough")
Act = Callable[["Access"], None]


class Tool:
    """A tool that measures this goodput, or fails."""

    def __init__(self) -> None:
        self.found: float | PinetError = 900e6

    def prepare(self, job: TrafficJob) -> None:
        pass

    def measure(self, job: TrafficJob) -> Measurement:
        if isinstance(self.found, PinetError):
            raise self.found
        if self.found == 0:
            on_a_free_port((), LocalShell("two"), lambda _: None)
        samples = (Sample(0.0, 1.0, round(self.found / 8)),)
        return Measurement(job.traffic, {way: Flow(way, samples) for way in job.traffic.direction.parts})


class Access(LabAccess):
    """Opens links that exist already. Their consoles are watched as on boards."""

    def __init__(self, folder: Path, tool: Tool) -> None:
        super().__init__(doctor_lab.lab(folder), Identity.of_this_process("test"), 1.0, print)
        switches = {"s": ManagedSwitch(self.lab.switches["s"], FixedSwitch(), SwitchJournal("lab.yaml", folder))}
        ends = (("one", "onboard"), ("two", "onboard"))
        self.links = [link(folder, ends), link(folder, ends[::-1])]
        for one in self.links:
            one.switches = switches
        # By the device under test: its console and the peer's.
        self.consoles = {
            one.combination.dut.node.name: {node.name: ConsoleRecord(node.name) for node in one.combination.nodes}
            for one in self.links
        }
        self.used: TrafficTool = tool
        self.on_open: PinetError | None = None
        self.on_close: dict[str, PinetError] = {}
        self.acts: list[Act] = []
        # No pool: a broken node would be rebooted there.
        self._pool = SimpleNamespace(distrust=lambda *_, **__: None)  # type: ignore[assignment]

    @property
    def tool(self) -> TrafficTool:
        return self.used

    @contextmanager
    def open(self, combination: Combination, reset: bool = False, link_required: bool = True) -> Iterator[Link]:
        if self.on_open is not None:
            raise self.on_open
        found = next(one for one in self.links if one.combination is combination)
        sessions: Any = {}
        for node in combination.nodes:
            shell = SimpleNamespace(watch_with=lambda _: None)
            record = self.consoles[combination.dut.node.name][node.name]
            sessions[node.name] = SimpleNamespace(name=node.name, record=record, boots=False, shell=shell)
        with self._watched(combination, sessions):
            yield found
            if (error := self.on_close.pop(combination.dut.node.name, None)) is not None:
                raise error

    @contextmanager
    def exclusive(self, combination: Combination) -> Iterator[None]:
        yield

    def watch(self) -> None:
        """Look at the consoles after the next act. Without one, the turn ends."""
        if not self.acts:
            raise ENOUGH
        self.acts.pop(0)(self)
        super().watch()


class Bench:
    """A watch without samples, and its turns."""

    def __init__(self, folder: Path) -> None:
        self.tool, self.folder = Tool(), folder / "watch"
        self.access = Access(folder, self.tool)
        self.said: list[str] = []
        self.records: list[Record] = []

    def turn(self, *acts: Act, links: int = 1, side: Side | None = None, pause_s: float | None = None) -> Turn:
        """Run a turn that ends after these acts, of which one follows each connection."""
        self.access.acts = [*acts]
        with closing(Journal(self.folder)) as journal:
            self.watching = Watching(journal, [], self.said.append)
            found = Turn(self.watching, self.access, pause_s, side, 0)
            found.run([one.combination for one in self.access.links[:links]], Deadline(600.0))
            self.records = journal.records
        self.said = [text for text in self.said if text != str(ENOUGH)]
        return found

    @property
    def signs(self) -> list[tuple[str, str]]:
        return [(one["node"], one["kind"]) for one in self.records if one["what"] == "sign"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def wait(_: Access) -> None:
    """Do nothing."""


def test_a_board_without_the_tool_is_left_out_with_one_sentence(bench: Bench) -> None:
    bench.access.used = Iperf3()
    without = LocalShell("two", env={"PATH": "/nonexistent"})
    bench.access.links[0] = link(bench.folder.parent, shells=(LocalShell("one"), without))
    assert bench.turn(pause_s=0.0).opened == []
    assert bench.said == ["one is left out of this turn: two has no iperf3"]
    assert bench.signs == []
    # Boards that are only watched need no tool.
    assert len(bench.turn().opened) == 1


def test_traffic_that_does_not_pass_is_one_stall_until_it_passes(bench: Bench) -> None:
    bench.tool.found = TrafficError("iperf3 still runs 15 s after the traffic should have ended")

    def mend(_: Access) -> None:
        bench.tool.found = 900e6

    bench.turn(wait, mend, pause_s=0.0)
    signs = [one for one in bench.records if one["what"] == "sign"]
    assert [(one["kind"], one["part"], one.get("over", False)) for one in signs] == [
        (STALL, "traffic", False),
        (STALL, "traffic", True),
    ]
    assert signs[0]["text"] == "one tx: no traffic: iperf3 still runs 15 s after the traffic should have ended"


@pytest.mark.parametrize("error", [None, SwitchError("switch s does not answer")])
def test_traffic_that_was_never_sent_is_no_stall(bench: Bench, error: PinetError | None) -> None:
    bench.tool.found = error or 0
    bench.turn(pause_s=0.0)
    why = "switch s does not answer" if error is not None else "all of the ports [] are in use on two"
    assert bench.said == [f"one tx: not measured: {why}"]
    assert bench.signs == []


@pytest.mark.parametrize("dut", ["one", "two"])
def test_a_crash_is_an_event_of_its_board_as_soon_as_its_console_shows_it(bench: Bench, dut: str) -> None:
    bench.turn(lambda access: access.consoles[dut][dut].feed(OOPS), wait, links=2)
    # The turn has ended before the second act.
    assert len(bench.access.acts) == 1
    assert bench.signs == [(dut, MESSAGE)]


def test_each_board_that_crashes_while_links_are_closed_has_its_event(bench: Bench) -> None:
    def crash(access: Access) -> None:
        for dut in ("one", "two"):
            access.consoles[dut][dut].feed(OOPS)
        raise ENOUGH

    bench.turn(crash, links=2)
    assert bench.signs == [("two", MESSAGE), ("one", MESSAGE)]


def test_what_is_wrong_with_a_switch_or_a_peer_is_said_and_is_no_event(bench: Bench) -> None:
    bench.access.on_close = {"one": SwitchError("switch s did not give the port back")}
    bench.turn(links=2)
    assert bench.said == ["switch s did not give the port back"]
    bench.turn(lambda access: access.consoles["one"]["two"].feed(OOPS))
    assert bench.said[1].startswith("kernel oops on two (peer) at ")
    assert bench.signs == []


def test_only_b_is_blamed_if_a_board_does_not_start(bench: Bench) -> None:
    bench.access.on_open = BuildError("one panicked", "panic")
    bench.turn(side=Side.A)
    assert bench.signs == []
    bench.turn(side=Side.B)
    assert bench.signs == [("one", BOOT)]
    assert any(one.get("text") == "B did not start on one: one panicked" for one in bench.records)
    bench.access.on_open = LinkError("one has no carrier")
    bench.turn(side=Side.B)
    assert bench.signs == [("one", BOOT)]


@pytest.mark.parametrize("booted", [False, True])
def test_a_link_that_becomes_slow_is_found_across_restarts_of_the_watch_but_not_of_the_board(
    bench: Bench, booted: bool
) -> None:
    with closing(Journal(bench.folder)) as journal:
        for at_s in range(6):
            journal.add(at_s, "rate", node="one", way="tx", bps=900_000_000)

    def boot(_: Access) -> None:
        bench.watching.note("boot", node="one", id="another")

    bench.tool.found = 100e6
    bench.turn(boot if booted else wait, pause_s=0.0)
    assert [one["bps"] for one in bench.records if one.get("way") == "tx"][6:] == [100_000_000] * 2
    assert bench.signs == ([] if booted else [("one", DECAY)])
