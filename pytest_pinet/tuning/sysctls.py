"""Settings of TCP and sockets: congestion control and maximum buffer sizes."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.model.quantities import parse_size
from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.files import read_files
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading, SettingScope
from pytest_pinet.tuning.values import size, text

_NET = "/proc/sys/net"
_SIZE_FORM = "a size such as '4M', '512K' or a number of bytes"


class Congestion(FileSetting):
    """TCP congestion control, on all ends. The sender uses it, and each end may send."""

    name = "congestion"
    form = "a congestion control such as 'cubic', 'bbr' or 'reno'"
    where = SettingScope.ALL_NODES
    files = (f"{_NET}/ipv4/tcp_congestion_control",)

    def parse(self, value: object) -> str:
        return text(value, self.form)


class SocketBuffers(FileSetting):
    """The largest buffer a program may request (iperf3 -w), in both directions: net.core.rmem_max and wmem_max."""

    name = "socket_buffers"
    form = _SIZE_FORM
    where = SettingScope.ALL_NODES
    files = (f"{_NET}/core/rmem_max", f"{_NET}/core/wmem_max")

    def parse(self, value: object) -> str:
        return size(value, self.form)

    def wanted(self, asked: str, now: SettingReading) -> Mapping[str, str]:
        return dict.fromkeys(now.values, str(parse_size(asked)))


class TcpBuffers(FileSetting):
    """The largest buffer TCP itself may choose, in both directions: third number of net.ipv4.tcp_rmem and tcp_wmem."""

    name = "tcp_buffers"
    form = _SIZE_FORM
    where = SettingScope.ALL_NODES
    files = (f"{_NET}/ipv4/tcp_rmem", f"{_NET}/ipv4/tcp_wmem")

    def parse(self, value: object) -> str:
        return size(value, self.form)

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        found = read_files(place, self.patterns(place))
        if any(len(content.split()) != len(("least", "usual", "most")) for content in found.values()):
            raise NoKnob(f"net.ipv4.tcp_rmem and tcp_wmem are not three numbers each: {', '.join(found.values())}")
        found = {path: " ".join(content.split()) for path, content in found.items()}
        return SettingReading(found, ", ".join(dict.fromkeys(found.values())))

    def wanted(self, asked: str, now: SettingReading) -> Mapping[str, str]:
        return {path: _with_largest(content, parse_size(asked)) for path, content in now.values.items()}


def _with_largest(content: str, largest: int) -> str:
    """Replace the largest size. Also lower the other two where necessary, so that none is larger."""
    least, usual, _ = (int(part) for part in content.split())
    return f"{min(least, largest)} {min(usual, largest)} {largest}"
