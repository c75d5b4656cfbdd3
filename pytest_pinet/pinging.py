"""Round trips of single packets over a link that is otherwise idle, judged and recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from datetime import UTC, datetime

from pytest_pinet.evidence.build import read_build
from pytest_pinet.judge.confirm import confirm
from pytest_pinet.judge.extras import Extras, judge_extras
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.lab.link import Link
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.ping import Ping, PingReport
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst
from pytest_pinet.report.record import ResultRecord, combination_record
from pytest_pinet.report.traffic import ping_record, ping_text
from pytest_pinet.report.tunings import tuning_notes, tuning_records
from pytest_pinet.steps import doing
from pytest_pinet.traffic import ping as tool

_GOOD = (Verdict.PASS, Verdict.MARGINAL)


def measure(
    link: Link,
    ping: Ping,
    limits: Sequence[Limit],
    profile: Profile,
    raw: MutableMapping[str, str],
    watch: Callable[[], None] | None = None,
) -> ResultRecord:
    """Ping from the device under test to its peer, again where a limit was missed, until that is certain.

    ``limits`` on loss and latency (the mean round trip) are judged, others are not. The record's ``test``, ``files``
    and ``rerun`` are the caller's to fill in. ``raw`` gets what was printed. ``watch`` is called all the time and ends
    it by raising. Raises LabError.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    rounds: list[PingReport] = []
    judged: list[list[Judgement]] = []
    verdict: Verdict | None = None
    while verdict is None:
        with doing(f"{ping.key} #{len(rounds) + 1}"):
            report, text = tool.measure(link.dut.shell, ping, link.dut.ip, link.peer.ip, str(link.peer.endpoint), watch)
        rounds.append(report)
        raw[f"{len(rounds)}-ping.txt"] = text
        judged.append(_judge(link, report, limits))
        each = [confirm([j.verdict in _GOOD for j in judgements], profile) for judgements in zip(*judged, strict=True)]
        verdict = None if None in each else worst([one for one in each if one is not None] or [Verdict.PASS])
    record = ping_record(ping, rounds)
    last = min(judged[-1], key=lambda j: SEVERITY.index(j.verdict), default=None)
    missed = [j for judgements in judged for j in judgements if j.verdict not in _GOOD]
    if verdict is Verdict.PASS and last is not None:
        verdict = last.verdict
    reasons = [j.reason for j in (missed[:1] if verdict is not Verdict.PASS and missed else judged[-1])]
    return {
        "id": f"{link.id}/{ping.key}",
        "test": "",
        "verdict": verdict.value,
        "message": f"{link.id} {'; '.join([*reasons, ping_text(record)])}",
        "combination": {
            **combination_record(link.combination, Traffic(Direction.TX)),
            "traffic": ping.key,
        },
        "build": read_build(link.dut.shell, link.dut.device),
        "profile": profile.name,
        "link": f"{link.path.speed_mbps} Mbit/s {link.path.duplex or 'unknown'} duplex, MTU {link.path.mtu}",
        "versions": {},
        "cpu_percent": {},
        "notes": tuning_notes(link.tunings),
        "tunings": tuning_records(link.tunings),
        "started": started.isoformat(),
        "seconds": time.monotonic() - clock,
        "traffic_seconds": len(rounds) * ping.seconds,
        "directions": {},
        "flows": [],
        "evenness": None,
        "cables": [],
        "files": [],
        "rerun": "",
        "ping": record,
    }


def _judge(link: Link, report: PingReport, limits: Sequence[Limit]) -> list[Judgement]:
    here = link.combination
    found = Extras(loss_rate=report.loss, rtt_s=report.mean_s)
    judgements = judge_extras(found, limits, here.board, here.nic, here.topology.name, Direction.TX)
    return [one for one in judgements if one.verdict is not Verdict.SKIPPED]
