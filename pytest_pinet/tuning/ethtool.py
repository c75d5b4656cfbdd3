"""How settings ask ``ethtool``, and what its output says."""

from __future__ import annotations

from pytest_pinet.tuning.files import reason
from pytest_pinet.tuning.setting import NoKnob, Place

NOT_FOUND = 127
# What a driver does not tell.
_NOTHING = ("n/a", "")


def ask(place: Place, option: str) -> str:
    """What ``ethtool OPTION DEVICE`` prints. Raises NoKnob where the driver has no such setting."""
    done = place.ask(f"ethtool {option} {place.device}")
    if done.returncode == NOT_FOUND:
        raise NoKnob(f"{place.node} has no ethtool (sudo apt-get install ethtool)")
    if done.returncode:
        raise NoKnob(f"'ethtool {option} {place.device}': {reason(done.stderr or done.stdout)}")
    return done.stdout


def fields(output: str, after: str = "") -> dict[str, str]:
    """``name: value`` of each line behind the one that starts with ``after``, without what a driver does not tell."""
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
