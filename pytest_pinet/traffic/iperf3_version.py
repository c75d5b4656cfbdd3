"""Which iperf3 can do what, asked before traffic starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pytest_pinet.errors import UnsupportedError
from pytest_pinet.model.traffic import Direction, Traffic

_TEXT = re.compile(r"\biperf (\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, order=True)
class Version:
    """An iperf3 version; upstream numbers them 3.9, 3.10, 3.17.1."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read ``iperf3 --version`` or the JSON's ``start.version`` (both say ``iperf 3.12``). Raises ValueError."""
        match = _TEXT.search(text)
        if match is None:
            raise ValueError(f"{text[:80]!r} does not name an iperf version such as 'iperf 3.12'")
        major, minor, patch = match.groups()
        return cls(int(major), int(minor), int(patch or 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (f".{self.patch}" if self.patch else "")

    @property
    def threaded(self) -> bool:
        """Whether each stream has a thread; figures of CPU-bound boards do not compare across this line."""
        return self >= Version(3, 16)


@dataclass(frozen=True)
class Feature:
    """Something that not every iperf3 can do. ``asked`` tells whether a Traffic needs it."""

    option: str
    since: Version
    why: str
    asked: Callable[[Traffic], bool]


# Versions from the release notes; why --bidir counts only from 3.11 was seen in recorded outputs. What 3.7 and all
# later versions have (-R -P -w -M -l -b -u -C -B -i --connect-timeout -1 -J) needs no line of its own.
FEATURES: tuple[Feature, ...] = (
    Feature("iperf3", Version(3, 7), "outputs of older versions are unknown to us", lambda _: True),
    Feature(
        "--bidir",
        Version(3, 11),
        "3.7 to 3.10 repeat JSON keys, so that one direction is lost",
        lambda traffic: traffic.direction is Direction.BIDIR,
    ),
)
BIND_DEV = Feature("--bind-dev", Version(3, 10), "older versions do not know it", lambda _: True)


def check(
    traffic: Traffic,
    client: Version,
    server: Version,
    names: tuple[str, str] = ("client", "server"),
    extra: tuple[Feature, ...] = (),
) -> None:
    """Refuse what one of the two iperf3 cannot do. ``names`` are those of the ends, in the same order.

    Raises UnsupportedError with the option, both versions found and the version needed.
    """
    for feature in FEATURES + extra:
        if feature.asked(traffic) and min(client, server) < feature.since:
            raise UnsupportedError(
                f"{feature.option} needs iperf3 {feature.since} or newer on both ends ({feature.why}): "
                f"{names[0]} has {client}, {names[1]} has {server}"
            )
