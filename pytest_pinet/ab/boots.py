"""Boots boards under test, alternately with the build under test and with the known-good build, and opens links."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

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
from pytest_pinet.judge.turns import Side
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.end import is_missing
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.build import Build, RunningBuild
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.record.change import TurnRecord
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.registry import boot_part

# The last line of a run that a refused build ended.
ENDED_EARLY = "the run ended early; the summary above says why"


class RefusedBuild(Exception):
    """A board cannot run the build, and nothing was changed on the board. ``error`` says why."""

    def __init__(self, error: PinetError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class MadeBoot:
    """One boot of a board: its record, and what the board reported; None if it reported nothing."""

    node: str
    turn: TurnRecord
    build: RunningBuild | None = None

    @property
    def side(self) -> Side:
        """Which build was booted."""
        return Side(self.turn.side)


class BuildBooter:
    """Boots the device under test with the build of the turn. Peers keep their build, because they are not judged."""

    def __init__(
        self,
        options: ABOptions,
        access: LabAccess,
        on_boot: Callable[[str], None],
        may_boot: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.options = options
        # Whether to boot builds on a board, given the risk. It may ask a person.
        self._may_boot = may_boot
        self.made: list[MadeBoot] = []
        self.side = Side.A
        self._access = access
        self._on_boot = on_boot
        self._checked: set[str] = set()
        self._up: set[str] = set()
        self._failed: dict[str, PinetError] = {}
        self._sessions: dict[str, NodeSession] = {}
        self._first_boot: dict[str, float] = {}
        # Why the latest link did not open, and whether its board then had no such network device.
        self.opening_error: PinetError | None = None
        self.device_is_missing = False
        # Why the run ends before all boots: a board cannot run the build, or the build was changed.
        self.refused: PinetError | None = None
        access.prepare_with(self.prepare)

    def refuse(self, error: PinetError) -> None:
        """End the run before all boots: another process found that a board cannot run the build, or its change."""
        self.refused = error

    def next(self, side: Side) -> None:
        """Begin a turn: from now on, each device under test must be freshly booted with the build of this side."""
        self.side = side
        self._up.clear()
        self._failed.clear()

    def of(self, node: str) -> list[MadeBoot]:
        return [boot for boot in self.made if boot.node == node]

    @contextmanager
    def open(self, combination: Combination, link_required: bool = True) -> Iterator[Link]:
        """Open a link whose device under test runs the build of this turn. Raises PinetError.

        Ends the run if a board cannot run the build, before anything is changed on the board, or if the build was
        changed after the run began.
        """
        if self.refused is not None:
            pytest.exit(ENDED_EARLY, returncode=pytest.ExitCode.USAGE_ERROR)
        # Needs no lease.
        require_any_pi(self.options.new)
        opened = False
        try:
            with self._access.open(combination, link_required=link_required) as link:
                opened = True
                yield link
        except (RefusedBuild, ChangedBuildError) as error:
            self.refused = error.error if isinstance(error, RefusedBuild) else error
            pytest.exit(ENDED_EARLY, returncode=pytest.ExitCode.USAGE_ERROR)
        except BuildError as error:
            # The build of this turn is up. A boot tuning takes one more boot of it.
            if self.side is Side.A and not opened and combination.dut.node.name in self._up:
                raise known_good_error(error, self.options.name(self.side)) from error
            raise
        except (LinkError, InvalidMeasurement) as error:
            if not opened:
                self.opening_error = error
                self.device_is_missing = self._lacks_device(combination)
            raise

    def _lacks_device(self, combination: Combination) -> bool:
        """Return whether the board answers but lacks the NIC, because its driver did not bind to it."""
        session = self._sessions.get(combination.dut.node.name)
        if session is None or not session.ready:
            return False
        try:
            return is_missing(combination.dut.node, combination.dut.interface, session.shell)
        except PinetError:
            return False

    def prepare(self, combination: Combination, sessions: Mapping[str, NodeSession]) -> None:
        """Make the device under test run the build of this turn.

        A second call in the same turn repeats the error of the first. Raises BuildError, ChangedBuildError, LabError,
        RefusedBuild.
        """
        node = combination.dut.node.name
        session = self._sessions[node] = sessions[node]
        self._check(node, session)
        for name, other in sessions.items():
            # A board that was under test earlier, and is a peer now.
            if name != node and name in self._sessions and other.deployment.running is not None:
                with doing(f"boot {name} with its known-good build"):
                    other.deployment.start(None)
        if node in self._failed:
            raise self._failed[node]
        build = self.options.build(self.side)
        # A board whose kernel crashed in this turn has since booted its own build.
        if node not in self._up or not session.deployment.runs(build):
            self._boot(node, session, build, boot_part(combination.tuning))

    def _check(self, node: str, session: NodeSession) -> None:
        """Check both builds before the first of them is deployed."""
        if node in self._checked:
            return
        for build in (self.options.new, self.options.good):
            try:
                if build is not None:
                    session.deployment.check(build)
            except (ConfigError, UnsupportedError) as error:
                raise RefusedBuild(error) from error
            except BuildError as error:
                if build is self.options.new:
                    raise
                raise RefusedBuild(error) from error
        self._ask(session)
        self._checked.add(node)

    def _ask(self, session: NodeSession) -> None:
        """Ask before the first boot of a build on a board that only a person can reset. Raises RefusedBuild."""
        builds = [build for build in (self.options.new, self.options.good) if build is not None]
        risk = next(filter(None, (session.deployment.risk(build) for build in builds)), "")
        if risk and not self._may_boot(risk):
            raise RefusedBuild(UnsupportedError(f"{risk}. To boot builds there, add --yes"))

    def _boot(self, node: str, session: NodeSession, build: Build | None, tuning: Tuning) -> None:
        clock = time.monotonic()
        number, running, trouble = len(self.of(node)) + 1, None, ""
        name = self.options.name(self.side)
        self._on_boot(f"{node}: turn {number}, {self.side}: {name}")
        try:
            with doing(f"boot {node} with {name} ({self.side})"):
                # A board that was just booted for this run with its own build needs no second boot.
                known = session.deployment.known_good if build is None and session.fresh else None
                # Another boot tuning is applied later, after its settings were read without any.
                kept = tuning if session.deployment.tuning == tuning else Tuning()
                running = known or session.deployment.start(build, kept)
        except UnsupportedError as error:
            trouble = first_line(error)
            raise RefusedBuild(error) from error
        except (BuildError, LabError) as error:
            trouble = first_line(error)
            is_known_good = isinstance(error, BuildError) and self.side is Side.A
            self._failed[node] = known_good_error(error, name) if is_known_good else error
            raise self._failed[node] from error
        finally:
            turn = TurnRecord(
                number=number,
                side=str(self.side),
                started_s=clock - self._first_boot.setdefault(node, clock),
                seconds=time.monotonic() - clock,
                running={} if running is None else running.record(),
                trouble=trouble,
            )
            self.made.append(MadeBoot(node, turn, running))
        self._up.add(node)

    def has_failed(self, error: BaseException) -> bool:
        """Return whether this error of a boot is known, with the build or the lab as its cause."""
        return any(error is known for known in self._failed.values())


def known_good_error(error: PinetError, what: str) -> LabError:
    """Return the error of the lab if the known-good build does not work. ``what`` is its name, or what it did."""
    message = f"the known-good build {what}: {error}"
    return LabError(message, "name another build with --against").with_excerpt(error.excerpt)
