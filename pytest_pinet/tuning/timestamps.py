"""TCP timestamps: 12 bytes of each segment, 941 instead of 949 Mbit/s on a gigabit link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.setting import Place, Reading, Where
from pytest_pinet.tuning.values import SWITCH_FORM, switch


class Timestamps(FileSetting):
    """Of all ends, since a connection has them where both want them (RFC 7323); a Windows peer normally does not."""

    name = "timestamps"
    form = SWITCH_FORM
    where = Where.ALL_NODES
    # The link stays up, but it carries more or less than before, and must be looked at anew.
    disruptive = True

    def parse(self, value: object) -> str:
        return switch(value)

    def patterns(self, place: Place) -> Sequence[str]:
        return [f"{place.root}/proc/sys/net/ipv4/tcp_timestamps"]

    def wanted(self, asked: str, now: Reading) -> Mapping[str, str]:
        # 2 is on too, without the random offset that hides how long a machine has run.
        return {path: "0" if asked == "off" else found if found in "12" else "1" for path, found in now.values.items()}
