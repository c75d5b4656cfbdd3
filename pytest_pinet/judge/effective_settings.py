"""Check that requested MSS and buffer sizes took effect. If not, the result is invalid."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.judge.attempts import Try
from pytest_pinet.judge.oracle import IPV4_TCP_HEADERS
from pytest_pinet.judge.preconditions import buffer_trouble, socket_trouble
from pytest_pinet.model.link_facts import LinkFacts
from pytest_pinet.model.traffic import Traffic


def unmet(link: LinkFacts, traffic: Traffic, tries: Sequence[Try]) -> list[str]:
    """Return a sentence for each setting that was not effective, from the kernels' values during the traffic."""
    # A link that is down has the smallest segments; such a try is not counted.
    tries = [one for one in tries if not one.excluded]
    found = [sentence for one in tries for m in one.measurements for sentence in m.unmet]
    # The tool may have reported the window already, with the node's name.
    window = None if found else traffic.window
    for flow in (flow for one in tries for flow in one.flows):
        path = link.path_between(flow.sender, flow.receiver)
        ends = str(link.ends[flow.sender]), str(link.ends[flow.receiver])
        sockets, far = flow.flow.sockets, flow.flow.far_sockets
        if traffic.mss is not None and sockets is not None:
            found += socket_trouble(sockets, path.mtu, path.timestamps, traffic.mss, ends[0])
        elif traffic.mss is not None and traffic.mss > (largest := path.mtu - IPV4_TCP_HEADERS):
            found.append(f"mss={traffic.mss} bytes was asked for, but MTU {path.mtu} allows no more than mss={largest}")
        if window is not None:
            found += buffer_trouble(sockets, far, window, ends)
    return list(dict.fromkeys(found))


def unseen(traffic: Traffic, tries: Sequence[Try]) -> list[str]:
    """Return a sentence if an MSS was requested, and no kernel reported whether it was effective."""
    if traffic.mss is None or any(flow.flow.sockets is not None for one in tries for flow in one.flows):
        return []
    return [f"mss={traffic.mss} bytes was asked for, and no sender could tell what it used (ss of iproute2)"]


def failed_requests(tries: Sequence[Try]) -> str:
    """Return a sentence about requests that failed or had a bad status; empty if there are none."""
    counts: dict[str, int] = {}
    requests = 0
    for report in (m.http for one in tries for m in one.measurements if m.http is not None):
        requests += report.requests
        for kind, count in report.troubles.items():
            counts[kind] = counts.get(kind, 0) + count
    if not counts:
        return ""
    return f"of {requests} requests {', '.join(f'{count} {kind}' for kind, count in counts.items())}"
