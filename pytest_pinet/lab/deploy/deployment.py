"""The builds of one leased board: the way to deploy each, the running one, and the return to the known-good one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pytest_pinet.builds.config_txt import TRYBOOT
from pytest_pinet.builds.device_trees import TreeProof
from pytest_pinet.builds.matching import changed_values, mismatches, missing_modules, not_proved
from pytest_pinet.errors import (
    BuildError,
    BuildMismatch,
    ConsoleError,
    LabError,
    PowerError,
    ShutdownError,
    SshError,
    UnsupportedError,
)
from pytest_pinet.evidence.build import read_running
from pytest_pinet.execution.trace import doing
from pytest_pinet.lab.console.kernel_log import KernelEventKind
from pytest_pinet.lab.deploy.boot import COPY, PLAIN, Booted
from pytest_pinet.lab.deploy.boot_file_store import BootFileStore, OverSsh, SdMux, Tftp
from pytest_pinet.lab.deploy.deploy_target import DeployableBoard, DeployTarget, Refused
from pytest_pinet.lab.deploy.live import Live
from pytest_pinet.model.build import Build, BuildFileRole, RunningBuild

_BROKEN = (KernelEventKind.PANIC, KernelEventKind.OOPS)


class Deployment:
    """Deploys and starts builds on one board.

    ``running`` is the build that was started last; None is the known-good build.
    """

    def __init__(self, board: DeployableBoard) -> None:
        self._board = board
        self._live = Live(board)
        self._ways: dict[str, DeployTarget] = {}
        self._builds: dict[str, Build] = {}
        self._booted: Booted | None = None
        self._known_good: RunningBuild | None = None
        # The settings that each build requests, with the values of the known-good build.
        self._before: dict[str, RunningBuild] = {}
        self._changing = False
        self._unprovable: UnsupportedError | None = None
        self.running: Build | None = None

    @property
    def active(self) -> bool:
        """Whether the board may contain files of a build from this session."""
        return bool(self._builds)

    @property
    def known_good(self) -> RunningBuild | None:
        """The known-good build as read from the board before any deployment; None before ``check``."""
        known = self._known_good
        return known if known is not None and known.marker is None else None

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self, build: Build) -> None:
        """Check whether the board can take this build, without changing anything.

        Raises UnsupportedError if it cannot, ConfigError if the build contradicts the board, BuildError if it is for
        another processor; the message is one sentence.
        """
        name = self._board.name
        if not self._board.boots:
            raise UnsupportedError(f"{name} is the machine that runs pytest, so no build can be deployed to it")
        if self._known_good is None:
            self._known_good = read_running(self._board.shell)
        if (build.options or build.sysctls) and self.running is None:
            self._before[build.key] = self._read(build)
        self._live.check_options(build)
        refused: list[str] = []
        for way in self._candidates(build):
            try:
                way.check(build)
            except Refused as why:
                refused.append(str(why))
                continue
            self._ways[build.key] = way
            return
        raise UnsupportedError(refused[0])

    def _candidates(self, build: Build) -> list[DeployTarget]:
        """Return the possible ways for this build, the fastest first."""
        ways: list[DeployTarget] = [] if build.needs_boot else [self._live]
        # Options of drivers that are built into the kernel are set on its command line.
        if build.needs_boot or (build.options and not build.of(BuildFileRole.MODULE)):
            ways.append(self._booting())
        return ways

    def _booting(self) -> Booted:
        if self._booted is None:
            board = self._board
            store: BootFileStore = OverSsh(board)
            for other in (Tftp, SdMux):
                if other.serves(board):
                    store = other(board)
            self._booted = Booted(board, store)
        return self._booted

    def boots(self, build: Build) -> bool:
        """Return whether a start of this build, which was checked, boots the board."""
        return self._ways[build.key].boots

    # -- start ----------------------------------------------------------------------------------------------------

    def start(self, build: Build | None) -> RunningBuild:
        """Make the board run this build (None: the known-good one), with a boot if needed; return what runs then.

        Raises BuildError if the build does not come up, after the known-good one has come up instead; BuildMismatch if
        something else runs; ChangedBuildError if files of the build have changed since they were read; UnsupportedError
        if the board cannot boot any build for a trial; LabError.
        """
        self._changing = True
        try:
            if build is None:
                return self._start_known_good()
            if build.key not in self._ways:
                self.check(build)
            return self._start(build, self._ways[build.key])
        finally:
            self._changing = False

    def _start(self, build: Build, way: DeployTarget) -> RunningBuild:
        if self.running is not None and self.boots(self.running):
            # A kernel under test may be unable to ask the firmware for a trial boot, and nothing of it may stay in
            # force for a build without a boot.
            self._boot_known_good()
        elif not way.boots:
            self._live.undo()
        if self._unprovable is not None and way.boots:
            raise self._unprovable
        if way is self._booted and not self._booted.proof.exists():
            self._prove_trial_boot(self._booted)
        self._builds[build.key] = build
        with doing(f"deploy {build} to {self._board.name} ({way.name})"):
            way.deploy(build)
        self.running = build
        if way.boots:
            with doing(f"boot {build} on {self._board.name}"):
                running = self._boot(build, way)
            if not self._finish(build):
                return self._identified(build, running)
        else:
            way.start(build)
        with doing(f"identify {build} on {self._board.name}"):
            return self._identified(build, self._read(build))

    def _prove_trial_boot(self, booted: Booted) -> None:
        """Boot a copy of the known-good files once, and then the known-good build, before a build is tried.

        So a build is never accused of a fault of the card or the firmware. Raises UnsupportedError if the copy does not
        boot, and LabError if the known-good build does not boot after it.
        """
        name = self._board.name
        with doing(f"prove that {name} can boot for a trial"):
            try:
                booted.check(COPY)
            except Refused as why:
                raise UnsupportedError(str(why)) from None
            self._builds[COPY.key], self._ways[COPY.key] = COPY, booted
            booted.deploy(COPY)
            self.running = COPY
            try:
                self._identified(COPY, self._boot(COPY, booted))
                self._start_known_good()
            except BuildError as error:
                self._unprovable = UnsupportedError(
                    f"{name} cannot boot a build for a trial: a copy of its known-good files does not come up"
                    f" by {TRYBOOT} exactly once ({error.message})"
                )
                raise self._unprovable from error
            booted.remove(COPY)
            del self._builds[COPY.key], self._ways[COPY.key]
            # A cache that cannot be written costs only another proof.
            with suppress(OSError):
                booted.proof.parent.mkdir(parents=True, exist_ok=True)
                booted.proof.touch()

    def _finish(self, build: Build) -> bool:
        """Load the single modules and set the sysctls of a booted build; return whether it has any."""
        singles = build.of(BuildFileRole.MODULE) and not build.of(BuildFileRole.MODULES)
        if singles:
            self._live.load(build)
        self._live.set_sysctls(build)
        return bool(singles or build.sysctls)

    def _boot(self, build: Build, way: DeployTarget) -> RunningBuild:
        record = self._board.record
        if record is not None:
            record.take()
        try:
            way.start(build)
        except BuildError:
            raise
        except ShutdownError as error:
            # The kernel that does not shut down is the known-good one.
            self.running = None
            self._board.power_cycle()
            raise LabError(error.message, error.act) from error
        except (ConsoleError, SshError) as error:
            self._fall_back(build, error)
        self._live.forget()
        running = self._read(build)
        if running.marker is None:
            raise self._fallen_back(build)
        return running

    def _fall_back(self, build: Build, error: LabError) -> None:
        """Handle a build that did not come up: power-cycle to the known-good build, and raise BuildError.

        If the known-good build does not come up either, the lab is at fault, and the lab's error is raised.
        """
        self.running = None
        kind = "panic" if "panic" in error.message else "hang" if isinstance(error, ConsoleError) else "no login"
        try:
            with doing(f"boot the known-good build on {self._board.name}"):
                self._board.power_cycle()
        except (ConsoleError, SshError, PowerError) as worse:
            first = f"{self._board.name}: {build} did not come up ({error.message})"
            again = type(worse)(f"{first}; the known-good build did not come up either ({worse.message})", worse.act)
            again.excerpt = error.excerpt
            raise again from error
        message = f"{build} does not come up on {self._board.name}, but the known-good build does: {error.message}"
        raise BuildError(message, kind, _without_empty_lines(error.excerpt)) from error

    def _fallen_back(self, build: Build) -> BuildError:
        """Return the error for a build that did not come up while the known-good build answers.

        After a panic, the kernel may reboot by itself (panic=10), which starts the known-good build.
        """
        self.running = None
        record = self._board.record
        broken = record.take(_BROKEN) if record is not None else []
        name = self._board.name
        if broken and record is not None:
            message = f"{build} does not come up on {name}, which booted its known-good build after a {broken[0].kind} "
            kind = str(broken[0].kind).rpartition(" ")[2]
            return BuildError(f"{message}{broken[0]}", kind, _without_empty_lines(record.excerpt(broken[0])))
        message = f"{build} does not come up on {name}, which booted its known-good build without an error message"
        message += " (boot loaders before 2021 do not support tryboot)" if build is COPY else ""
        return BuildError(message, "fell back", _without_empty_lines(record.tail()) if record is not None else "")

    def _read(self, build: Build) -> RunningBuild:
        options = [(module, parameter) for module, parameter, _ in build.options]
        return read_running(self._board.shell, options, [name for name, _ in build.sysctls])

    def _identified(self, build: Build, running: RunningBuild) -> RunningBuild:
        """Return ``running`` if it is this build, with what is not proved.

        Raises BuildError if a driver is missing, and BuildMismatch.
        """
        missing = missing_modules(build, running)
        if missing:
            raise BuildError(f"{' and '.join(missing)} of {build} is not loaded on {self._board.name}", "no driver")
        before = self._before.get(build.key)
        found = mismatches(build, running, self.boots(build), before)
        same = self._known_good
        if not found and build.kernel is None and same is not None and running.version != same.version:
            found = [f"the running kernel has version '{running.version}', but the known-good kernel '{same.version}'"]
        trees = TreeProof()
        if not found and self._booted is not None and self.boots(build):
            trees = self._booted.compare_trees(build)
            found = [trees.difference] * bool(trees.difference)
        if found:
            raise BuildMismatch(f"{self._board.name} does not run {build}: {'; '.join(found)}")
        return replace(
            running,
            changed=changed_values(build, running, before),
            not_proved=(*not_proved(build, running), *trees.not_compared),
        )

    def _start_known_good(self) -> RunningBuild:
        if any(way.boots for way in self._ways.values()):
            self._boot_known_good()
        else:
            self._live.undo()
        self.running = None
        running = read_running(self._board.shell)
        if running.marker is not None:
            message = f"{self._board.name} still runs build {running.marker} after a boot with config.txt"
            raise BuildMismatch(message)
        return running

    def _boot_known_good(self) -> None:
        """Reboot to the known-good build without switching power; if that does not help, power-cycle the board."""
        with doing(f"boot the known-good build on {self._board.name}"):
            try:
                self._board.reboot(PLAIN)
            except (ConsoleError, SshError):
                self._board.power_cycle()
        self.running = None
        self._live.forget()

    def after_boot(self) -> None:
        """Start the wanted build again after a power cycle, which boots the known-good one. Raises as ``start``."""
        self._live.forget()
        if self.running is COPY:
            self.running = None
        if self.running is not None and not self._changing:
            self.start(self.running)

    # -- removal --------------------------------------------------------------------------------------------------

    def take_back(self) -> bool:
        """Remove all our files; return whether the board still runs the removed build and must be booted.

        Raises LabError.
        """
        stale = self.running is not None and self.running.key in self._ways and self.boots(self.running)
        builds = list(self._builds.values())
        self.running = None
        try:
            if not stale:
                self._live.undo()
        finally:
            if self._booted is not None:
                self._booted.take_back(builds)
            self._builds.clear()
            self._ways.clear()
        return stale

    def words(self) -> str:
        """Return the names of the builds on the board, for a message."""
        return " and ".join(str(build) for build in self._builds.values())


def _without_empty_lines(excerpt: str) -> str:
    """The wait for a login prompt causes many empty lines."""
    return "\n".join(line for line in excerpt.splitlines() if line.partition(" ")[2].strip())
