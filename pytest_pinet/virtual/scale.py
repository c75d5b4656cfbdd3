"""At which share of their rate a machine can carry the links of a virtual lab: tried out once, never guessed.

A trial takes half a second on a machine that is fast enough and 2 s on one that is not (``virtual.trial``). What it
said is kept for this host, so that only the first lab with a faster link takes the next one.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_pinet.errors import LabError, LeaseError
from pytest_pinet.lab.contention import all_domains, exclusive, lab_key
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.scale import Scale
from pytest_pinet.virtual.trial import ENOUGH

SMALL = 0.1
# For the machine to be free of measurements of others, which a trial would disturb; and for the trial itself.
PATIENCE_S = 1.0
TRIAL_S = 15.0
# A machine that was too slow may have been busy, and one that was not may have lost its processors to others.
SLOW_FOR, FAST_FOR = timedelta(days=1), timedelta(days=30)


@dataclass(frozen=True)
class Trial:
    """At ``at`` (ISO 8601, UTC) TCP got ``part`` of a link of the layer 2 rate ``rate_bps``."""

    rate_bps: float
    part: float
    at: str

    @property
    def enough(self) -> bool:
        return self.part >= ENOUGH

    def __str__(self) -> str:
        # A bucket lets a little more pass after a moment in which nothing came.
        return f"this machine carried {min(1.0, self.part) * 100:.3g} % of {Bitrate(self.rate_bps)} on {self.at[:10]}"


class Trials:
    """Those of this host; a host that got another kernel or other processors begins anew."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or _folder() / f"trials-{platform.node() or 'here'}.json"
        self._machine = f"{platform.release()} {platform.machine()}, {len(os.sched_getaffinity(0))} processors"

    def read(self) -> list[Trial]:
        """None where there is no file, or one that nobody can read."""
        try:
            told = json.loads(self._path.read_text(encoding="utf-8"))
            if told["machine"] != self._machine:
                return []
            return [Trial(float(one["rate_bps"]), float(one["part"]), str(one["at"])) for one in told["trials"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def of(self, rate_bps: float) -> Trial | None:
        """The one that tells of a link of this rate: of a faster one that was carried, or a slower one that was not."""
        now = datetime.now(UTC)
        for one in reversed(self.read()):
            tells = one.rate_bps >= 0.999 * rate_bps if one.enough else one.rate_bps <= 1.001 * rate_bps
            if tells and one.at > (now - (FAST_FOR if one.enough else SLOW_FOR)).isoformat():
                return one
        return None

    def add(self, trial: Trial) -> None:
        """Keep it instead of those of this rate; where that cannot be, the next lab tries again."""
        others = [one for one in self.read() if one.rate_bps != trial.rate_bps]
        told = {"machine": self._machine, "trials": [asdict(one) for one in (*others, trial)]}
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
            draft.replace(self._path)


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "pytest-pinet"


def found_scale(lab: Lab, fastest_bps: float, root: Sequence[str], trials: Trials | None = None) -> Scale:
    """Full rate on a machine that carries the lab's fastest link, SMALL on one that was tried and does not.

    ``root`` are the words that make a command run as root. Raises LabError when the trial fails.
    """
    if fastest_bps <= 0:
        return Scale(1.0, "no two of its NICs reach each other")
    trials = trials or Trials()
    known = trials.of(fastest_bps)
    if known is not None:
        return scale_for(known)
    domains = [name for name, members in all_domains(lab).items() if set(lab.nodes) <= set(members)]
    try:
        with exclusive(lab_key(lab, ""), domains, PATIENCE_S, lambda _: None):
            found = Trial(fastest_bps, _tried(fastest_bps, root), datetime.now(UTC).isoformat(timespec="seconds"))
    except LeaseError:
        return Scale(1.0, "not tried: somebody else measures on this machine")
    trials.add(found)
    return scale_for(found)


def scale_for(trial: Trial) -> Scale:
    """What follows from a trial."""
    return Scale(1.0 if trial.enough else SMALL, str(trial))


def _tried(rate_bps: float, root: Sequence[str]) -> float:
    argv = [*root, sys.executable, "-m", "pytest_pinet.virtual.trial", f"{rate_bps:.0f}"]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=TRIAL_S, cwd="/")
    except subprocess.TimeoutExpired:
        return 0.0
    try:
        return float(done.stdout)
    except ValueError:
        raise LabError(
            f"what this machine carries could not be tried out: {done.stderr.strip() or 'no answer'}",
            "write 'scale: 0.1' or 'scale: 1' into the lab file",
        ) from None
