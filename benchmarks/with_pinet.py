"""The same steps with pytest-pinet: from two nodes that are off to a checked link, then to the next link."""

from __future__ import annotations

import sys

from benchmarks.steps import StopWatch


def main(lab_file: str, board: str) -> None:
    """Print the seconds of each step."""
    watch = StopWatch()
    from pytest_pinet.config import labfile
    from pytest_pinet.evidence.build import read_build
    from pytest_pinet.lab.access import LabAccess
    from pytest_pinet.lab.labgrid.identity import Identity
    from pytest_pinet.matrix import expansion
    from pytest_pinet.matrix.expansion import Request
    from pytest_pinet.model.combination import Combination
    from pytest_pinet.model.topology import parse_topology

    lab = labfile.load(lab_file)
    session = LabAccess(lab, Identity.of_this_process("bench"), 60.0, lambda _: None)
    (combination,) = (
        c
        for c in expansion.combinations(lab, Request((board,), ("onboard",), (parse_topology("pair"),), ()))
        if isinstance(c, Combination)
    )
    watch.lap("session")
    with session.open(combination) as link:
        watch.lap("off to checked link")
        read_build(link.dut.shell, link.dut.device)
        watch.lap("evidence")
    with session.open(combination):
        pass
    watch.lap("next link on booted nodes")
    for warning in session.close():
        print(warning, file=sys.stderr)
    watch.lap("leave")
    watch.print()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
