"""Run ``ethtool`` and read its output."""

from __future__ import annotations

from pytest_pinet.tuning.files import reason
from pytest_pinet.tuning.setting import NoKnob, SettingPlace

NOT_FOUND = 127
# Values of fields that a driver does not report.
_NOTHING = ("n/a", "")


def ask(place: SettingPlace, option: str) -> str:
    """Return the output of ``ethtool OPTION DEVICE``. Raises NoKnob if the driver does not support the option."""
    done = place.ask(f"ethtool {option} {place.device}")
    if done.returncode == NOT_FOUND:
        raise NoKnob(f"{place.node} has no ethtool (sudo apt-get install ethtool)")
    if done.returncode:
        raise NoKnob(f"'ethtool {option} {place.device}': {reason(done.stderr or done.stdout)}")
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
