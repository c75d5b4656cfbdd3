"""Computes a metric's noise from its connections, and the tolerance that the noise allows. This module does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date

from pytest_pinet.config.calibration import Calibration, MeasuredNoise
from pytest_pinet.judge.components import Component, Components, components, is_steady
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.spread import Proposal, propose
from pytest_pinet.judge.text import percent
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.quantities import Bitrate, Share

ERROR_RATE = 0.01


@dataclass(frozen=True)
class CalibrationOutcome:
    """The result for one metric. ``seconds``: traffic for a verdict at the proposed tolerance."""

    goodput: Bitrate
    components: Components
    calibration: Calibration
    proposal: Proposal
    seconds: float

    def as_json(self) -> dict[str, object]:
        parts = asdict(self.components)
        return {
            "id": self.calibration.id,
            "goodput_bps": self.goodput.bps,
            "noise": {level: parts[level] for level in ("connections", "links", "boots")},
            "runs": self.components.figures,
            "disturbed": self.components.disturbed,
            "tolerance": self.proposal.tolerance,
            "repeats": self.proposal.repeats,
            "traffic_seconds": self.seconds,
            "margin": self.proposal.margin,
            "date": self.calibration.date.isoformat(),
            "build": dict(self.calibration.build),
        }


def outcome(
    figure: str, connections: Sequence[Connection], profile: Profile, today: date, build: Mapping[str, str | None]
) -> CalibrationOutcome:
    """Return noise, tolerance, repeats and margin of a metric. Raises ValueError if too few attempts gave a value.

    For link-ups and boots the estimate is often 0 by chance. Their upper bound with 70 % certainty is kept instead
    (`components.CAUTION`). The proposal uses the noise that a gate will read from the file, so that both agree.
    """
    parts = components(connections)
    nothing = Share(0.0)
    calibration = Calibration(
        figure,
        MeasuredNoise(
            Share(parts.connections.sd),
            None if parts.links is None else Share(parts.links.at_most),
            None if parts.boots is None else Share(parts.boots.at_most),
            runs=parts.figures,
            link_ups=max(1, parts.figures - parts.connections.freedom),
        ),
        nothing,
        1,
        nothing,
        today,
        build,
    )
    (proposal,) = propose(calibration.judged_noise, profile, (ERROR_RATE,))
    calibration = replace(
        calibration,
        tolerance=Share(proposal.tolerance),
        repeats=proposal.repeats,
        margin=Share(proposal.margin),
    )
    counted = [connection for connection in connections if is_steady(connection)]
    goodput = Bitrate(sum(connection.goodput.bps for connection in counted) / len(counted))
    return CalibrationOutcome(goodput, parts, calibration, proposal, proposal.repeats * float(profile.connection_s))


def table(outcomes: Iterable[CalibrationOutcome]) -> list[str]:
    """Return the lines for each metric, in 80 columns: goodput, noise and its consequences, connections left out."""
    lines = [
        "result, goodput",
        "  noise (degrees of freedom) of                  at 1 % errors",
        "  connections   link-ups      boots         tolerance  repeats  traffic  margin",
    ]
    for one in outcomes:
        parts, proposal = one.components, one.proposal
        lines.append(f"{one.calibration.id}, {one.goodput}")
        noise = "".join(
            f"{text:<14}"
            for text in (
                _shown(parts.connections, parts.connections.sd, ""),
                _shown(parts.links, parts.links.at_most if parts.links else 0.0, "<= "),
                _shown(parts.boots, parts.boots.at_most if parts.boots else 0.0, "<= "),
            )
        )
        lines.append(
            f"  {noise}{percent(proposal.tolerance):<9}  {proposal.repeats:>7}  {one.seconds:>5.0f} s"
            f"  {percent(proposal.margin):>6}"
        )
        if parts.disturbed:
            of = parts.figures + parts.disturbed
            lines.append(f"  left out: {parts.disturbed} of {of} connections, which stalled or were disturbed")
    return lines


def _shown(component: Component | None, value: float, mark: str) -> str:
    return "-" if component is None else f"{mark}{percent(value)} ({component.freedom})"
