"""The MTU of both ends. The path between the ends is tested with packets of that size."""

from __future__ import annotations

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.tuning.files import read_files
from pytest_pinet.tuning.setting import DeviceSetting, SettingPlace, SettingReading, SettingScope
from pytest_pinet.tuning.values import whole

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
