"""Boots of the device under test: each turn one, of the build whose turn it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pytest_pinet.ab.options import ABOptions
from pytest_pinet.builds.matching import require_any_pi
from pytest_pinet.errors import (
    BuildError,
    ChangedBuildError,
    ConfigError,
    InvalidMeasurement,
    LabError,
    LinkError,
    PinetError,
    UnsupportedError,
    first_line,
)
from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.model.build import Build
from pytest_pinet.tuning.registry import boot_part

if TYPE_CHECKING:
    from pytest_pinet.lab.link.link import Link
    from pytest_pinet.lab.node.node_session import NodeSession
    from pytest_pinet.model.combination import Combination


class RefusedBuild(Exception):
    """A board cannot take the build; nothing was touched. ``error`` says why."""

    def __init__(self, error: PinetError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class MadeBoot:
    """One boot of one board: its build, when it began (seconds since the first) and what it took."""

    node: str
    number: int
    side: Side
    started_s: float
    seconds: float = 0.0
    running: dict[str, str | None] = field(default_factory=dict)
    trouble: str = ""


class BuildBooter:
    """Brings the device under test of a link into the build of this turn before the link is checked.

    Peers stay with what they were found with: it is the board under test that a figure is told of.
    """

    def __init__(self, asked: ABOptions, access: LabAccess, on_boot: Callable[[str], None]) -> None:
        self.asked = asked
        self._access = access
        self.made: list[MadeBoot] = []
        self.side = Side.A
        self._on_boot = on_boot
        self._checked: set[str] = set()
        self._up: set[str] = set()
        self._failed: dict[str, PinetError] = {}
        self._sessions: dict[str, NodeSession] = {}
        self._began: dict[str, float] = {}
        self.device_is_missing = False
        # Why the latest link did not open.
        self.opening_error: PinetError | None = None
        # Why no board is booted any more: a board cannot take the build, or the build changed.
        self.refused: PinetError | None = None
        # With xdist, in the controller.
        self.turns_of_workers = 0
        access.prepare = self.prepare

    def next(self, side: Side) -> None:
        """From now on every device under test is to be freshly booted with this side's build."""
        self.side = side
        self._up.clear()
        self._failed.clear()

    def of(self, node: str) -> list[MadeBoot]:
        """All boots of a board so far."""
        return [boot for boot in self.made if boot.node == node]

    def now(self, node: str) -> MadeBoot:
        """The latest boot of a board."""
        return self.of(node)[-1]

    @contextmanager
    def open(self, combination: Combination) -> Iterator[Link]:
        """Open a link whose device under test runs the build of this turn. Raises PinetError.

        Ends the run if a board cannot take the build, before anything is changed on it, or if the build was changed
        after the run began.
        """
        if boot := boot_part(combination.tuning):
            pytest.skip(f"{boot.key} takes a boot of its own: write it into the build, under config or cmdline")
        if self.refused is not None:
            pytest.exit(str(self.refused), returncode=pytest.ExitCode.USAGE_ERROR)
        # Needs no lease.
        require_any_pi(self.asked.new)
        opened = False
        try:
            with self._access.open(combination) as link:
                opened = True
                yield link
        except (RefusedBuild, ChangedBuildError) as error:
            self.refused = error.error if isinstance(error, RefusedBuild) else error
            pytest.exit(str(self.refused), returncode=pytest.ExitCode.USAGE_ERROR)
        except (LinkError, InvalidMeasurement) as error:
            if not opened:
                self.opening_error = error
                self._look(combination)
            raise

    def prepare(self, combination: Combination, sessions: Mapping[str, NodeSession]) -> None:
        """Have the device under test run the build of this turn. Raises BuildError, ChangedBuildError, LabError,
        RefusedBuild.

        What failed in this turn fails at once when it is asked for again.
        """
        node = combination.dut.node.name
        session = self._sessions[node] = sessions[node]
        self._check(node, session)
        for name, other in sessions.items():
            # A board that was under test before, and is a peer now.
            if name != node and name in self._sessions and other.deployment.running is not None:
                with doing(f"boot {name} by its known-good build"):
                    other.deployment.start(None)
        if node in self._failed:
            raise self._failed[node]
        build = self.asked.build(self.side)
        # A board whose kernel broke in between was booted by itself since.
        if node in self._up and session.deployment.running == build:
            return
        self._boot(node, session, build)

    def _check(self, node: str, session: NodeSession) -> None:
        """Both builds, before the first of them is deployed."""
        if node in self._checked:
            return
        for build in (self.asked.new, self.asked.good):
            try:
                if build is not None:
                    session.deployment.check(build)
            except (ConfigError, UnsupportedError) as error:
                raise RefusedBuild(error) from error
            except BuildError as error:
                if build is self.asked.new:
                    raise
                raise RefusedBuild(error) from error
        self._checked.add(node)

    def _boot(self, node: str, session: NodeSession, build: Build | None) -> None:
        clock = time.monotonic()
        began = self._began.setdefault(node, clock)
        boot = MadeBoot(node, len(self.of(node)) + 1, self.side, clock - began)
        self.made.append(boot)
        name = self.asked.name(self.side)
        self._on_boot(f"{node}: boot {boot.number}, {self.side}: {name}")
        try:
            with doing(f"boot {node} with {name} ({self.side})"):
                # A board that was booted for us a moment ago, by itself, needs no further boot.
                known = session.deployment.known_good if build is None and session.fresh else None
                boot.running = (known or session.deployment.start(build)).record()
        except (BuildError, LabError) as error:
            boot.trouble = first_line(error)
            known_good = isinstance(error, BuildError) and self.side is Side.A
            failed = of_known_good(error, name) if known_good else error
            self._failed[node] = failed
            raise failed from error
        finally:
            boot.seconds = time.monotonic() - clock
        self._up.add(node)

    def has_failed(self, error: BaseException) -> bool:
        """Whether this is why no board came up: whose fault that is has been found out already."""
        return any(error is known for known in self._failed.values())

    def _look(self, combination: Combination) -> None:
        """After a link did not open: whether its board answers, and has no such device, since no driver probed."""
        session = self._sessions.get(combination.dut.node.name)
        if session is None or not session.ready:
            return
        try:
            done = session.shell.run(f"test ! -e /sys/class/net/{combination.dut.interface.device}")
        except PinetError:
            return
        self.device_is_missing = done.returncode == 0


def of_known_good(error: PinetError, what: str) -> LabError:
    """The build that everything is measured against must work: whoever keeps the lab has to look at it.

    ``what``: its name, or what it did.
    """
    failed = LabError(f"the known-good build {what}: {error}", "name another build with --pinet-baseline")
    failed.excerpt = error.excerpt
    return failed
