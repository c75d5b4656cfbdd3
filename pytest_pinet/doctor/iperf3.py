"""Which iperf3 each node has, and whether they go together."""

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
    """Every node has an iperf3 that we know, with or without threads like that of all others."""

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
    """A finding for each of these nodes."""
    threaded = Counter(version.threaded for version in versions.values())
    usual = threaded.most_common(1)[0][0] if threaded else False
    found = []
    for node, version in versions.items():
        message, act = str(version), ""
        if version < _LEAST.since:
            message = f"iperf3 {version} is older than {_LEAST.since}: {_LEAST.why}"
            act = f"on that node: install iperf3 {_LEAST.since} or newer"
        elif version.threaded != usual:
            # From 3.16 on each stream has a thread, so that figures of nodes whose processor is the limit differ.
            others = sorted({v for v in versions.values() if v.threaded == usual})
            message = (
                f"iperf3 {version} runs its streams {'in threads' if version.threaded else 'in one thread'}, unlike "
                f"{' and '.join(map(str, others))} of the other nodes: figures do not compare"
            )
            act = "on that node: install the version of the other nodes"
        found.append(Finding(check, Status.WRONG if act else Status.OK, node, message, act))
    return found
