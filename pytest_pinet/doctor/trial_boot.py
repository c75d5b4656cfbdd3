"""Proves that each board can boot for a trial: a copy of its known-good files once, and then these files again."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.builds.config_txt import TRYBOOT
from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import UnsupportedError
from pytest_pinet.model.lab import Node


def check_trial_boot(bench: Bench) -> Sequence[Finding]:
    """Boot each board for a trial. Its sentence says how the boot was requested, or why it is refused."""

    def look(node: Node) -> list[Finding]:
        deployment = bench.session(node).deployment
        try:
            arming = deployment.prove()
        except UnsupportedError as why:
            # The machine that runs pytest needs no trial boot.
            return [Finding(Status.UNKNOWN if node.runner else Status.WRONG, node.name, str(why))]
        message = f"{node.name} booted a copy of its known-good files once by {TRYBOOT}, as {arming} requested"
        return [Finding(Status.OK, node.name, message, shown=True)]

    return bench.one_by_one(look)
