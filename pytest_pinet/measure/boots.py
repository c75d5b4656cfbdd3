"""Boots of the device under test, one after the other: which of them are bad, and when the link is ready in each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.errors import (
    BuildError,
    ConsoleError,
    InvalidMeasurement,
    LinkError,
    ShutdownError,
    SshError,
    TrafficError,
    first_line,
)
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.trace import doing
from pytest_pinet.lab.link.end import End, read_surroundings
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.events import Counted
from pytest_pinet.measure.ping import ping_peer
from pytest_pinet.model.figures import Better, Figure, Sample
from pytest_pinet.model.traffic import Ping
from pytest_pinet.traffic.processes import run_watched
from pytest_pinet.traffic.tool import Watch

CARRIER = Figure("boot_to_carrier", "s", Better.DOWN)
REPLY = Figure("boot_to_reply", "s", Better.DOWN)
# A system may bring a NIC up long after its login works. A carrier has the time of the boot, and at least this time.
CARRIER_TIMEOUT_S = 30.0
PING = Ping(count=5, interval_s=0.2)
_POLL_S = 0.1
# A kernel that starts its first program so late is that of a container: the boot began with this program.
_CONTAINER_S = 60.0
# Prints the age of the kernel and of the first program, in seconds and in hundredths of a second.
_AGE = "read -r up rest </proc/uptime; echo $up $(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)"


@dataclass(frozen=True)
class Boots(Counted):
    """One boot is one value. ``latency_s`` is the mean round trip above which a boot is bad.

    ``reboot`` boots the device under test of a link once, and ``reconnect`` opens the link again.
    """

    reboot: Callable[[Link], None]
    reconnect: Callable[[Link], None]
    latency_s: float = 0.1
    noun: ClassVar = "boots"
    values: ClassVar = (CARRIER, REPLY)
    name: ClassVar = "boots-ping"
    seconds: ClassVar = 60.0

    def why_bad(self, event: Sample) -> str:
        return "".join(event.notes)

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Boot once. A bad boot is a value, too: the first of ``notes`` says why it is bad. An under-voltage is none.

        Raises LabError for what is no fault of the boot, such as a power switch or a shutdown that fails.
        """
        lines: list[str] = []
        values: dict[str, float] = {}
        bad = excluded = ""
        try:
            with doing(f"boot {link.dut.endpoint.node.name}"):
                self.reboot(link)
            dut = End(link.dut.endpoint, link.dut.session, link.dut.session.shell, link.dut.address)
            carrier_s = _await_carrier(dut, watch)
            self.reconnect(link)
            values[CARRIER.name] = _age_s(link) if carrier_s is None else carrier_s
            # To open a link takes an answer.
            values[REPLY.name] = _age_s(link)
            bad = self._bad_ping(link, watch, lines)
        except (ShutdownError, TrafficError):
            raise
        except (ConsoleError, SshError, BuildError) as error:
            bad = f"no boot: {first_line(error)}"
        except InvalidMeasurement as error:
            # Only an error that a console reported has an excerpt: an under-voltage.
            excluded = first_line(error) if error.excerpt else ""
            bad = "" if excluded else f"slow link: {first_line(error)}"
        except LinkError as error:
            bad = f"no link: {first_line(error)}"
            with suppress(SshError):
                bad = f"no link {_age_s(link):.0f} s after the boot: {first_line(error)}"
        raw = "\n".join([*lines, *(f"{name} {value:.2f} s" for name, value in values.items()), bad, ""])
        return Sample(values, raw, excluded, notes=(bad,) if bad else (), tool="ping")

    def _bad_ping(self, link: Link, watch: Watch | None, lines: list[str]) -> str:
        """Return why the pings are bad; empty if they are good."""
        try:
            report, text = ping_peer(link, PING, watch)
        except TrafficError as error:
            return f"no answer: {first_line(error)}"
        lines.append(text)
        if report.mean_s is not None and report.mean_s > self.latency_s:
            return f"slow ping: a mean round trip of {report.mean_s * 1000:.0f} ms"
        return ""


def _await_carrier(dut: End, watch: Watch | None) -> float | None:
    """Wait until a program of the board has brought the device up; return the age of the boot then.

    None if no program will do so: pinet brings the device up. Raises LinkError if no carrier comes in time.
    """
    path = f"/sys/class/net/{dut.device}"
    up = dut.shell.run(f"read -r f <{path}/flags && [ $((f & 1)) = 1 ]").returncode == 0
    if not up and read_surroundings(dut).holding is None:
        return None
    wait = f'until read -r c <{path}/carrier && [ "$c" = 1 ]; do sleep {_POLL_S:g} || sleep 1; done 2>/dev/null; {_AGE}'
    timeout_s = max(CARRIER_TIMEOUT_S, dut.endpoint.node.boot_timeout_s)
    try:
        done = run_watched(dut.shell, wait, "the wait for a carrier", timeout_s, watch, 0.0)
        return _age_of(done.stdout, dut.shell)
    except TrafficError:
        late = f"no carrier on {dut} within {timeout_s:.0f} s after its login"
        raise LinkError(late, f"look at the log of {dut.shell.name}") from None


def _age_s(link: Link) -> float:
    shell = link.dut.session.shell
    return _age_of(shell.run(_AGE).stdout, shell)


def _age_of(text: str, shell: Shell) -> float:
    """Return the age of a boot (s) from the output of _AGE. Raises SshError for none: the connection was lost."""
    if not text.strip():
        raise SshError(f"{shell.name} closed its connection after the boot", f"look at the console of {shell.name}")
    up, first = text.split()
    began_s = int(first) / 100
    return float(up) - (began_s if began_s > _CONTAINER_S else 0.0)
