"""Checks what is known about the switches themselves: whether their kind was tested, and whether they may be set."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import PinetError
from pytest_pinet.lab.switch.switchport import About

NOT_MANAGED = (
    "no managed switch: cables and byte counts are not checked, and tests that move a port or switch it off are skipped"
)


def check_switches(bench: Bench) -> Sequence[Finding]:
    """Report each switch of the nodes. The check "switch port agrees" reports a switch that does not answer."""
    found: list[Finding] = []
    for name in dict.fromkeys(interface.port.switch for node in bench.nodes for interface in node.interfaces):
        if bench.lab.switches[name].backend == "fixed":
            found.append(Finding(Status.UNKNOWN, message=f"switch {name}: {NOT_MANAGED}"))
            continue
        try:
            found += describe(name, bench.switch(name).about)
        except PinetError:
            found.append(Finding(Status.NOT_CHECKED, message=f"switch {name} does not answer"))
    return found


def describe(name: str, about: About) -> list[Finding]:
    """Return what a reader must know about one switch."""
    found = []
    if about.is_untested:
        message = (
            f"switch {name}: {about.title} is untested: pytest-pinet never ran with the vendor's software. "
            f"Checked against: {'; '.join(about.sources) or 'nothing'}"
        )
        found.append(Finding(Status.UNKNOWN, message=message))
    if about.note:
        found.append(Finding(Status.UNKNOWN, message=f"switch {name} is used as it is wired, because {about.note}"))
    return found or [Finding(Status.OK, message=f"{name}: {about.title}")]
