"""A lab together with its file's settings for judging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_pinet.errors import Where
from pytest_pinet.judge.profile import DEFAULT_PROFILE
from pytest_pinet.model.lab import Lab


@dataclass(frozen=True)
class LabOfFile(Lab):
    """The result of ``labfile.load``.

    ``profile`` is a name of PROFILES. ``baselines`` is the folder of the accepted baselines. ``baselines_where`` is the
    place that names this folder (None: the default folder, which need not exist). ``calibration`` is the file that
    ``pinet calibrate`` writes, which need not exist either. ``packaged_calibration`` is what a packaged lab may come
    with; it is never written. ``unset`` are the variables of templates that are not set, with their first place; a
    launcher sets its own. ``commits`` is the URL of a commit, with ``{commit}`` in the place of its hash.
    """

    profile: str = DEFAULT_PROFILE
    baselines: Path = field(default=Path("baselines"))
    baselines_where: Where | None = None
    calibration: Path = field(default=Path("lab.calibration.yaml"))
    packaged_calibration: Path | None = None
    commits: str = ""
    unset: Mapping[str, Where] = field(default_factory=dict)
