"""What users have decided about the metrics of a lab, in files that are reviewed: baselines and acknowledged losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.config.acknowledged import Acknowledgement, read_acknowledged
from pytest_pinet.config.baselines import ACKNOWLEDGED, AcceptedBaseline, load_baselines
from pytest_pinet.config.schema import LabOfFile


@dataclass(frozen=True)
class Reviewed:
    """The baselines and the acknowledged losses of the lab with the name ``lab``, by the ID of their metric."""

    lab: str = ""
    baselines: Mapping[str, AcceptedBaseline] = field(default_factory=dict)
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)

    def baseline(self, figure: str, lab: str) -> AcceptedBaseline | None:
        """Return the baseline of a metric. A history may have other labs, which have files of their own."""
        return self.baselines.get(figure) if lab == self.lab else None

    def acknowledgement(self, figure: str, lab: str) -> Acknowledgement | None:
        """Return the acknowledged loss of a metric."""
        return self.acknowledged.get(figure) if lab == self.lab else None


def load_reviewed(lab: LabOfFile) -> Reviewed:
    """Return what the files of a lab say. Raises ConfigError."""
    return Reviewed(lab.name, load_baselines(lab), read_acknowledged(lab.baselines / ACKNOWLEDGED))
