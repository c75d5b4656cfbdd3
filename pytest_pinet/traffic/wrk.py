"""The command line of wrk, and the parser of its output.

wrk prints the seconds only to 1 %; requests divided by requests per second are exact.
"""

from __future__ import annotations

import re

from pytest_pinet.model.measurement import HttpReport
from pytest_pinet.model.traffic import HttpTraffic

# No request takes longer than the run. wrk's default of 2 s would count requests on a slow link as failed.
PATIENCE_S = 5
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZES = {"B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "TB": 2.0**40}
_TIME = r"(\d+(?:\.\d+)?)(us|ms|s|m|h)\b"
_LATENCY = re.compile(rf"^ +Latency +{_TIME} +\S+ +{_TIME}", re.MULTILINE)
_P99 = re.compile(rf"^ +99% +{_TIME}", re.MULTILINE)
_TOTAL = re.compile(r"^ +(\d+) requests in \S+, (\d+(?:\.\d+)?)([KMGT]?B) read", re.MULTILINE)
_RATE = re.compile(r"^Requests/sec: +(\d+(?:\.\d+)?)", re.MULTILINE)
_ERRORS = re.compile(r"^ +Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", re.MULTILINE)
_REFUSED = re.compile(r"^ +Non-2xx or 3xx responses: (\d+)", re.MULTILINE)


def argv(traffic: HttpTraffic, url: str, cores: int) -> list[str]:
    """Return the command line of one run, with one thread for each core, but at most one for each connection."""
    seconds = traffic.seconds
    words = ["wrk", "-t", str(max(1, min(cores, traffic.streams))), "-c", str(traffic.streams)]
    return [*words, "-d", f"{seconds}s", "--timeout", f"{seconds + PATIENCE_S}s", "--latency", url]


def parse(text: str) -> HttpReport:
    """Parse the output of wrk. Raises ValueError, which says what is missing."""
    total, rate = _TOTAL.search(text), _RATE.search(text)
    if total is None or rate is None:
        raise ValueError(f"it has no line {'Requests/sec' if total else 'N requests in ...'}")
    requests, per_second = int(total[1]), float(rate[1])
    if not requests or not per_second:
        raise ValueError("no request was answered")
    latency, p99 = _LATENCY.search(text), _P99.search(text)
    connect, read, write, timeout = map(int, found.groups()) if (found := _ERRORS.search(text)) else (0, 0, 0, 0)
    refused = _REFUSED.search(text)
    return HttpReport(
        requests,
        requests / per_second,
        float(total[2]) * _SIZES[total[3]],
        int(refused[1]) if refused else 0,
        connect,
        read,
        write,
        timeout,
        float(latency[1]) * _UNITS[latency[2]] if latency else None,
        float(latency[3]) * _UNITS[latency[4]] if latency else None,
        float(p99[1]) * _UNITS[p99[2]] if p99 else None,
    )
