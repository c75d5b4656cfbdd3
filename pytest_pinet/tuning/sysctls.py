"""Settings of TCP and of sockets: congestion control, and how large buffers may become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.model.quantities import parse_size
from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.files import read_files
from pytest_pinet.tuning.setting import NoKnob, Place, Reading, Where
from pytest_pinet.tuning.values import size, text

_NET = "/proc/sys/net"
_SIZE_FORM = "a size such as '4M', '512K' or a number of bytes"


class Congestion(FileSetting):
    """TCP's congestion control, of all ends: it is the sender's, and each may send."""

    name = "congestion"
    form = "a congestion control such as 'cubic', 'bbr' or 'reno'"
    where = Where.ALL_NODES

    def parse(self, value: object) -> str:
        return text(value, self.form)

    def patterns(self, place: Place) -> Sequence[str]:
        return [f"{place.root}{_NET}/ipv4/tcp_congestion_control"]

    def wanted(self, asked: str, now: Reading) -> Mapping[str, str]:
        return dict.fromkeys(now.values, asked)


class SocketBuffers(FileSetting):
    """How large a buffer a program may ask for (iperf3 -w), both ways: net.core.rmem_max and wmem_max."""

    name = "socket_buffers"
    form = _SIZE_FORM
    where = Where.ALL_NODES

    def parse(self, value: object) -> str:
        return size(value, self.form)

    def patterns(self, place: Place) -> Sequence[str]:
        return [f"{place.root}{_NET}/core/{way}mem_max" for way in "rw"]

    def wanted(self, asked: str, now: Reading) -> Mapping[str, str]:
        return dict.fromkeys(now.values, str(parse_size(asked)))


class TcpBuffers(FileSetting):
    """How large TCP may make buffers by itself, both ways: the third number of net.ipv4.tcp_rmem and tcp_wmem."""

    name = "tcp_buffers"
    form = _SIZE_FORM
    where = Where.ALL_NODES

    def parse(self, value: object) -> str:
        return size(value, self.form)

    def patterns(self, place: Place) -> Sequence[str]:
        return [f"{place.root}{_NET}/ipv4/tcp_{way}mem" for way in "rw"]

    def read(self, place: Place, asked: str) -> Reading:
        found = read_files(place, self.patterns(place))
        if any(len(content.split()) != len(("least", "usual", "most")) for content in found.values()):
            raise NoKnob(f"net.ipv4.tcp_rmem and tcp_wmem are not three numbers each: {', '.join(found.values())}")
        found = {path: " ".join(content.split()) for path, content in found.items()}
        return Reading(found, ", ".join(dict.fromkeys(found.values())))

    def wanted(self, asked: str, now: Reading) -> Mapping[str, str]:
        return {path: _with_largest(content, parse_size(asked)) for path, content in now.values.items()}


def _with_largest(content: str, largest: int) -> str:
    """A least or usual size above the largest would be refused."""
    least, usual, _ = (int(part) for part in content.split())
    return f"{min(least, largest)} {min(usual, largest)} {largest}"
