"""Whether a board runs the build that it was given, from what the board reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_pinet.builds.device_trees import TreeProof
from pytest_pinet.builds.matching import changed_values, mismatches, missing_modules, not_proved
from pytest_pinet.errors import BuildError, BuildMismatch
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
