"""The share of the full rate at which this machine can carry the links of a virtual lab. It is measured, not guessed.

A trial takes 0.5 s on a fast machine and 2 s on a slow one (``virtual.speed_probe``). The result is stored for this
host, so that only the first lab with a faster link needs another trial.
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
from pytest_pinet.lab.queue.contention import all_domains, exclusive, lab_key
from pytest_pinet.model.lab import Lab, Scale
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.virtual.speed_probe import ENOUGH

SMALL = 0.1
# Time limits: until no other measurement runs on the machine, which a trial would disturb; and for the trial itself.
PATIENCE_S = 1.0
TRIAL_S = 15.0
# Results expire: a slow machine may only have been busy, and a fast one may lose its processors to other work.
SLOW_FOR, FAST_FOR = timedelta(days=1), timedelta(days=30)


@dataclass(frozen=True)
class Trial:
    """The result of a trial: at ``at`` (ISO 8601, UTC), TCP got ``part`` of the layer 2 rate ``rate_bps``."""

    rate_bps: float
    part: float
    at: str

    @property
    def enough(self) -> bool:
        return self.part >= ENOUGH

    def __str__(self) -> str:
        # The part can exceed 1 a little, because a token bucket lets more pass after an idle moment.
        return f"this machine carried {min(1.0, self.part) * 100:.3g} % of {Bitrate(self.rate_bps)} on {self.at[:10]}"


class Trials:
    """The trials of this host. A new kernel or a different number of processors makes old trials invalid."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or _folder() / f"trials-{platform.node() or 'here'}.json"
        self._machine = f"{platform.release()} {platform.machine()}, {len(os.sched_getaffinity(0))} processors"

    def read(self) -> list[Trial]:
        """Return the stored trials. Empty if the file is missing, not readable, or of another machine."""
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            if stored["machine"] != self._machine:
                return []
            return [Trial(float(one["rate_bps"]), float(one["part"]), str(one["at"])) for one in stored["trials"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def of(self, rate_bps: float) -> Trial | None:
        """Return a valid trial for this rate: a faster link that was carried, or a slower link that was not."""
        now = datetime.now(UTC)
        for one in reversed(self.read()):
            applies = one.rate_bps >= 0.999 * rate_bps if one.enough else one.rate_bps <= 1.001 * rate_bps
            if applies and one.at > (now - (FAST_FOR if one.enough else SLOW_FOR)).isoformat():
                return one
        return None

    def add(self, trial: Trial) -> None:
        """Store a trial instead of old ones of the same rate. If storing fails, the next lab runs a new trial."""
        others = [one for one in self.read() if one.rate_bps != trial.rate_bps]
        stored = {"machine": self._machine, "trials": [asdict(one) for one in (*others, trial)]}
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
            draft.replace(self._path)


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "pytest-pinet"


def measured_scale(lab: Lab, fastest_bps: float, root: Sequence[str], trials: Trials | None = None) -> Scale:
    """Return full rate if this machine carries the lab's fastest link, SMALL if a trial shows that it does not.

    Without a trial, because of another measurement, the rate is full. ``root`` is the command prefix that runs a
    command as root. Raises LabError if the trial fails.
    """
    if fastest_bps <= 0:
        return Scale(1.0, "no two NICs of the lab are connected")
    trials = trials or Trials()
    known = trials.of(fastest_bps)
    if known is not None:
        return scale_for(known)
    domains = [name for name, members in all_domains(lab).items() if set(lab.nodes) <= set(members)]
    try:
        with exclusive(lab_key(lab, ""), domains, PATIENCE_S, lambda _: None):
            found = Trial(fastest_bps, _run_trial(fastest_bps, root), datetime.now(UTC).isoformat(timespec="seconds"))
    except LeaseError:
        return Scale(1.0, "not measured: another measurement runs on this machine")
    trials.add(found)
    return scale_for(found)


def scale_for(trial: Trial) -> Scale:
    """Return the scale that follows from a trial."""
    return Scale(1.0 if trial.enough else SMALL, str(trial))


def _run_trial(rate_bps: float, root: Sequence[str]) -> float:
    argv = [*root, sys.executable, "-m", "pytest_pinet.virtual.speed_probe", f"{rate_bps:.0f}"]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=TRIAL_S, cwd="/")
    except subprocess.TimeoutExpired:
        return 0.0
    try:
        return float(done.stdout)
    except ValueError:
        raise LabError(
            f"the trial of the link rates on this machine failed: {done.stderr.strip() or 'no output'}",
            "write 'scale: 0.1' or 'scale: 1' into the lab file",
        ) from None
