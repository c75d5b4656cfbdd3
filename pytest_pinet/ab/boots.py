"""Boots of the device under test: each turn one, of the build whose turn it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_pinet.ab.options import ABOptions
from pytest_pinet.errors import BuildError, ConfigError, LabError, PinetError, UnsupportedError, first_line
from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.build import Build

if TYPE_CHECKING:
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

    def __init__(self, asked: ABOptions, on_boot: Callable[[str], None] = lambda _: None) -> None:
        self.asked = asked
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

    def look(self, combination: Combination) -> None:
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
