"""Read the sockets of both ends once, in the middle of the traffic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_pinet.evidence.sockets import ask_sockets, parse_sockets
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic.tool import Watch


@dataclass
class MidRunProbe:
    """Reads the sockets at both ends of each flow once, ``after_s`` into the traffic. ``look`` is called throughout.

    The read delays a slow receiver, which then counts some bytes late. So the read must not fall on the begin or end of
    the counted time. ``ends`` are the sender and the receiver of each direction. A run that ends earlier leaves nothing
    to ``add``.
    """

    ends: Mapping[Direction, tuple[Shell, Shell]]
    port: int
    streams: int
    after_s: float
    watch: Watch | None = None
    _said: dict[int, str] = field(default_factory=dict)
    _begun: float | None = None

    def look(self) -> None:
        """Call the caller's watch, and read the sockets when it is time."""
        if self.watch is not None:
            self.watch()
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
        if self._said or not self.ends or now < self._begun + self.after_s:
            return
        shells = {id(shell): shell for pair in self.ends.values() for shell in pair}
        self._said = {key: ask_sockets(shell, self.port) for key, shell in shells.items()}

    @property
    def raw(self) -> dict[str, str]:
        """The output of ``ss`` by file name, of the sender and the receiver of the first direction."""
        shells = next(iter(self.ends.values()), ())
        said = zip(("sender", "receiver"), (self._said.get(id(shell), "") for shell in shells), strict=False)
        return {f"{role}-sockets.txt": text for role, text in said if text}

    def add(self, flows: Mapping[Direction, Flow]) -> dict[Direction, Flow]:
        """Return the flows with the values from the kernels of their ends."""
        found = dict(flows)
        for way, (sender, receiver) in self.ends.items():
            if way in found and self._said:
                found[way] = replace(
                    found[way],
                    sockets=parse_sockets(self._said[id(sender)], self.streams),
                    far_sockets=parse_sockets(self._said[id(receiver)], self.streams, receiving=True),
                )
        return found
