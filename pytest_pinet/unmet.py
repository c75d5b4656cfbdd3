"""What was asked of the kernels at the ends, and is not what they did: the figure is that of something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.figures import Figured
from pytest_pinet.judge.oracle import IPV4_TCP_HEADERS
from pytest_pinet.judge.preconditions import buffer_trouble, socket_trouble
from pytest_pinet.lab.link import Link
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.tries import Try


def unmet(link: Link, traffic: Traffic, tries: Sequence[Try]) -> list[str]:
    """A sentence for each setting that was not effective, from what the kernels said in mid-traffic."""
    # A link that is down has the smallest segments there are; such a try stands in no figure.
    tries = [one for one in tries if not one.excluded]
    found = [sentence for one in tries for m in one.measurements for sentence in m.unmet]
    # The tool may have told of the window already, by the node's name.
    window = None if found else traffic.window
    for flow in (flow for one in tries for flow in one.flows):
        path = link.path_between(flow.sender, flow.receiver)
        ends = str(link.ends[flow.sender].endpoint), str(link.ends[flow.receiver].endpoint)
        sockets, far = flow.flow.sockets, flow.flow.far_sockets
        if traffic.mss is not None and sockets is not None:
            found += socket_trouble(sockets, path.mtu, path.timestamps, traffic.mss, ends[0])
        elif traffic.mss is not None and traffic.mss > (largest := path.mtu - IPV4_TCP_HEADERS):
            found.append(f"mss={traffic.mss} bytes was asked for, but MTU {path.mtu} allows no more than mss={largest}")
        if window is not None:
            found += buffer_trouble(sockets, far, window, ends)
    return list(dict.fromkeys(found))


def unseen(traffic: Traffic, tries: Sequence[Try]) -> list[str]:
    """A sentence where an MSS was asked for, and no kernel told whether it was effective."""
    if traffic.mss is None or any(flow.flow.sockets is not None for one in tries for flow in one.flows):
        return []
    return [f"mss={traffic.mss} bytes was asked for, and no sender could tell what it used (ss of iproute2)"]


def invalidated(found: Figured, sentences: Sequence[str]) -> Figured:
    """The figures as they are, none of which may be judged."""
    if not sentences:
        return found
    why = "; ".join(sentence.partition("\n")[0] for sentence in sentences)
    for record in (*found.directions.values(), *found.flows):
        record["verdict"], record["state"] = Verdict.INVALID.value, ""
        record["reason"] = f"{Bitrate(record['goodput_bps'])} says nothing: {why}"
    return replace(found, verdict=Verdict.INVALID, reason=why, wanted=None)


def unserved(found: Figured, tries: Sequence[Try]) -> Figured:
    """Requests that failed fail the test, however many others were answered."""
    failed: dict[str, int] = {}
    requests = 0
    for report in (m.http for one in tries for m in one.measurements if m.http is not None):
        requests += report.requests
        for kind, count in report.troubles.items():
            failed[kind] = failed.get(kind, 0) + count
    if not failed or found.verdict is Verdict.INVALID:
        return found
    why = f"of {requests} requests {', '.join(f'{count} {kind}' for kind, count in failed.items())}"
    for record in found.directions.values():
        record["verdict"], record["reason"] = Verdict.FAIL.value, why
    return replace(found, verdict=Verdict.FAIL, reason=why, wanted=None)
