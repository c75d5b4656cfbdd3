"""Measure HTTP once: nginx serves a cached file at the sending end, wrk requests the file at the other end.

The server serves a single file from memory and leaves nothing behind. It has its own configuration, file and port, so
other services of the machine are not touched. It runs as the user who logged in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from pytest_pinet.errors import ConfigError, TrafficError
from pytest_pinet.execution.shell import Completed, Shell, last_line, own_lines
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.measurement import Flow, HttpReport, Measurement, Sample
from pytest_pinet.model.traffic import RESPONSE_HEAD, Direction, HttpTraffic, Traffic
from pytest_pinet.traffic.exchange import packages
from pytest_pinet.traffic.processes import (
    ASK_TIMEOUT,
    CONNECT_TIMEOUT_S,
    LIFETIME_S,
    LISTENING,
    PORTS,
    TIMEOUTS,
    MidRunProbe,
    PerEnd,
    PortTaken,
    await_listening,
    await_traffic,
    begin_at,
    guarded,
    is_listening,
    on_a_free_port,
    running,
)
from pytest_pinet.traffic.tool import TrafficJob, check_whole

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


def wrk_argv(traffic: HttpTraffic, url: str, cores: int) -> list[str]:
    """Return the command line of one run, with one thread for each core, but at most one for each connection."""
    seconds = traffic.seconds
    words = ["wrk", "-t", str(max(1, min(cores, traffic.streams))), "-c", str(traffic.streams)]
    words += ["-H", "Connection: close"] if traffic.close else []
    return [*words, "-d", f"{seconds}s", "--timeout", f"{seconds + PATIENCE_S}s", "--latency", url]


def parse_wrk(text: str) -> HttpReport:
    """Parse the output of wrk. Raises ValueError, which says what is missing."""
    total, rate = _TOTAL.search(text), _RATE.search(text)
    if total is None or rate is None:
        raise ValueError(f"it has no line {'Requests/sec' if total else 'N requests in ...'}")
    # wrk prints the seconds only to 1 %; requests divided by requests per second are exact.
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


CONNECTIONS_MAX = 10_000
SIZE_MAX = 64 * 2**20
SECONDS_MAX = 3600
# One line each: nginx version and wrk version (empty if the tool is missing), cores, form of timeout.
_ASK = (
    # nginx prints its version on standard error, where other lines may stand.
    'PATH=$PATH:/usr/sbin:/sbin; for t in nginx wrk; do echo "$($t -v 2>&1 | while read -r v; do'
    ' case $v in "nginx version: "* | "wrk "*) echo "${v#nginx version: }";; esac; done)"; done; '
    f"nproc 2>/dev/null || echo 1; {ASK_TIMEOUT} || echo"
)
# Paths are relative to the folder of ``-p``. The other end counts errors of single requests.
_CONFIGURATION = """\
daemon off;
worker_processes auto;
pid pid;
error_log error.log crit;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  sendfile on; tcp_nopush on;
  keepalive_requests 1000000000; keepalive_timeout 1h;
  open_file_cache max=16;
  default_type application/octet-stream;
  server {{ listen {address}:{port}; root www; }}
}}
"""
# /dev/shm is in memory on every system with a C library. All processes are in one process group, led by the ssh login
# or by the command of the runner. Ending the group also ends workers whose master was killed. The second shell does
# this if the first one was killed or exceeds its lifetime. It checks once a second, in its own session if possible.
_SCRIPT = """\
PATH=$PATH:/usr/sbin:/sbin; me=$$; umask 022; {files}
d=$(mktemp -d /dev/shm/pinet-http-XXXXXX 2>/dev/null) || d=$(mktemp -d) || exit 1
clean() {{ trap '' HUP INT TERM; kill -TERM -- -$me 2>/dev/null; rm -rf "$d"; }}
own=; command -v setsid >/dev/null && own=setsid
$own sh -c 'trap "" HUP INT TERM; n=0; while kill -0 $1 && [ $n -lt {life} ]; do sleep 1; n=$((n+1)); done
  kill -TERM -- -$1; rm -rf "$2"; kill -KILL -- -$1' sh $me "$d" </dev/null >/dev/null 2>&1 & w=$!
trap 'kill -KILL $w; [ -z "$p" ] || {{ kill $p; wait $p; }} 2>/dev/null; clean' EXIT; trap 'exit 143' HUP INT TERM
chmod 755 "$d" && mkdir "$d/www" && head -c {size} /dev/zero >"$d/www/data" || exit 1
cat >"$d/nginx.conf" <<'CONFIGURATION'
{configuration}CONFIGURATION
nginx -p "$d/" -c "$d/nginx.conf" & p=$!
while kill -0 $p 2>/dev/null && ! {{ [ -s "$d/pid" ] && {listens}; }}; do sleep 0.02; done
kill -0 $p 2>/dev/null && echo '{listening}'
wait $p; r=$?; p=; head -c 4000 "$d/error.log" >&2; exit $r"""
PATH_OF_FILE = "/data"
# Shells begin with a limit of 1024 open files, and each connection is one (nginx needs more). Raise it to the hard
# limit.
MANY_FILES = "ulimit -n $(ulimit -H -n) 2>/dev/null || :"

# nginx retries to bind for about this long.
BINDING_S = 3.0


@dataclass(frozen=True)
class _HttpEnd:
    """The tools of an end: version texts (empty if the tool is missing), number of cores, form of timeout."""

    nginx: str
    wrk: str
    cores: int
    timeout: str


class Http:
    """Measures with nginx and wrk. Keep one object per session: it remembers the tools of every end."""

    @classmethod
    def for_lab(cls, _: Lab) -> Http:
        """Return the tool; it is the same for every lab."""
        return cls()

    def __init__(self, ports: Sequence[int] = PORTS) -> None:
        self._ports = ports
        self._ends = PerEnd(_read_end)

    def prepare(self, job: TrafficJob) -> None:
        """Check that the server's end has nginx and the client's end has wrk. Raises TrafficError."""
        server, client = _roles(job, validate(job.traffic))
        self._need(server, "nginx")
        self._need(client, "wrk")

    def measure(self, job: TrafficJob) -> Measurement:
        """Request the file for the duration of the traffic; the payload of good responses is counted.

        When this returns or raises, no process runs on and no file is left. Raises ConfigError or LabError.
        """
        http = validate(job.traffic)
        server, client = _roles(job, http)
        address = job.dut_address if server is job.dut else job.peer_address
        far, near = self._need(server, "nginx"), self._need(client, "wrk")

        def measure_on(port: int) -> Measurement:
            # The kernel sees the server as the sender of the flow.
            midway = MidRunProbe({http.direction: (server, client)}, port, http.streams, http.seconds / 2, job.watch)
            run = HttpRun(http, address, port, server, client, near.cores, near.timeout)
            return _measurement(run, *run.both(replace(job, watch=midway.look)), midway, (far, near))

        return on_a_free_port(self._ports, server, measure_on)

    def _need(self, shell: Shell, tool: str) -> _HttpEnd:
        end = self._ends.of(shell)
        if not getattr(end, tool):
            raise TrafficError(
                f"{shell.name} has no {tool}", f"on {shell.name}: install the package {packages([tool])}"
            )
        return end


def _read_end(shell: Shell) -> _HttpEnd:
    lines = [*shell.run(_ASK).stdout.splitlines(), "", "", "", ""]
    cores = int(lines[2]) if lines[2].isdigit() else 1
    return _HttpEnd(lines[0], lines[1], cores, lines[3] if lines[3] in TIMEOUTS else "")


def validate(traffic: Traffic) -> HttpTraffic:
    """Check the values of the traffic. Raises ConfigError for impossible values."""
    if not isinstance(traffic, HttpTraffic) or traffic.direction is Direction.BIDIR:
        raise ConfigError(
            f"direction={str(traffic.direction)!r}: HTTP has one direction; expected 'tx' (the device under test "
            "serves) or 'rx' (its peer serves)"
        )
    check_whole("connections", traffic.streams, 1, CONNECTIONS_MAX)
    check_whole("size", traffic.size, 1, SIZE_MAX)
    if not 0 < traffic.duration_s <= SECONDS_MAX:
        raise ConfigError(f"duration={traffic.duration_s:g} s: expected more than 0 s, and {SECONDS_MAX} s at most")
    return traffic


def _roles(job: TrafficJob, traffic: HttpTraffic) -> tuple[Shell, Shell]:
    """Return the server's end and the client's end."""
    return (job.dut, job.peer) if traffic.direction is Direction.TX else (job.peer, job.dut)


def _measurement(
    run: HttpRun, served: Completed, asked: Completed, midway: MidRunProbe, ends: tuple[_HttpEnd, _HttpEnd]
) -> Measurement:
    """Return everything that arrived as one sample: wrk reports no intervals. Raises TrafficError."""
    traffic = run.traffic
    if asked.returncode != 0:
        said = last_line(asked.stderr, asked.stdout)
        raise TrafficError(
            f"wrk on {run.client.name} failed: {said or f'exit status {asked.returncode}'}",
            f"check address, cable, switch port and firewall between {run.client.name} and {run.server.name}",
            _evidence(served, asked),
        )
    try:
        report = parse_wrk(asked.stdout)
    except ValueError as error:
        raise TrafficError(
            f"the output of wrk on {run.client.name} cannot be trusted: {error}",
            f"repeat; if it happens again, look at the wrk of {run.client.name}",
            _evidence(served, asked),
        ) from None
    payload = report.good * traffic.size
    sample = Sample(0.0, report.seconds, payload)
    # When wrk ends, each connection has a response on its way that wrk may have read in part.
    head = max(0, round(report.read_bytes) - payload)
    on_its_way = traffic.streams * (traffic.size + RESPONSE_HEAD)
    flow = Flow(traffic.direction, (sample,), sent_bytes=payload + head + on_its_way, head_bytes=head)
    serving, asking = ("dut", "peer") if traffic.direction is Direction.TX else ("peer", "dut")
    return Measurement(
        traffic,
        midway.add({traffic.direction: flow}),
        {
            "server.cmd": run.server_command + "\n",
            "server.err": served.stderr,
            "client.cmd": run.client_command + "\n",
            "wrk.txt": asked.stdout,
            "client.err": asked.stderr,
        },
        versions={serving: ends[0].nginx, asking: ends[1].wrk},
        http=report,
    )


@dataclass(frozen=True)
class HttpRun:
    """One nginx on ``server`` and one wrk on ``client``.

    ``cores`` and ``timeout`` (a form of TIMEOUTS) are the client's.
    """

    traffic: HttpTraffic
    address: str
    port: int
    server: Shell
    client: Shell
    cores: int
    timeout: str

    @property
    def _host(self) -> str:
        """The address before a port (RFC 3986)."""
        return f"[{self.address}]" if ":" in self.address else self.address

    @property
    def server_command(self) -> str:
        """The command line of a server that prints LISTENING once clients can connect."""
        traffic = self.traffic
        connections = 2 * traffic.streams + 64
        return _SCRIPT.format(
            life=round(traffic.seconds + LIFETIME_S + CONNECT_TIMEOUT_S),
            size=traffic.size,
            configuration=_CONFIGURATION.format(connections=connections, address=self._host, port=self.port),
            listens=is_listening(self.port),
            listening=LISTENING,
            files=MANY_FILES,
        )

    @property
    def client_command(self) -> str:
        url = f"http://{self._host}:{self.port}{PATH_OF_FILE}"
        argv = wrk_argv(self.traffic, url, self.cores)
        return f"{MANY_FILES}; {guarded(argv, self.timeout, self.traffic.seconds + LIFETIME_S)}"

    def both(self, job: TrafficJob) -> tuple[Completed, Completed]:
        """Run the client to its end, then stop the server. Return the results of server and client.

        Raises PortTaken or LabError.
        """
        served: list[Completed] = []
        asked: list[Completed] = []
        with running(self.server, self.server_command, "nginx", served.append) as server:
            if not await_listening(server, self.server, "nginx", self.port, BINDING_S):
                self._explain(server.wait(1.0))
            begin_s = None if job.before_client is None else job.before_client(self.client)
            with running(self.client, begin_at(begin_s) + self.client_command, "wrk", asked.append) as client:
                await_traffic(
                    lambda: client.poll() is not None,
                    (self.client, self.server),
                    self.traffic.seconds,
                    self._hanging,
                    on_progress=job.on_progress,
                    watch=job.watch,
                )
            died = server.poll() is not None
        if died:
            raise TrafficError(
                f"the nginx on {self.server.name} ended during the traffic",
                f"find out why it ended on {self.server.name} (console, dmesg, memory), then repeat",
                _evidence(served[0], asked[0]),
            )
        return served[0], asked[0]

    def _explain(self, done: Completed) -> NoReturn:
        """Raise the error for a server that ended before a client could connect."""
        if "Address already in use" in done.stderr:
            raise PortTaken
        said = [line for line in done.stderr.splitlines() if "[emerg]" in line] or own_lines(done.stderr)
        why = said[-1].partition("[emerg]")[2].strip() or said[-1] if said else f"exit status {done.returncode}"
        raise TrafficError(
            f"nginx on {self.server.name} does not start: {why}",
            f"check the installation of nginx on {self.server.name}",
            done.stdout + done.stderr,
        )

    def _hanging(self, late_s: float) -> TrafficError:
        return TrafficError(
            f"wrk on {self.client.name} still runs {late_s:.0f} s after the traffic should have ended, though both "
            "ends answer",
            "look for a link that went down during the traffic",
        )


def _evidence(served: Completed, asked: Completed) -> str:
    """Return the output of both processes, for a report."""
    parts = (("nginx", served.stdout + served.stderr), ("wrk", asked.stdout + asked.stderr))
    return "".join(f"{name}: {text.strip()}\n" for name, text in parts if text.strip())
