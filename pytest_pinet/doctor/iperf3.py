"""Checks the iperf3 version of each node, and whether the versions can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.model.lab import Node
from pytest_pinet.traffic.iperf3_tool import Tools
from pytest_pinet.traffic.iperf3_version import FEATURES, Version

_LEAST = FEATURES[0]


class Iperf3Versions:
    """Checks that every node has a supported iperf3, and that either all versions use threads or none."""

    name = "iperf3 versions"
    blocks = ""

    def run(self, bench: Bench) -> Sequence[Finding]:
        tools = Tools()
        versions: dict[str, Version] = {}

        def look(node: Node) -> list[Finding]:
            versions[node.name] = tools.of(bench.shell(node.name)).version
            return []

        missing = bench.on_each(self.name, look)
        return [*missing, *judge(self.name, {n.name: versions[n.name] for n in bench.ready if n.name in versions})]


def judge(check: str, versions: dict[str, Version]) -> list[Finding]:
    """Return a finding for each of these nodes."""
    threaded = Counter(version.threaded for version in versions.values())
    usual = threaded.most_common(1)[0][0] if threaded else False
    found = []
    for node, version in versions.items():
        message, act = str(version), ""
        if version < _LEAST.since:
            message = f"iperf3 {version} is older than {_LEAST.since}: {_LEAST.why}"
            act = f"on that node: install iperf3 {_LEAST.since} or newer"
        elif version.threaded != usual:
            # Since 3.16 each stream has a thread, so results of nodes with a busy processor cannot be compared.
            others = sorted({v for v in versions.values() if v.threaded == usual})
            message = (
                f"iperf3 {version} runs its streams {'in threads' if version.threaded else 'in one thread'}, unlike "
                f"{' and '.join(map(str, others))} of the other nodes: figures do not compare"
            )
            act = "on that node: install the version of the other nodes"
        found.append(Finding(check, Status.WRONG if act else Status.OK, node, message, act))
    return found
