"""The shaper that slows a link: by the requested amount, and always removed afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from pytest_pinet.errors import LinkError, UnsupportedError
from pytest_pinet.execution.shell import Completed, Process, Shell
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.end import change
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.rate_shaper import is_reduced, reduced, sweep
from pytest_pinet.model.traffic import Direction
from tests.support.gate_project import GateLab
from tests.support.visited_link import goodput, rates, shapers, visited
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(full_rate_lab: GateLab) -> Iterator[tuple[LabAccess, Link]]:
    with visited(full_rate_lab) as found:
        yield found


@pytest.fixture
def link(opened: tuple[LabAccess, Link], full_rate_lab: GateLab) -> Iterator[Link]:
    link = opened[1]
    root = link.peer.shell.run(f"tc qdisc show dev {link.peer.device} root").stdout
    yield link
    assert shapers(full_rate_lab) == []
    # The device's own queueing discipline is active again.
    assert link.peer.shell.run(f"tc qdisc show dev {link.peer.device} root").stdout == root


def test_each_direction_gets_its_own_rate(opened: tuple[LabAccess, Link], link: Link) -> None:
    here, _ = opened
    with reduced(link.peer, rates(link, tx=0.7, rx=0.3), 60):
        assert is_reduced(link.peer)
        assert goodput(here, link, Direction.TX) == pytest.approx(0.7, abs=0.1)
        assert goodput(here, link, Direction.RX) == pytest.approx(0.3, abs=0.1)
    assert not is_reduced(link.peer)
    assert goodput(here, link, Direction.TX) > 0.8


def test_the_shaper_is_removed_after_an_exception(link: Link) -> None:
    with pytest.raises(ZeroDivisionError), reduced(link.peer, rates(link, 0.9, 0.9), 60):
        raise ZeroDivisionError
    assert not is_reduced(link.peer)


def test_the_shaper_is_removed_at_its_time_limit(link: Link) -> None:
    with (
        pytest.raises(LinkError, match="was removed before the measurement ended; its time limit was 1 s"),
        reduced(link.peer, rates(link, 0.9, 0.9), 1),
    ):
        wait_until("the end of the shaper", lambda: not is_reduced(link.peer))


def test_the_next_shaper_removes_the_rest_of_a_killed_one(link: Link) -> None:
    shell = link.peer.shell
    held = reduced(link.peer, rates(link, 0.9, 0.9), 60)
    held.__enter__()
    try:
        # None of the processes can clean up.
        shell.run("kill -KILL $(pgrep -f 'pinet: reduced' | grep -vx $$)")
        assert is_reduced(link.peer)
        with reduced(link.peer, rates(link, 0.8, 0.8), 60):
            assert is_reduced(link.peer)
        assert not is_reduced(link.peer)
    finally:
        with pytest.raises(LinkError, match="was removed before the measurement ended"):
            held.__exit__(None, None, None)


def test_foreign_filters_are_not_changed(link: Link) -> None:
    device = link.peer.device
    mine = f"tc filter add dev {device} ingress protocol all pref 7 u32 match u32 0 0 flowid 1:1"
    change(link.peer.shell, f"tc qdisc add dev {device} clsact && {mine}")
    try:
        with (
            pytest.raises(UnsupportedError, match=f"{device} of pi3b-2 has traffic filters of its own"),
            reduced(link.peer, rates(link, 0.9, 0.9), 60),
        ):
            pytest.fail("it was set up")
        sweep(link.peer)
        assert "pref 7" in link.peer.shell.run(f"tc filter show dev {device} ingress").stdout
    finally:
        change(link.peer.shell, f"tc qdisc del dev {device} clsact")


def test_an_existing_clsact_without_filters_is_used_and_kept(link: Link) -> None:
    device = link.peer.device
    change(link.peer.shell, f"tc qdisc add dev {device} clsact")
    try:
        with reduced(link.peer, rates(link, 0.9, 0.9), 60):
            assert is_reduced(link.peer)
        assert not is_reduced(link.peer)
        assert "clsact" in link.peer.shell.run(f"tc qdisc show dev {device}").stdout
    finally:
        change(link.peer.shell, f"tc qdisc del dev {device} clsact")


@dataclass(frozen=True)
class _WithPath:
    """The same node with the commands of this folder first."""

    inner: Shell
    folder: str

    @property
    def name(self) -> str:
        return self.inner.name

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return self.inner.run(f"PATH={self.folder}:$PATH; export PATH; {command}", timeout_s)

    def spawn(self, command: str) -> Process:
        return self.inner.spawn(f"PATH={self.folder}:$PATH; export PATH; {command}")


@pytest.mark.parametrize(
    ("tool", "refused", "answer", "lacks"),
    [
        ("tc", "add*clsact", "Error: Specified qdisc kind is unknown.", "clsact"),
        ("ip", "add*ifb", "Error: Unknown device type.", "ifb"),
    ],
)
def test_a_missing_kernel_feature_is_named(link: Link, tool: str, refused: str, answer: str, lacks: str) -> None:
    shell = link.peer.shell
    folder = shell.run("mktemp -d").stdout.strip()
    try:
        # It answers like a kernel without this feature; all other calls run the real command.
        script = f'#!/bin/sh\ncase "$*" in *{refused}*) echo "{answer}" >&2; exit 2;; esac\nexec $({tool}_real) "$@"\n'
        real = shell.run(f"PATH=$PATH:/usr/sbin:/sbin; command -v {tool}").stdout.strip()
        script = script.replace(f"$({tool}_real)", real)
        shell.run(f"printf %s {shlex.quote(script)} > {folder}/{tool}; chmod +x {folder}/{tool}")
        peer = replace(link.peer, shell=_WithPath(shell, folder))
        with (
            pytest.raises(UnsupportedError, match=f"the kernel of pi3b-2 has no {lacks}, .* shaper needs: {answer}"),
            reduced(peer, rates(link, 0.9, 0.9), 60),
        ):
            pytest.fail("it was set up")
    finally:
        shell.run(f"rm -r {folder}")
