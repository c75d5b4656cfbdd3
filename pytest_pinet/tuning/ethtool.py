"""Run ``ethtool`` and read its output; the common part of settings that one of its options changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pytest_pinet.execution.shell import reason
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading

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
