"""Settings of TCP and sockets: congestion control and maximum buffer sizes."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.model.quantities import parse_size
from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading, SettingScope
from pytest_pinet.tuning.values import size

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
