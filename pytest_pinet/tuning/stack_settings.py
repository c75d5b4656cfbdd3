"""Settings of the network stack: MTU, queueing discipline, congestion control, buffers, TCP timestamps."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.execution.shell import reason
from pytest_pinet.model.quantities import parse_size
from pytest_pinet.tuning.file_setting import FileSetting, read_files
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading, SettingScope
from pytest_pinet.tuning.values import SWITCH_FORM, one_of, size, switch, text, whole

# The smallest MTU for IPv4 is 68 (for IPv6 1280). The largest IPv4 packet has 65535 bytes.
LEAST, MOST = 68, 65535
# Bytes of the IPv4 and ICMP headers.
_HEADERS = 28


class Mtu(DeviceSetting):
    """The MTU of the NICs of all ends. The MTU of a switch port cannot be set portably, so pings test the path."""

    name = "mtu"
    form = "a number of bytes such as 1500 or 9000"
    where = SettingScope.ALL_DEVICES
    # Many drivers close and open the device to change the MTU.
    disruptive = True

    def parse(self, value: object) -> str:
        return whole(value, self.form, LEAST, MOST)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        (mtu,) = read_files(place, [f"{place.sysfs}/mtu"]).values()
        return SettingReading({"mtu": mtu}, mtu)

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        return f"ip link set dev {place.device} mtu {requested}"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        return f"ip link set dev {place.device} mtu {before.values['mtu']}"

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values["mtu"] == requested

    def effect(self, place: SettingPlace, requested: str) -> str:
        """Ping with packets of this size. If they are lost, full segments are lost too: raises InvalidMeasurement."""
        for other in place.others:
            base = f"ping -n -q -c 2 -i 0.2 -W 1 -I {place.device} -s {int(requested) - _HEADERS}"
            # Busybox ping has no -M. It needs none, because a packet of this size leaves unfragmented.
            no_option = "ping -c 1 -M do 127.0.0.1 2>&1 | grep -q option"
            done = place.ask(f"{{ {base} -M do {other} || {{ {no_option} && {base} {other}; }}; }} >/dev/null 2>&1")
            if done.returncode:
                raise InvalidMeasurement(
                    f"packets of {requested} bytes from {place.end} do not reach {other}, "
                    "although all ends have this MTU",
                    "check that each switch port on the path allows frames of this size",
                )
        return ""


# Matches, for example, "qdisc fq_codel 0: root refcnt 2 limit 10240p ...".
_LINE = re.compile(r"^qdisc (\S+) (\S+): (root|parent (\S+))", re.MULTILINE)
_KERNELS = "0"  # the handle of qdiscs that the kernel chose
_BY_QUEUE = "mq"


class Qdisc(DeviceSetting):
    """A queueing discipline without options, which chooses the next packet to send: one for each transmit queue."""

    name = "qdisc"
    form = "the kind of a queueing discipline such as 'fq_codel', 'fq' or 'pfifo_fast'"

    def parse(self, value: object) -> str:
        return text(value, self.form)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        done = place.ask(f"tc qdisc show dev {place.device}")
        if done.returncode:
            raise NoKnob(f"'tc qdisc show dev {place.device}': {reason(done.stderr)}")
        found = _LINE.findall(done.stdout)
        root = next(((kind, handle) for kind, handle, where, _ in found if where == "root"), None)
        if root is None:
            raise NoKnob(f"{place.device} has no root qdisc")
        kind, handle = root
        parents = [(kind, parent) for kind, _, _, parent in found if parent]
        leaves = list(dict.fromkeys(kind for kind, _ in parents)) if kind == _BY_QUEUE else []
        words = f"{kind} of {', '.join(leaves)}" if leaves else kind
        values = {"kind": ",".join(leaves) or kind, "handle": handle, "queues": str(len(parents) if leaves else 0)}
        return SettingReading(values, words)

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        device, queues = place.device, int(before.values["queues"])
        if before.values["handle"] != _KERNELS:
            kind = f"{before.values['kind']} {before.values['handle']}:"
            raise NoKnob(f"the system has set qdisc {kind} on {device}, which could not be restored exactly")
        if not queues:
            return f"tc qdisc replace dev {device} root {requested}"
        each = [f"tc qdisc replace dev {device} parent 1:{number:x} {requested}" for number in range(1, queues + 1)]
        return " && ".join([f"tc qdisc replace dev {device} root handle 1: {_BY_QUEUE}", *each])

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        # After the deletion, the kernel installs its default qdisc again.
        return f"tc qdisc del dev {place.device} root"

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values["kind"] == requested


_MASQUERADE = "masquerade"
_NO_NFT = 98


class Nat(DeviceSetting):
    """Forwarded packets that leave through a device get its address, by a table of nftables for each device."""

    name = "nat"
    form = "'masquerade' or 'off'"

    def parse(self, value: object) -> str:
        return one_of("off" if value is False else value, (_MASQUERADE, "off"), self.form)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        # Only root may list tables.
        done = place.change(f"command -v nft >/dev/null || exit {_NO_NFT}; nft list table ip {_table(place)}")
        if done.returncode == _NO_NFT:
            raise NoKnob(f"{place.node} has no nft (sudo apt-get install nftables)")
        state = _MASQUERADE if done.returncode == 0 else "off"
        return SettingReading({"nat": state}, state)

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        if requested == "off":
            return f"nft delete table ip {_table(place)}"
        hook = "type nat hook postrouting priority 100;"
        # With a VLAN, packets leave through eth0.7.
        rules = "; ".join(f'oifname "{place.device}{more}" masquerade' for more in ("", ".*"))
        return f"nft 'table ip {_table(place)} {{ chain post {{ {hook} {rules}; }}; }}'"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        state = before.values["nat"]
        change = self.change(place, state, before)
        gone = f"! nft list table ip {_table(place)} >/dev/null 2>&1"
        return f"{change} || {gone}" if state == "off" else change

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values["nat"] == requested


def _table(place: SettingPlace) -> str:
    return "pinet_nat_" + re.sub(r"[^A-Za-z0-9]", "_", place.device)


_NET = "/proc/sys/net"


class Congestion(FileSetting):
    """TCP congestion control, on all ends. The sender uses it, and each end may send."""

    name = "congestion"
    form = "a congestion control such as 'cubic', 'bbr' or 'reno'"
    where = SettingScope.ALL_NODES
    files = (f"{_NET}/ipv4/tcp_congestion_control",)


class BufferSize(FileSetting):
    """The largest size of buffers, on all ends."""

    form = "a size such as '4M', '512K' or a number of bytes"
    where = SettingScope.ALL_NODES

    def parse(self, value: object) -> str:
        return size(value, self.form)


class SocketBuffers(BufferSize):
    """The largest buffer a program may request (iperf3 -w), in both directions: net.core.rmem_max and wmem_max."""

    name = "socket_buffers"
    files = (f"{_NET}/core/rmem_max", f"{_NET}/core/wmem_max")

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        return dict.fromkeys(now.values, str(parse_size(requested)))


class TcpBuffers(BufferSize):
    """The largest buffer TCP itself may choose, in both directions: third number of net.ipv4.tcp_rmem and tcp_wmem."""

    name = "tcp_buffers"
    files = (f"{_NET}/ipv4/tcp_rmem", f"{_NET}/ipv4/tcp_wmem")

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = super().read(place, requested)
        if any(len(content.split()) != len(("least", "usual", "most")) for content in found.values.values()):
            raise NoKnob(f"net.ipv4.tcp_rmem and tcp_wmem are not three numbers each: {found.text}")
        return found

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        return {path: _with_largest(content, parse_size(requested)) for path, content in now.values.items()}


def _with_largest(content: str, largest: int) -> str:
    """Replace the largest size. Also lower the other two where necessary, so that none is larger."""
    least, usual, _ = (int(part) for part in content.split())
    return f"{min(least, largest)} {min(usual, largest)} {largest}"


class Timestamps(FileSetting):
    """TCP timestamps on all ends: a connection uses them only if both ends do (RFC 7323). Windows normally does not."""

    name = "timestamps"
    form = SWITCH_FORM
    where = SettingScope.ALL_NODES
    disruptive = False
    files = ("/proc/sys/net/ipv4/tcp_timestamps",)

    def parse(self, value: object) -> str:
        return switch(value)

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        # The value 2 also means on, but without the random offset that hides the uptime.
        return {
            path: "0" if requested == "off" else found if found in "12" else "1" for path, found in now.values.items()
        }
