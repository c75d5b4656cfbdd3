"""The request of one test: boards, NICs, topologies, tunings and limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.topology import Topology
from pytest_pinet.model.tuning import Tuning


@dataclass(frozen=True)
class Request:
    """The request of one test: globs for boards and NICs, topologies, tunings, and the limits of its marker.

    ``reset``: the nodes are power-cycled before the test. ``profile`` is a name of PROFILES (None: not requested).
    ``tuning_required``: a tuning that does not take effect ends the test.
    """

    boards: tuple[str, ...]
    nics: tuple[str, ...]
    topologies: tuple[Topology, ...]
    limits: tuple[Limit, ...]
    reset: bool = False
    profile: str | None = None
    tunings: tuple[Tuning, ...] = (Tuning(),)
    tuning_required: bool = False

    def limits_for(self, combination: Combination) -> tuple[Limit, ...]:
        """Return the marker's limits for one combination. A board or NIC without a wildcard counts as named."""

        def narrow(globs: tuple[str, ...], value: str) -> str:
            return "*" if any(set(glob) & set("*?[") for glob in globs) else value

        return tuple(
            replace(limit, board=narrow(self.boards, combination.board), nic=narrow(self.nics, combination.nic))
            for limit in self.limits
        )
