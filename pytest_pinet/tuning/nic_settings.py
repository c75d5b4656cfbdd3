"""Settings of a NIC, which ``ethtool`` reads and changes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.execution.shell import reason
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import SWITCH_FORM, one_of, switch, whole

NOT_FOUND = 127
# Values of fields that a driver does not report.
_NOTHING = ("n/a", "")


def ask(place: SettingPlace, option: str) -> str:
    """Return the output of ``ethtool OPTION DEVICE``. Raises NoKnob if the driver does not support the option."""
    done = place.ask(f"ethtool {option} {place.device}")
    if done.returncode == NOT_FOUND:
        raise NoKnob(f"{place.node} has no ethtool (sudo apt-get install ethtool)")
    if done.returncode:
        raise NoKnob(f"'ethtool {option} {place.device}': {reason(done.stderr, done.stdout)}")
    return done.stdout


def fields(output: str, after: str = "") -> dict[str, str]:
    """Return the ``name: value`` fields that the driver reports, from the lines after the one that starts with
    ``after``.
    """
    lines = output.splitlines()
    if after:
        starts = [number for number, line in enumerate(lines) if line.startswith(after)]
        lines = lines[starts[0] + 1 :] if starts else []
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and value.strip() not in _NOTHING:
            found.setdefault(name.strip(), value.strip())
    return found


class EthtoolSetting(DeviceSetting, ABC):
    """A setting that ``ethtool SETS DEVICE PARAMETER VALUE`` changes.

    A driver may change other parameters along with it, so all are read, and the undo restores every difference.
    """

    sets: str
    parameter: str
    # Whether the undo restores all parameters or only this one, if the process dies before the change is read back.
    undoes_all = True

    @abstractmethod
    def read(self, place: SettingPlace, requested: str) -> SettingReading: ...

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        return self._command(place, {self.parameter: requested})

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        changed = {
            name: value
            for name, value in before.values.items()
            if name == self.parameter or (self.undoes_all if after is None else after.values.get(name) != value)
        }
        return self._command(place, changed)

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values[self.parameter] == requested

    def _command(self, place: SettingPlace, values: Mapping[str, str]) -> str:
        words = " ".join(f"{self.word(name)} {value}" for name, value in values.items())
        return f"ethtool {self.sets} {place.device} {words}"

    def word(self, name: str) -> str:
        """Return the parameter's name on the command line."""
        return name


class Ring(EthtoolSetting):
    """The descriptors in the ``rx`` or ``tx`` ring. A driver may round their number, and reopen the device (macb)."""

    form = "a number of descriptors such as 1024"
    disruptive = True
    sets = "-G"

    def __init__(self, way: str) -> None:
        self.name = f"ring_{way}"
        self.parameter = way

    def parse(self, value: object) -> str:
        return whole(value, self.form, 1, 1 << 20)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = fields(ask(place, "-g"), "Current hardware settings")
        values = {way: found[way.upper()] for way in ("rx", "tx") if way.upper() in found}
        if self.parameter not in values:
            raise NoKnob(f"the driver of {place.device} does not report its {self.parameter} ring")
        return SettingReading(values, values[self.parameter])


RX, TX = Ring("rx"), Ring("tx")


# Matches, for example, "Adaptive RX: off  TX: on".
_ADAPTIVE = re.compile(r"^Adaptive RX: (\S+)\s+TX: (\S+)", re.MULTILINE)
_NUMBERS = ("rx-usecs", "tx-usecs", "rx-frames", "tx-frames")
_SWITCHES = ("adaptive-rx", "adaptive-tx")
COALESCING = (*_NUMBERS, *_SWITCHES)


class Coalescing(EthtoolSetting):
    """How long a NIC waits before an interrupt, or for how many frames: one ``parameter`` of ``ethtool -C``."""

    sets = "-C"
    # The undo that is prepared before the change sets only this parameter: a driver refuses parameters that it does
    # not have, even with the values that it shows.
    undoes_all = False

    def __init__(self, parameter: str) -> None:
        self.name = parameter.replace("-", "_")
        self.parameter = parameter
        unit = "microseconds" if parameter.endswith("usecs") else "frames"
        self.form = "'on' or 'off'" if parameter in _SWITCHES else f"a number of {unit} such as 64"

    def parse(self, value: object) -> str:
        return switch(value) if self.parameter in _SWITCHES else whole(value, self.form, 0, 1_000_000)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        output = ask(place, "-c")
        found = {name: value for name, value in fields(output).items() if name in _NUMBERS}
        adaptive = _ADAPTIVE.search(output)
        if adaptive is not None:
            found.update({name: word for name, word in zip(_SWITCHES, adaptive.groups(), strict=True) if word != "n/a"})
        if self.parameter not in found:
            raise NoKnob(f"the driver of {place.device} has no {self.parameter}")
        return SettingReading(found, found[self.parameter])


RX_USECS, TX_USECS, RX_FRAMES, TX_FRAMES, ADAPTIVE_RX, ADAPTIVE_TX = map(Coalescing, COALESCING)


# Matches, for example, "generic-receive-offload: on [fixed]". An indented line belongs to the group above it.
_LINE = re.compile(r"^(\t?) *([\w-]+): (on|off)((?: \[[^\]]+\])*)\s*$", re.MULTILINE)
# Lines of ``ethtool -k``, with their short names of ``ethtool -K`` and the kernel's names: one with a ``*`` stands for
# several features.
_NAMES = {
    "rx-checksumming": ("rx", "rx-checksum"),
    "tx-checksumming": ("tx", "tx-checksum-*"),
    "scatter-gather": ("sg", "tx-scatter-gather*"),
    "tcp-segmentation-offload": ("tso", "tx-tcp*-segmentation"),
    "generic-segmentation-offload": ("gso", "tx-generic-segmentation"),
    "generic-receive-offload": ("gro", "rx-gro"),
    "large-receive-offload": ("lro", "rx-lro"),
    "rx-vlan-offload": ("rxvlan", "rx-vlan-hw-parse"),
    "tx-vlan-offload": ("txvlan", "tx-vlan-hw-insert"),
    "ntuple-filters": ("ntuple", "rx-ntuple-filter"),
    "receive-hashing": ("rxhash", "rx-hashing"),
}


def kernel_feature(name: str) -> str | None:
    """Return the kernel's name of a feature that ``ethtool -K`` knows, short or long; None if there is no such feature.

    It has a ``*`` if the name stands for several features.
    """
    known = next((of_kernel for line, (short, of_kernel) in _NAMES.items() if name in (line, short)), None)
    return known or (name if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name) else None)


@dataclass(frozen=True)
class _Feature:
    """A line of ``ethtool -k``. ``group`` means that the features below this line hold the real state."""

    state: str
    fixed: bool
    group: bool


def features(output: str) -> dict[str, _Feature]:
    """Parse all lines of ``ethtool -k``."""
    lines = _LINE.findall(output)
    found = {}
    for number, (indent, name, state, marks) in enumerate(lines):
        group = not indent and number + 1 < len(lines) and bool(lines[number + 1][0])
        found[name] = _Feature(state, "[fixed]" in marks, group)
    return found


class Offload(EthtoolSetting):
    """One offload. ``name`` is its name in ``tuning=`` (``tso``), ``feature`` its line in ``ethtool -k``.

    One offload can change others (tso off also turns tso6 off).
    """

    form = SWITCH_FORM
    sets = "-K"

    def __init__(self, name: str, feature: str) -> None:
        self.name = name
        self.parameter = feature

    def parse(self, value: object) -> str:
        return switch(value)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = features(ask(place, "-k"))
        own = found.get(self.parameter)
        if own is None:
            raise NoKnob(f"the driver of {place.device} does not report {self.parameter}")
        if own.fixed and own.state != requested:
            raise NoKnob(f"{self.parameter} of {place.device} is always {own.state} ([fixed])")
        # Fixed features never change. A group changes with the features in it.
        others = {name: f.state for name, f in found.items() if not (f.fixed or f.group)}
        # The group first, so that an undo writes the values of its features last, and they stay.
        return SettingReading({self.parameter: own.state} | others, own.state)

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        different = {n: v for n, v in before.values.items() if after is None or after.values.get(n) != v}
        if self.parameter in different:
            # A group that is written also sets features that were off before and after. So all are written after it.
            different = dict(before.values)
        return self._command(place, different) if different else "true"

    def word(self, name: str) -> str:
        return _NAMES[name][0] if name in _NAMES else name


TSO = Offload("tso", "tcp-segmentation-offload")
GSO = Offload("gso", "generic-segmentation-offload")
GRO = Offload("gro", "generic-receive-offload")
LRO = Offload("lro", "large-receive-offload")
SG = Offload("sg", "scatter-gather")
RX_CHECKSUM = Offload("rx_checksum", "rx-checksumming")
TX_CHECKSUM = Offload("tx_checksum", "tx-checksumming")
RX_HASH = Offload("rx_hash", "receive-hashing")


class Eee(EthtoolSetting):
    """Energy-Efficient Ethernet: the link sleeps between packets. A change makes the link negotiate again."""

    name = parameter = "eee"
    form = SWITCH_FORM
    disruptive = True
    sets = "--set-eee"

    def parse(self, value: object) -> str:
        return switch(value)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        status = fields(ask(place, "--show-eee")).get("EEE status", "")
        if not status.startswith(("enabled", "disabled")):
            raise NoKnob(f"EEE of {place.device} is {status or 'not reported by its driver'}")
        return SettingReading({self.parameter: "on" if status.startswith("enabled") else "off"}, status)

    def effect(self, place: SettingPlace, requested: str) -> str:
        status = self.read(place, requested).text
        return f"the link partner does not use EEE: {status}" if status.endswith("inactive") else ""


_WAYS = {"on": ("on", "on"), "off": ("off", "off"), "rx": ("on", "off"), "tx": ("off", "on")}
_KNOBS = {"autoneg": "Autonegotiate", "rx": "RX", "tx": "TX"}


class FlowControl(DeviceSetting):
    """Pause frames: with ``rx`` the NIC obeys them, with ``tx`` it sends them. The negotiated result counts."""

    name = "flow_control"
    form = "'on', 'off', 'rx' or 'tx'"
    disruptive = True

    def parse(self, value: object) -> str:
        word = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        return one_of(word, tuple(_WAYS), self.form)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = fields(ask(place, "-a"))
        values = {word: found[label] for word, label in _KNOBS.items() if label in found}
        if "rx" not in values or "tx" not in values:
            raise NoKnob(f"the driver of {place.device} does not support the pause settings of `ethtool -a`")
        return SettingReading(values, f"rx {values['rx']}, tx {values['tx']}")

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        rx, tx = _WAYS[requested]
        return f"ethtool -A {place.device} rx {rx} tx {tx}"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        return f"ethtool -A {place.device} " + " ".join(f"{word} {value}" for word, value in before.values.items())

    def holds(self, requested: str, now: SettingReading) -> bool:
        return (now.values["rx"], now.values["tx"]) == _WAYS[requested]

    def effect(self, place: SettingPlace, requested: str) -> str:
        found = fields(ask(place, "-a"))
        agreed = tuple(found.get(f"{way} negotiated") for way in ("RX", "TX"))
        if found.get("Autonegotiate") != "on" or None in agreed or agreed == _WAYS[requested]:
            return ""
        return f"the switch port did not agree: negotiated rx {agreed[0]}, tx {agreed[1]}"


# Bits of link modes that are restored (include/uapi/linux/ethtool.h).
_MODES = {
    "10baseT/Half": 0,
    "10baseT/Full": 1,
    "100baseT/Half": 2,
    "100baseT/Full": 3,
    "1000baseT/Half": 4,
    "1000baseT/Full": 5,
    "10000baseT/Full": 12,
    "2500baseT/Full": 47,
    "5000baseT/Full": 48,
}
# Pause and Asym_Pause, as ethtool shows them.
_PAUSE = {"Symmetric": 1 << 13, "Symmetric Receive-only": 3 << 13, "Transmit-only": 1 << 14}
HALF = "-half"
SPEEDS = ("10", "100", "1000", "2500", "5000", "10000", f"10{HALF}", f"100{HALF}")


class Speed(DeviceSetting):
    """The only speed (Mbit/s; full duplex, or ``-half``) that the NIC advertises. The link negotiates again."""

    name = "speed"
    form = f"a speed in Mbit/s: {', '.join(SPEEDS[:-1])} or {SPEEDS[-1]}"
    disruptive = True

    def parse(self, value: object) -> str:
        return one_of(str(value) if type(value) is int else value, SPEEDS, self.form)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        output = ask(place, "")
        found = fields(output)
        if found.get("Auto-negotiation") != "on":
            raise NoKnob(f"{place.device} does not negotiate its speed")
        modes, supported = (_modes(output, label) for label in ("Advertised", "Supported"))
        if unknown := [mode for mode in modes if mode not in _MODES]:
            raise NoKnob(f"{place.device} advertises {unknown[0]}, which could not be restored")
        if _mode(requested) not in supported:
            raise NoKnob(f"{place.device} does not support {_mode(requested)}")
        values = {"modes": " ".join(modes), "pause": found.get("Advertised pause frame use", "No")}
        link = {"speed": found.get("Speed", "").rstrip("Mb/s"), "duplex": found.get("Duplex", "").lower()}
        return SettingReading(values, f"advertises {values['modes']}", link)

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        return self._command(place, [_mode(requested)], before, *_link(requested))

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        return self._command(place, before.values["modes"].split(), before, *_words(before))

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values["modes"] == _mode(requested)

    def effect(self, place: SettingPlace, requested: str) -> str:
        now = _words(self.read(place, requested))
        if now == _link(requested):
            return ""
        return f"driver or switch port did not follow: the link runs at {now[0]} Mbit/s, {now[1]} duplex"

    @staticmethod
    def _command(place: SettingPlace, modes: Sequence[str], before: SettingReading, speed: str, duplex: str) -> str:
        """Advertise these modes, and wait up to about 8 s for the link: the old link stays up for a while."""
        mask = sum(1 << _MODES[mode] for mode in modes) | _PAUSE.get(before.values["pause"], 0)
        follows = f"read -r s <{place.sysfs}/speed && read -r d <{place.sysfs}/duplex"
        follows += f' && [ "$s $d" = "{speed} {duplex}" ]'
        wait = f"n=0; until {{ {follows}; }} 2>/dev/null || [ $n = 80 ]; do sleep 0.1; n=$((n+1)); done"
        return f"ethtool -s {place.device} advertise 0x{mask:x} && {{ {wait}; }}"


def _mode(requested: str) -> str:
    speed, duplex = _link(requested)
    return f"{speed}baseT/{duplex.capitalize()}"


def _link(requested: str) -> tuple[str, str]:
    """Return the speed and the duplex of a value."""
    return requested.removesuffix(HALF), "half" if requested.endswith(HALF) else "full"


def _words(now: SettingReading) -> tuple[str, str]:
    return now.context["speed"], now.context["duplex"]


def _modes(output: str, label: str) -> list[str]:
    """Return the link modes of ``ethtool``, which stand on the label's line and on lines without a label after it."""
    found: list[str] = []
    inside = False
    for line in output.splitlines():
        name, colon, modes = line.partition(":")
        inside = name.strip() == f"{label} link modes" if colon else inside
        if inside:
            found += (modes if colon else line).split()
    return found
