"""What one leased board boots: builds under test and boot tunings, each for a trial, and the known-good build."""

from __future__ import annotations

from contextlib import suppress

from pytest_pinet.builds.config_txt import TRYBOOT
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
from pytest_pinet.lab.deploy.board import DeployableBoard, DeployTarget, Refused, store_of
from pytest_pinet.lab.deploy.boot import PLAIN, Booted
from pytest_pinet.lab.deploy.known_good import COPY
from pytest_pinet.lab.deploy.live import Live
from pytest_pinet.lab.deploy.trial import Identification, both_down, fallen_back, healed, other_system
from pytest_pinet.model.build import Build, BuildFileRole, RunningBuild
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.boot_settings import lines_of


class Deployment:
    """Deploys and starts builds on one board, and boots it with boot tunings.

    ``running`` is the build that was started last; None is the known-good build. ``tuning`` are the boot settings of
    each boot. ``failed`` are the errors of boot tunings with which the board did not come up.
    """

    def __init__(self, board: DeployableBoard, failed: dict[Tuning, LabError] | None = None) -> None:
        self._board = board
        self._live = Live(board)
        self._ways: dict[str, DeployTarget] = {}
        self._builds: dict[str, Build] = {}
        # By the key of a build with several kernels: the build with the kernel for this board.
        self._fitting: dict[str, Build] = {}
        self._booted: Booted | None = None
        self._known_good: RunningBuild | None = None
        # The settings that each build requests, with the values of the known-good build.
        self._before: dict[str, RunningBuild] = {}
        self._changing = False
        self._unprovable: UnsupportedError | None = None
        self.running: Build | None = None
        self.tuning = Tuning()
        # The build whose boot files the board was booted with. COPY is the known-good build with a boot tuning.
        self._trial: Build | None = None
        # The boot tunings with which the known-good build came up.
        self._came_up: set[Tuning] = set()
        self._failed = {} if failed is None else failed

    @property
    def active(self) -> bool:
        """Whether the board may contain files of a build from this session."""
        return bool(self._builds) or (self._booted is not None and self._booted.begun)

    @property
    def stale(self) -> bool:
        """Whether the board may run boot files of this session."""
        return self._trial is not None

    @property
    def is_tuned_known_good(self) -> bool:
        """Whether the board was booted with its known-good files and a boot tuning."""
        return self._trial is COPY

    @property
    def known_good(self) -> RunningBuild | None:
        """The known-good build as read from the board before any deployment; None before ``check``."""
        return self._known_good if self._known_good is not None and self._known_good.marker is None else None

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self, build: Build) -> None:
        """Check whether the board can take this build, without changing anything.

        Raises UnsupportedError if it cannot, ConfigError if the build contradicts the board, BuildError if it is for
        another processor; the message is one sentence.
        """
        if key := "rps" if build.rps else "irq" if build.irq else "features" if build.features else "":
            tuning = "'tso': 'on'" if key == "features" else f"'{key}': ..."
            raise UnsupportedError(
                f"{build} sets {key}, which works on exact boards only (pinet gate --exact); in a lab, it is a tuning "
                f"of the test: tuning={{{tuning}}}"
            )
        self._check_board()
        build = self._of_board(build)
        if (build.options or build.sysctls) and self.running is None:
            self._before[build.key] = self._read(build)
        self._live.check_options(build)
        refused: list[str] = []
        for way in self._candidates(build):
            try:
                way.check(build)
            except Refused as why:
                refused.append(str(why))
            else:
                self._ways[build.key] = way
                return
        raise UnsupportedError(refused[0])

    def _check_board(self) -> None:
        if not self._board.boots:
            raise UnsupportedError(
                f"{self._board.name} is the machine that runs pytest, so no build can be deployed to it"
            )
        if self._known_good is None:
            self._known_good = read_running(self._board.shell)

    def _of_board(self, build: Build) -> Build:
        """Return the build with the kernel that fits this board, of a build with several. Raises UnsupportedError."""
        if not build.variants:
            return build
        if build.key not in self._fitting:
            try:
                self._fitting[build.key] = self._booting().fitting(build)
            except Refused as why:
                raise UnsupportedError(str(why)) from None
        return self._fitting[build.key]

    def _check_trial(self) -> Booted:
        """Check whether the board can boot its known-good files for a trial. Raises UnsupportedError."""
        self._check_board()
        booted = self._booting()
        if COPY.key not in self._ways:
            try:
                booted.check(COPY)
            except Refused as why:
                raise UnsupportedError(str(why)) from None
            self._ways[COPY.key] = booted
        return booted

    def _candidates(self, build: Build) -> list[DeployTarget]:
        """Return the possible ways for this build, the fastest first."""
        ways: list[DeployTarget] = [] if build.needs_boot else [self._live]
        # Options of drivers that are built into the kernel are set on its command line.
        if build.needs_boot or (build.options and not build.of(BuildFileRole.MODULE)):
            ways.append(self._booting())
        return ways

    def _booting(self) -> Booted:
        if self._booted is None:
            self._booted = Booted(self._board, store_of(self._board))
        return self._booted

    def boots(self, build: Build) -> bool:
        """Return whether a start of this build, which was checked, boots the board."""
        return self._ways[self._of_board(build).key].boots

    def runs(self, build: Build | None) -> bool:
        """Return whether this build (None: the known-good one) was started last."""
        return self.running == (None if build is None else self._of_board(build))

    def risk(self, build: Build) -> str:
        """Return what a person must know before this build, which was checked, is booted; empty if nothing."""
        return self._booting().risk if self.boots(build) else ""

    # -- start ----------------------------------------------------------------------------------------------------

    def start(self, build: Build | None, tuning: Tuning | None = None) -> RunningBuild:
        """Make the board run this build (None: the known-good one), with a boot if needed; return what runs then.

        ``tuning`` are the boot settings from now on (None: the present ones). Raises BuildError if the build does not
        come up, after the known-good one has come up instead; BuildMismatch if something else runs; ChangedBuildError
        if files of the build have changed since they were read; UnsupportedError if the board cannot boot any build for
        a trial; LabError, also if the known-good build does not come up with the boot settings.
        """
        self._changing = True
        self.tuning = self.tuning if tuning is None else tuning
        try:
            if build is None:
                return self._start_known_good()
            build = self._of_board(build)
            if build.key not in self._ways:
                self.check(build)
            return self._start(build, self._ways[build.key])
        finally:
            self._changing = False

    def tune(self, tuning: Tuning) -> None:
        """Boot the running build with exactly these boot settings, which all later boots keep.

        They are in tryboot.txt only, so every boot that was not requested is without them. Raises UnsupportedError if
        the board cannot boot for a trial, before anything is changed; LabError if the board does not come up with them,
        after it has come up without them.
        """
        if tuning == self.tuning:
            return
        if tuning in self._failed:
            raise self._failed[tuning]
        if tuning:
            self._check_trial()
        try:
            self.start(self.running, tuning)
        except BaseException:
            self.tuning = Tuning()
            raise

    def prove(self) -> str:
        """Prove that the board can boot for a trial, even if that is known; return how the boot is requested.

        Raises UnsupportedError if it cannot, LabError.
        """
        self._changing = True
        try:
            booted = self._check_trial()
            self._prove_trial_boot(booted)
            return booted.arming
        finally:
            self._changing = False

    def _start(self, build: Build, way: DeployTarget) -> RunningBuild:
        if self._trial is not None:
            # A kernel under test may be unable to ask the firmware for a trial boot, and nothing of it may stay in
            # force for a build without a boot.
            self._boot_known_good()
        elif not way.boots:
            self._live.undo()
        if self.tuning and (not way.boots or self.tuning not in self._came_up):
            # A tuning with which the board does not come up must not accuse the build.
            self._boot_tuned()
        if not way.boots:
            self._builds[build.key] = build
            with doing(f"deploy {build} to {self._board.name} ({way.name})"):
                way.deploy(build)
            self.running = build
            way.start(build)
        else:
            if self._trial is COPY:
                self._boot_known_good()
            booted = self._booting()
            running = self._try(build, booted)
            self.running = build
            if not self._finish(build):
                return self._identified(build, running)
        with doing(f"identify {build} on {self._board.name}"):
            return self._identified(build, self._read(build))

    def _boot_tuned(self) -> RunningBuild:
        """Boot the known-good build, which runs, with the boot tuning. Raises UnsupportedError, LabError."""
        booted = self._check_trial()
        try:
            running = self._identified(COPY, self._try(COPY, booted))
        except BuildError as error:
            act = f"leave out {self.tuning.key}, or choose other values"
            failed = LabError(error.message, act).with_excerpt(error.excerpt)
            self._failed[self.tuning], self.tuning = failed, Tuning()
            raise failed from error
        self._came_up.add(self.tuning)
        return running

    def _try(self, build: Build, booted: Booted) -> RunningBuild:
        """Boot a build with the boot tuning; the known-good build runs. Raises BuildError, LabError."""
        if self._unprovable is not None:
            raise self._unprovable
        if not booted.proof.exists():
            self._prove_trial_boot(booted)
        if build is not COPY and COPY.key in self._builds:
            # The space that was checked is for one of them.
            booted.remove(COPY)
            del self._builds[COPY.key]
        self._builds[build.key] = build
        what = self._what(build)
        with doing(f"deploy {what} to {self._board.name} ({booted.name})"):
            booted.deploy(build)
        with doing(f"boot {what} on {self._board.name}"):
            return self._boot(build, booted)

    def _what(self, build: Build) -> str:
        name = "the known-good build" if build is COPY else str(build)
        return f"{name} with {self.tuning.key}" if self.tuning else str(build)

    def _prove_trial_boot(self, booted: Booted) -> None:
        """Boot a copy of the known-good files once, and then the known-good build, before a build is tried.

        So a build is never accused of a fault of the card or the firmware. Raises UnsupportedError if the copy does not
        boot, and LabError if the known-good build does not boot after it.
        """
        name = self._board.name
        with doing(f"prove that {name} can boot for a trial"):
            self._check_trial()
            tuning, self.tuning = self.tuning, Tuning()
            self._builds[COPY.key] = COPY
            try:
                booted.deploy(COPY)
                self._identified(COPY, self._boot(COPY, booted))
                self._start_known_good()
            except BuildError as error:
                self._unprovable = UnsupportedError(
                    f"{name} cannot boot a build for a trial: a copy of its known-good files does not come up"
                    f" by {TRYBOOT} exactly once ({error.message})"
                )
                raise self._unprovable from error
            finally:
                self.tuning = tuning
            booted.remove(COPY)
            del self._builds[COPY.key]
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

    def _boot(self, build: Build, booted: Booted) -> RunningBuild:
        self._trial = build
        record = self._board.record
        if record is not None:
            record.take()
        try:
            booted.start(build, lines_of(self.tuning))
        except ShutdownError as error:
            # The kernel that does not shut down is the known-good one.
            self._board.power_cycle()
            self._trial = None
            raise LabError(error.message, error.act) from error
        except (ConsoleError, SshError) as error:
            self._fall_back(build, error)
        self._live.forget()
        running = self._read(build)
        if running.marker is None:
            self._trial = None
            if not self._is_known_good(running):
                raise self._left(running)
            raise fallen_back(self._what(build), self._board.name, record, build is COPY and not self.tuning)
        return running

    def _is_known_good(self, running: RunningBuild) -> bool:
        return self.known_good is not None and running.is_same_system(self.known_good)

    def _left(self, other: RunningBuild) -> UnsupportedError | LabError:
        """Boot the known-good build after a trial that booted another system, and return the error."""
        name = self._board.name
        self._boot_known_good()
        if not self._is_known_good(read_running(self._board.shell)):
            return LabError(
                f"{name} booted another system of its card in a trial, and again without one", f"boot {name} yourself"
            )
        self._unprovable = other_system(name, other)
        return self._unprovable

    def _fall_back(self, build: Build, error: LabError) -> None:
        """Handle a build that did not come up: power-cycle to the known-good build, and raise BuildError.

        If the known-good build does not come up either, the lab is at fault, and the lab's error is raised.
        """
        what = self._what(build)
        try:
            with doing(f"boot the known-good build on {self._board.name}"):
                self._board.power_cycle()
        except (ConsoleError, SshError, PowerError) as worse:
            raise both_down(what, self._board.name, error, worse) from error
        self._trial = None
        raise healed(what, self._board.name, error) from error

    def _read(self, build: Build) -> RunningBuild:
        options = [(module, parameter) for module, parameter, _ in build.options]
        return read_running(self._board.shell, options, [name for name, _ in build.sysctls])

    def _identified(self, build: Build, running: RunningBuild) -> RunningBuild:
        """Return ``running`` if it is this build, with what is not proved. Raises BuildError, BuildMismatch."""
        how = Identification(
            self.boots(build),
            self._trial is COPY,
            self._before.get(build.key),
            self._known_good,
            lambda: self._booting().compare_trees(build, lines_of(self.tuning)),
        )
        return how.identify(self._board.name, build, running)

    def _start_known_good(self) -> RunningBuild:
        if any(way.boots for way in self._ways.values()) and not (self.tuning and self._trial is None):
            self._boot_known_good()
        else:
            self._live.undo()
        self.running = None
        if self.tuning:
            return self._boot_tuned()
        running = read_running(self._board.shell)
        if running.marker is not None:
            raise BuildMismatch(f"{self._board.name} still runs build {running.marker} after a boot with config.txt")
        return running

    def _boot_known_good(self) -> None:
        """Reboot to the known-good build without switching power; if that does not help, power-cycle the board."""
        with doing(f"boot the known-good build on {self._board.name}"):
            try:
                self._board.reboot(PLAIN)
            except (ConsoleError, SshError):
                self._board.power_cycle()
        self.running = self._trial = None
        self._live.forget()

    def after_boot(self) -> None:
        """Start the wanted build and tuning again after a power cycle, which boots the known-good build.

        Raises as ``start``.
        """
        self._live.forget()
        if self._changing or (self.running is None and not self.tuning):
            return
        if read_running(self._board.shell).marker is None:
            self._trial = None
        self.start(self.running)

    # -- removal --------------------------------------------------------------------------------------------------

    def take_back(self) -> bool:
        """Remove all our files; return whether the board still runs the removed build and must be booted.

        Raises LabError.
        """
        stale, builds = self.stale, list(self._builds.values())
        self.running, self._trial, self.tuning = None, None, Tuning()
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
        names = ["the boot tuning" if one is COPY else str(one) for one in self._builds.values()]
        return " and ".join(names) or "the files of a trial boot"
