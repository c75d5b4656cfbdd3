"""What the product prints today for the outputs on the pages, from stored results, by the name in the page's mark.

The line before a block names its output::

    <!-- output: two kernels -->

The block consists of lines of this output, in its order. A page can leave out lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import NamedTuple, cast

from pytest_pinet.calibration import selftest
from pytest_pinet.calibration.connections import CalibrationOutcome
from pytest_pinet.calibration.connections import table as calibration_table
from pytest_pinet.calibration.selftest import Count, Mark
from pytest_pinet.config.calibration import Calibration, MeasuredNoise
from pytest_pinet.doctor.bench import Bench, Finding, Status, lines
from pytest_pinet.doctor.examine import LAB_FILE, REACHING
from pytest_pinet.doctor.node_checks import NO_CONSOLE, NO_POWER, check_coordinator, check_exporters
from pytest_pinet.init.answers import Answers
from pytest_pinet.init.desk import Wishes, plan
from pytest_pinet.init.lab_file import desk_text
from pytest_pinet.judge.causes_in_flow import shaper
from pytest_pinet.judge.spread import Component, Components
from pytest_pinet.model.evidence import DiagnosisFacts, EndFacts, ProcessorLoad
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.record.change import BuildFileRecord, BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change_table import change_lines, emulated_words
from pytest_pinet.report.failure import failure_text
from pytest_pinet.report.sentences import loss_lines, losses_sentence
from pytest_pinet.report.text_wrap import wrap
from tests.support.change_records import compared
from tests.support.console_blocks import DOCS, PAGES, ROOT
from tests.support.exact_records import of_boots, recorded, run_of
from tests.support.init_machines import direct, machine
from tests.support.loss_levels import TODAY, losses
from tests.support.report_records import direction, limit_of, result
from tools.site import written_by_hand

_BLOCK = re.compile(
    r"(?:^[ \t]*<!-- (?P<mark>[^\n]*) -->\n\s*)?^ *```(?:text|markdown)\n(?P<text>.*?)^ *```", re.M | re.S
)
MEANING = (
    "lab emulated counts instructions, not seconds: values show the code path of a packet, not the speed of a board"
)


class OutputBlock(NamedTuple):
    """``mark`` is the comment before the block, empty if there is none."""

    page: str
    line: int
    mark: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def output_blocks() -> list[OutputBlock]:
    """Return all blocks of text and Markdown, in the order of the pages."""
    return [
        OutputBlock(
            str(page.relative_to(ROOT)),
            text.count("\n", 0, match.start("text")),
            match["mark"] or "",
            tuple(match["text"].splitlines()),
        )
        for page in PAGES
        for text in [written_by_hand(page.read_text(encoding="utf-8"))]
        for match in _BLOCK.finditer(text)
        # The diagram of the packages is no output.
        if page != DOCS / "contributing" / "architecture.md"
    ]


def missing_lines(block: Sequence[str], output: Sequence[str]) -> list[str]:
    """Return the lines of a block that the output does not have at their place."""
    missing, at = [], 0
    for line in block:
        if line in output[at:]:
            at = output.index(line, at) + 1
        else:
            missing.append(line)
    return missing


def _build(name: str, key: str = "", release: str | None = None, files: int = 0) -> BuildRecord:
    one = BuildFileRecord(role="kernel", name="kernel8.img", sha256="0" * 64, size=1)
    return BuildRecord(
        name=name, key=key, release=release, files=(one,) * files, config=(), cmdline=(), options=(), sysctls=()
    )


def _entry(
    name: str, verdict: Verdict, a: float, b: float, change: float, text: str = "", suspect: str = ""
) -> ChangeEntryRecord:
    way = name.rpartition("-")[2]
    return ChangeEntryRecord(
        id=name, direction=way, verdict=verdict, text=text, a_bps=a * 1e6, b_bps=b * 1e6, change=change, suspect=suspect
    )


def _head(
    a: BuildRecord, b: BuildRecord, sentence: str, turns: int, entries: Sequence[ChangeEntryRecord]
) -> ChangeHeadRecord:
    return ChangeHeadRecord(
        a=a, b=b, baseline="interleaved", verdict=Verdict.FAIL, exit=1, bisect_exit=1, sentence=sentence, turns=turns,
        entries=tuple(entries),
    )  # fmt: skip


def _beside_a(change: str) -> str:
    return f"{change.lstrip('-+')} % {'below' if change.startswith('-') else 'above'} A"


def _slower(turns: int, change: str, low: str, high: str) -> str:
    return f"slower, certain after {turns} turns: B is {_beside_a(change)} ({low} to {high} %)"


def _undecided(turns: int, change: str, low: str, high: str, apart: str) -> str:
    return f"undecided after {turns} turns: B is {_beside_a(change)} ({low} to {high} %); turns differ by {apart} %"


_BOARDS_OWN = _build("running")
_FEWER_ACKS = "tx_packets per Gbit: 1258 -> 786 (-37 %)"
# The values of the runs that the pages describe.
TWO_KERNELS = _head(
    _BOARDS_OWN,
    _build("linux-image-6.12.117+deb12-arm64", "6f3af7cd4b9c", "6.12.117+deb12-arm64", files=11),
    "linux-image-6.12.117+deb12-arm64 must not be merged: 2 of 6 metrics slower, by 11.6 % in "
    "virt:virtio/pair/tcp-P1-rx, against the boards' own build.",
    16,
    [
        _entry("virt:virtio/pair/tcp-P1-rx", Verdict.FAIL, 704.194599, 617.621498, -0.1155875,
               _slower(6, "-11.56", "-13.22", "-9.86")),
        _entry("virt:e1000e/pair/tcp-P1-rx", Verdict.FAIL, 224.6, 219.6, -0.0218,
               _slower(11, "-2.18", "-2.98", "-1.37"), _FEWER_ACKS),
        _entry("virt:virtio/pair/tcp-P4-tx", Verdict.INCONCLUSIVE, 681.6, 635.2, -0.0766,
               _undecided(16, "-7.66", "-11.44", "-3.73", "3.6")),
        _entry("virt:e1000e/pair/tcp-P4-tx", Verdict.INCONCLUSIVE, 625.0, 620.5, -0.0046,
               _undecided(10, "-0.46", "-4.47", "+3.72", "2.8")),
        _entry("virt:virtio/pair/udp-P1-b900M-l1400-tx", Verdict.PASS, 58.2, 59.8, 0.0220),
        _entry("virt:e1000e/pair/udp-P1-b900M-l1400-tx", Verdict.PASS, 55.8, 57.1, 0.0228),
    ],
)  # fmt: skip
REAL_TIME = _head(
    _BOARDS_OWN,
    _build("linux-image-6.1.0-56-rt-arm64", "a", "6.1.0-56-rt-arm64", files=11),
    "",
    4,
    [
        _entry("virt:e1000e/pair/udp-P1-b900M-l1400-tx", Verdict.FAIL, 55.9, 19.7, -0.6470,
               _slower(4, "-64.70", "-65.07", "-64.34"), "NET_TX softirqs per Gbit: 89343 -> 10.1 (-100 %)"),
        _entry("virt:e1000e/pair/tcp-P1-rx", Verdict.FAIL, 224.4, 177.0, -0.2112,
               _slower(4, "-21.12", "-22.38", "-19.84"), "NET_TX softirqs per Gbit: 969 -> 1.13 (-100 %)"),
    ],
)  # fmt: skip
ONE_NIC = _head(
    _BOARDS_OWN, TWO_KERNELS.b, "", 11, [one for one in TWO_KERNELS.entries if one.id == "virt:e1000e/pair/tcp-P1-rx"]
)
NO_OFFLOAD = _head(
    _build("good", "33d62a1a55dd"),
    _build("new", "1f449c713387"),
    "new must not be merged: 1 of 3 metrics slower, by 2.1 % in pi4b:ax88179/pair/tcp-P1-tx, against good.",
    7,
    [
        _entry("pi4b:ax88179/pair/tcp-P1-tx", Verdict.FAIL, 940.5, 921.2, -0.0205,
               _slower(7, "-2.05", "-2.55", "-1.56"), "tcp-segmentation-offload: on -> off"),
        _entry("pi4b:onboard/pair/tcp-P1-tx", Verdict.PASS, 940.7, 939.6, -0.0010),
        _entry("pi4b:onboard/pair/tcp-P1-rx", Verdict.PASS, 940.5, 940.4, -0.0001),
    ],
)  # fmt: skip

# The intervals of its onboard NIC.
_QUIET = [compared("pi4b:onboard/pair", "tx", -0.001, "same"), compared("pi4b:onboard/pair", "rx", -0.0001, "same")]


def _run(head: ChangeHeadRecord) -> RunRecord:
    return RunRecord(
        schema_version=1, run="20261122-120000", lab="emulated", figures="emulated", started="2026-11-22T12:00:00Z",
        results=(), meaning=MEANING, change=head,
    )  # fmt: skip


def _answer(head: ChangeHeadRecord, results: Sequence[ResultRecord] = ()) -> list[str]:
    return [*change_lines(head, results=results), *wrap(emulated_words(_run(head)), hanging="  ")]


def _failure() -> list[str]:
    """The failure of a link that `pinet demo` made 10 % slower."""
    wire, goodput = Bitrate(94_148_244.5), Bitrate(84_732_508.0)
    loads = (ProcessorLoad(0, busy=0.16, irq=0.0, softirq=0.01),) * 2
    ends = tuple(EndFacts(name, load=load) for name, load in zip(("pi3b-1", "pi3b-2"), loads, strict=True))
    cause = shaper(DiagnosisFacts("tx", goodput, wire, ends=ends, spread=0.001))
    assert cause is not None
    rates = [75.6e6, *[goodput.bps] * 85, 93.8e6]
    connection = {"goodput_bps": goodput.bps, "seconds": 2.9, "warmup_s": 0.1, "events": [], "excluded": ""}
    connection["fresh"] = "connection"
    samples = [Sample(0.1 * n, 0.1, round(bps / 80)) for n, bps in enumerate(rates)]
    tx = direction(
        goodput.bps,
        limit_of(wire.bps * 0.94, "94% of 94.1 Mbit/s", "min='94%' of the marker"),
        "fail",
        wire.bps,
        interval_bps=(84.0e6, 85.5e6),
        stopped="below the limit in 3 of 3 connections (9 s): 4.3 % below the limit on average, noise 0.39 %",
        connections=[
            connection | {"samples": samples},
            connection,
            connection | {"fresh": "link-up"},
        ],
        retransmits=39,
    )
    tx = tx.replace(oracle="100 Mbit/s link, MTU 1500, TCP timestamps")
    found = result("pi3b:onboard/pair", {"tx": tx}, link="100 Mbit/s full duplex, MTU 1500", peer="pi3b-2:onboard")
    ports = {"dut_port": "sw1/p1", "peer_port": "sw1/p3"}
    found = found.replace(
        combination=found.combination.replace(**ports),
        limited_by=cause,
        files=("raw/pi3b_onboard_pair_tcp_-282d94f0fe41/client.json",),
        rerun="pytest --pyargs 'pytest_pinet.suites.test_line_rate::test_onboard[pi3b:onboard/pair-tx]' "
        "--pinet-lab=virtual",
    )
    return failure_text(found, ".pinet/runs/20261122-191332").splitlines()


def _count(reduction: float, right: int, median_s: float, most_s: float, measured: float) -> Count:
    marks = {Mark.RIGHT: right, Mark.WRONG: 0, Mark.INCONCLUSIVE: 2 - right, Mark.INVALID: 0}
    return Count(reduction, reduction == 0.03, marks, 0, median_s, most_s, measured)


def _selftest() -> list[str]:
    counts = [
        _count(0.0, 2, 3.0, 3.0, -0.001),
        _count(0.03, 0, 49.5, 57.0, 0.03),
        _count(0.05, 2, 9.0, 9.0, 0.052),
        _count(0.1, 2, 9.0, 9.0, 0.1),
    ]
    return selftest.table(counts)


def _calibration() -> list[str]:
    found = []
    for way, connections, links in (("tx", 0.0011, 0.0036), ("rx", 0.0008, 0.0014)):
        parts = Components(Component(connections, connections, 6), Component(0.0, links, 2), None, 9)
        noise = MeasuredNoise(Share(connections), Share(links), None, runs=9, link_ups=3)
        name = f"pi3b:onboard/pair/tcp-P1-{way}"
        calibration = Calibration(name, noise, Share(0.03), 1, Share(0.0094), date(2026, 11, 22), {})
        found.append(CalibrationOutcome(Bitrate(94.1e6), parts, calibration, 3.0))
    return calibration_table(found)


def _status() -> list[str]:
    """Print an open loss and an acknowledged one."""
    head = f"lab bench: {losses_sentence(losses())}"
    return [head, "24 results, newest run 2026-11-15", *loss_lines(losses(), TODAY)]


def _exact_gate() -> list[str]:
    a, b = recorded("macb-6.1-rebuilt"), recorded("macb-6.1-rx-pending")
    run = run_of(of_boots(a, b, "macb.ko"), "macb.ko")
    assert run.change is not None
    return change_lines(run.change, results=run.results)


def _desk_file() -> list[str]:
    """The lab file of a Pi 4, and of this machine at the other end of its cable."""
    pi = replace(machine("pi4b"), host="pi")
    return desk_text(plan((pi,), machine("pc", None), Wishes(), Answers(is_terminal=False), direct), "x").splitlines()


def _desk_doctor() -> list[str]:
    """The first checks of a desk without a fault."""
    pool = SimpleNamespace(places=SimpleNamespace(sync=lambda: None))
    bench = cast(Bench, SimpleNamespace(access=SimpleNamespace(pool=pool), coordinator=None))
    good = [Finding(Status.OK, name) for name in ("pi", "pc")]
    checks = {
        "lab file": [Finding(Status.OK, message="desk.yaml: 2 nodes, 2 interfaces, 1 switch")],
        "coordinator": check_coordinator(bench),
        "exporter": [*good, *check_exporters(bench)],
        "places free": good,
        "power read-back": [Finding(Status.UNKNOWN, "pi", NO_POWER), good[1]],
        "serial login": [Finding(Status.UNKNOWN, "pi", NO_CONSOLE), good[1]],
        "ssh": good,
        "root rights": good,
    }
    assert list(checks) == [LAB_FILE, *(check.name for check in REACHING)]
    return [line for check, findings in checks.items() for line in lines(check, findings)]


OUTPUTS: Mapping[str, Callable[[], Sequence[str]]] = {
    "two kernels": lambda: _answer(TWO_KERNELS),
    "one NIC of two kernels": lambda: _answer(ONE_NIC),
    "real time": lambda: _answer(REAL_TIME),
    "no offload": lambda: _answer(NO_OFFLOAD, _QUIET),
    "failure": _failure,
    "status": _status,
    "desk.yaml, file": _desk_file,
    "doctor of a desk": _desk_doctor,
    "selftest": _selftest,
    "calibration": _calibration,
    "exact gate": _exact_gate,
}
