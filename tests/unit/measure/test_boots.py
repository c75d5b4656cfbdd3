"""Boots that fail in a way of their own: which of them are bad, and which do not count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.errors import InvalidMeasurement, LinkError, PinetError, SshError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.judge.shares import ShareRule
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.measure.boots import Boots
from pytest_pinet.model.figures import Sample
from tests.support import link_stand_in
from tests.support.local_shell import LocalProcess, LocalShell


class BootedShell(LocalShell):
    """A board whose device is up and has a carrier at once. ``closes``: it closes its connection while pinet waits.

    ``lost``: later it does not answer any more.
    """

    closes = lost = False

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if "/flags" in command:
            return Completed(0, "", "")
        if self.lost:
            raise SshError(f"{self.name} does not answer")
        return super().run(command, timeout_s)

    def spawn(self, command: str) -> LocalProcess:
        if "/carrier" not in command:
            return super().spawn(command)
        return super().spawn("exit 255" if self.closes else command.partition("2>/dev/null; ")[2])


@pytest.fixture
def shell() -> BootedShell:
    return BootedShell("one")


Boot = Callable[[PinetError | None], Sample]


@pytest.fixture
def boot(tmp_path: Path, shell: BootedShell) -> Boot:
    """Return a function that boots once, and raises this error when the link is opened again."""
    link = link_stand_in.link(tmp_path, shells=(shell, LocalShell("two")))
    session = cast(NodeSession, SimpleNamespace(shell=shell))
    link.ends = (replace(link.dut, session=session), link.peer)

    def once(error: PinetError | None) -> Sample:
        def reconnect(_: Link) -> None:
            if error is not None:
                raise error

        return Boots(lambda _: None, reconnect, rule=ShareRule.passing_after(33, 0.02)).once(link, None)

    return once


def test_a_board_that_closes_its_connection_during_the_wait_for_a_carrier_has_a_bad_boot(
    boot: Boot, shell: BootedShell
) -> None:
    shell.closes = True
    found = boot(None)
    assert (found.excluded, found.notes) == ("", ("no boot: one closed its connection after the boot",))


def test_a_board_without_a_link_that_does_not_answer_any_more_has_a_bad_boot(boot: Boot, shell: BootedShell) -> None:
    (said,) = boot(LinkError("no carrier")).notes
    assert said.startswith("no link ")
    assert said.endswith(" s after the boot: no carrier")
    shell.lost = True
    assert boot(LinkError("no carrier")).notes == ("no link: no carrier",)


def test_a_slow_link_is_a_bad_boot_and_an_under_voltage_does_not_count(boot: Boot) -> None:
    slow = boot(InvalidMeasurement("one negotiated 100 Mbit/s"))
    assert (slow.excluded, slow.notes) == ("", ("slow link: one negotiated 100 Mbit/s",))
    low = boot(InvalidMeasurement("under-voltage on one").with_excerpt("Undervoltage detected!"))
    assert (low.excluded, low.notes) == ("under-voltage on one", ())
