"""What came of a trial boot: whether the board runs the build that it was given, or the error of a failed boot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_pinet.builds.config_txt import AUTOBOOT
from pytest_pinet.builds.matching import TreeProof, changed_values, mismatches, missing_modules, not_proved
from pytest_pinet.errors import BuildError, BuildMismatch, ConsoleError, LabError, UnsupportedError
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind
from pytest_pinet.model.build import Build, RunningBuild


@dataclass(frozen=True)
class Identification:
    """How a build was started, and what to compare.

    ``booted``: the board was booted with the build. ``tuned``: it was booted with the known-good build and a boot
    tuning. ``before`` has the settings that the build requests, with the values of the known-good build.
    ``compare_trees`` compares the device trees of a build that was booted.
    """

    booted: bool
    tuned: bool
    before: RunningBuild | None
    known_good: RunningBuild | None
    compare_trees: Callable[[], TreeProof]

    def identify(self, board: str, build: Build, running: RunningBuild) -> RunningBuild:
        """Return ``running`` if it is this build, with what is not proved.

        Raises BuildError if a driver is missing, and BuildMismatch.
        """
        missing = missing_modules(build, running)
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise BuildError(f"{' and '.join(missing)} of {build} {verb} not loaded on {board}", "no driver")
        # The mark on the command line may be that of a boot tuning.
        now = running if self.booted or not self.tuned else replace(running, cmdline="")
        found = mismatches(build, now, self.booted, self.before)
        same = self.known_good
        if not found and build.kernel is None and same is not None and running.version != same.version:
            found = [f"the running kernel has version '{running.version}', but the known-good kernel '{same.version}'"]
        trees = TreeProof()
        if not found and self.booted:
            trees = self.compare_trees()
            found = [trees.difference] * bool(trees.difference)
        if found:
            raise BuildMismatch(f"{board} does not run {build}: {'; '.join(found)}")
        return replace(
            running,
            changed=changed_values(build, running, self.before),
            not_proved=(*not_proved(build, running), *trees.not_compared),
        )


_BROKEN = (KernelEventKind.PANIC, KernelEventKind.OOPS)


def healed(what: str, node: str, error: LabError) -> BuildError:
    """Return the error if the known-good build came up after a power cycle. ``error`` is that of the trial boot."""
    kind = "panic" if "panic" in error.message else "hang" if isinstance(error, ConsoleError) else "no login"
    message = f"{what} does not come up on {node}, but the known-good build does: {error.message}"
    return BuildError(message, kind, _without_empty_lines(error.excerpt))


def both_down(what: str, node: str, error: LabError, worse: LabError) -> LabError:
    """Return the lab's error if the known-good build did not come up either (``worse``)."""
    first = f"{node}: {what} did not come up ({error.message})"
    message = f"{first}; the known-good build did not come up either ({worse.message})"
    return type(worse)(message, worse.act).with_excerpt(error.excerpt)


def fallen_back(what: str, node: str, record: ConsoleRecord | None, is_proof: bool) -> BuildError:
    """Return the error for a build that did not come up while the known-good build answers.

    After a panic, the kernel may reboot by itself (panic=10), which starts the known-good build. ``is_proof``: it was
    the first trial boot of this board.
    """
    broken = record.take(_BROKEN) if record is not None else []
    if broken and record is not None:
        message = f"{what} does not come up on {node}, which booted its known-good build after a {broken[0].kind} "
        kind = str(broken[0].kind).rpartition(" ")[2]
        return BuildError(f"{message}{broken[0]}", kind, _without_empty_lines(record.excerpt(broken[0])))
    message = f"{what} does not come up on {node}, which booted its known-good build without an error message"
    message += " (boot loaders before 2021 do not support tryboot)" if is_proof else ""
    return BuildError(message, "fell back", _without_empty_lines(record.tail()) if record is not None else "")


def other_system(node: str, running: RunningBuild) -> UnsupportedError:
    """Return the error for a trial that booted another system of the card; the known-good build runs again."""
    where = f" on partition {running.partition}" if running.partition else ""
    return UnsupportedError(
        f"{node} cannot boot a build for a trial: its firmware booted another system of the card ({running.release}"
        f"{where}): look at {AUTOBOOT} on its partitions"
    )


def _without_empty_lines(excerpt: str) -> str:
    """The wait for a login prompt causes many empty lines."""
    return "\n".join(line for line in excerpt.splitlines() if line.partition(" ")[2].strip())
