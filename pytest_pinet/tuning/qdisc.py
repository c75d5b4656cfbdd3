"""The queueing discipline (qdisc) of a NIC, which chooses the next packet to send."""

from __future__ import annotations

import re

from pytest_pinet.execution.shell import reason
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import text

# Matches, for example, "qdisc fq_codel 0: root refcnt 2 limit 10240p ...".
_LINE = re.compile(r"^qdisc (\S+) (\S+): (root|parent (\S+))", re.MULTILINE)
_KERNELS = "0"  # the handle of qdiscs that the kernel chose
_BY_QUEUE = "mq"


class Qdisc(DeviceSetting):
    """A qdisc without options. A NIC with several transmit queues gets one qdisc for each queue."""

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
