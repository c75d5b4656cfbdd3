"""Traffic after a time without traffic: a good link, a link that loses idle pings, and one that is dead afterwards."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import TrafficError
from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure import figures, idle
from pytest_pinet.measure.idle import Idle
from pytest_pinet.model.limits import Origin, parse_arguments
from pytest_pinet.model.traffic import PathSetup
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.traffic.iperf3 import Iperf3
from tests.support import link_stand_in
from tests.support.namespaces import ip
from tests.support.shaped_link import shaped_link

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("ping") is None, reason="not installed: ping"),
]

CHAIN = (
    "PATH=$PATH:/usr/sbin; nft 'add table inet idle;"
    " add chain inet idle rx { type filter hook prerouting priority -300; }; add rule inet idle rx "
)
# As a receiver that stops after silence.
DEAF = f"{CHAIN} iifname eth0 drop'"
LOSSY = f"{CHAIN} icmp type echo-reply numgen inc mod 4 0 drop'"


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    with shaped_link() as cable:
        for number, shell in enumerate((cable.dut, cable.peer), 1):
            ip(f"-n {shell.namespace} addr add 192.0.2.{number}/24 dev eth0")
        yield link_stand_in.link(tmp_path, shells=(cable.dut, cable.peer))


def no_boot(_: Link) -> None:
    pytest.fail("nothing needs a boot")


def test_a_good_link_answers_at_once_and_carries_traffic_in_the_first_second(link: Link) -> None:
    watched: set[str] = set()
    idle_time = Idle(Iperf3(), no_boot, pings_s=1.0, idle_s=1.0)
    found = idle_time.once(link, lambda: watched.add(threading.current_thread().name))
    # The traffic of the first second is watched, too.
    assert any(name.startswith("pinet-idle") for name in watched)
    assert found.values["idle_loss"] == 0.0
    # A busy machine takes longer, but not as long as a fault.
    assert found.values["first_answer"] < 1.0
    # The cable carries 200 of 1,000 Mbit/s.
    assert 0.02 < found.values["first_second"] < 0.22
    assert "10 packets transmitted" in found.raw


def test_lost_idle_pings_are_counted(link: Link) -> None:
    link.dut.shell.run(LOSSY)
    found = Idle(Iperf3(), no_boot, pings_s=2.0, idle_s=2.0).once(link, None)
    # Every fourth answer of 20 is lost.
    assert found.values["idle_loss"] == pytest.approx(0.25)


def test_a_link_that_is_dead_after_silence_counts_and_its_board_is_booted(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted: list[Link] = []

    def boot(dead: Link) -> None:
        booted.append(dead)
        dead.dut.shell.run("PATH=$PATH:/usr/sbin; nft delete table inet idle")

    monkeypatch.setattr(idle, "ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(idle, "_wait", lambda *_: link.dut.shell.run(DEAF))
    limits = parse_arguments({"first_second": "1%", "first_answer": "500 ms"}, Origin.CALL)
    plan = GatePlan(limits, PROFILES["fast"])
    found = figures.measure(link, Idle(Iperf3(), boot, pings_s=1.0, idle_s=1.0), plan, lambda *_: Reference(), {})
    assert found.verdict is Verdict.FAIL
    values = {name: set(one.values) for name, one in (found.figures or {}).items()}
    assert values == {"idle_loss": {0.0}, "first_answer": {1.0}, "first_second": {0.0}}
    assert {one.verdict for name, one in (found.figures or {}).items() if name != "idle_loss"} == {Verdict.FAIL}
    assert any("no answer from two:onboard within 1 s after an idle time" in note for note in found.notes)
    assert len(booted) == len((found.figures or {})["idle_loss"].values)


def test_a_link_that_was_dead_before_is_an_error(link: Link) -> None:
    link.dut.shell.run(DEAF)
    with pytest.raises(TrafficError, match="no answer from two:onboard: none of 10 pings"):
        Idle(Iperf3(), no_boot, pings_s=1.0, idle_s=1.0).once(link, None)


def test_a_boot_would_undo_a_path(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(idle, "_wait", lambda *_: link.dut.shell.run(DEAF))
    found = Idle(Iperf3(), no_boot, pings_s=1.0, idle_s=1.0, setup=PathSetup(delay_s=0.02)).once(link, None)
    assert (found.values["first_answer"], found.values["first_second"]) == (1.0, 0.0)
