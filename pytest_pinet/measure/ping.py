"""Measure, judge and record round trips of single packets over a link without other traffic."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from datetime import UTC, datetime

from pytest_pinet.evidence.build import read_build
from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.extras import PingJudgement, judge_pings
from pytest_pinet.judge.profile import Profile
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.link_result import link_result, settings_of
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, Ping, PingReport, Traffic
from pytest_pinet.report.result_record import ping_record
from pytest_pinet.report.sentences import ping_text, tuning_notes
from pytest_pinet.traffic import ping as tool


def measure(
    link: Link,
    ping: Ping,
    limits: Sequence[Limit],
    profile: Profile,
    raw: MutableMapping[str, str],
    watch: Callable[[], None] | None = None,
    strict: bool = False,
) -> ResultRecord:
    """Ping from the device under test to its peer. Repeat after a missed limit until the verdict is certain.

    Only ``limits`` on loss and latency (the mean round trip) are judged. The caller fills in ``test``, ``files`` and
    ``rerun`` of the record. ``raw`` receives the output. ``watch`` is called throughout and can end the ping by
    raising. ``strict``: what would be marginal fails. Raises LabError.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    build = read_build(link.dut.shell, link.dut.device)
    unread: list[str] = []
    settings = settings_of(link, unread.append)
    rounds: list[PingReport] = []
    found = PingJudgement(None)
    key = MetricKey(link.combination.identity, Traffic(Direction.TX), Direction.TX)
    while found.verdict is None:
        with doing(f"{ping.key} #{len(rounds) + 1}"):
            report, text = tool.measure(link.dut.shell, ping, link.dut.ip, link.peer.ip, str(link.peer.endpoint), watch)
        rounds.append(report)
        raw[f"{len(rounds)}-ping.txt"] = text
        found = judge_pings(rounds, limits, key, profile, strict)
    record = ping_record(ping, rounds)
    return link_result(
        link,
        ping.key,
        MeasurementJudgement(found.verdict, "; ".join([*found.reasons, ping_text(record)])),
        build=build,
        settings=settings,
        notes=[*tuning_notes(link.tunings), *unread],
        profile=profile.name,
        started=started.isoformat(),
        seconds=time.monotonic() - clock,
        traffic_seconds=len(rounds) * ping.seconds,
        ping=record,
    )
