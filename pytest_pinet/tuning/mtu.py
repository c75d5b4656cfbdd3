"""The MTU, of every hop: both ends are set, and the way between them is tried with packets of that size."""

from __future__ import annotations

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.tuning.files import read_files
from pytest_pinet.tuning.setting import Place, Reading, Where
from pytest_pinet.tuning.values import whole

# IPv4 needs 68, IPv6 1280; 65535 is the largest IPv4 packet.
LEAST, MOST = 68, 65535
# IPv4 and ICMP.
_HEADERS = 28


class Mtu:
    """A switch port's own MTU cannot be set portably; what it drops is seen by trying."""

    name = "mtu"
    form = "a number of bytes such as 1500 or 9000"
    where = Where.ALL_DEVICES
    # Many drivers close and open the device for it.
    disruptive = True

    def parse(self, value: object) -> str:
        return whole(value, self.form, LEAST, MOST)

    def read(self, place: Place, asked: str) -> Reading:
        (mtu,) = read_files(place, [f"{place.sysfs}/mtu"]).values()
        return Reading({"mtu": mtu}, mtu)

    def change(self, place: Place, asked: str, before: Reading) -> str:
        return f"ip link set dev {place.device} mtu {asked}"

    def restore(self, place: Place, before: Reading, after: Reading | None) -> str:
        return f"ip link set dev {place.device} mtu {before.values['mtu']}"

    def holds(self, asked: str, now: Reading) -> bool:
        return now.values["mtu"] == asked

    def effect(self, place: Place, asked: str) -> str:
        """Raises InvalidMeasurement where such packets get lost on the way: every full segment would."""
        for other in place.others:
            base = f"ping -n -q -c 2 -i 0.2 -W 1 -I {place.device} -s {int(asked) - _HEADERS}"
            # Busybox knows no -M, and needs none: this size leaves in one piece.
            no_option = "ping -c 1 -M do 127.0.0.1 2>&1 | grep -q option"
            done = place.ask(f"{{ {base} -M do {other} || {{ {no_option} && {base} {other}; }}; }} >/dev/null 2>&1")
            if done.returncode:
                raise InvalidMeasurement(
                    f"packets of {asked} bytes from {place.end} do not reach {other}, although all ends have this MTU\n"
                    "  -> does each switch port on the way allow frames of that size?"
                )
        return ""
