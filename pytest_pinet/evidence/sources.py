"""The seam of evidence that is read before and after traffic: one file a source, and all of them here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pytest_pinet.model.evidence import EndEvidence


@dataclass(frozen=True)
class Texts:
    """What one source printed before and after; empty where it printed nothing, that is, where there is none."""

    before: str
    after: str


class Source(Protocol):
    """One place that a node tells something, such as ``/proc/net/softnet_stat``."""

    @property
    def name(self) -> str:
        """Of its files in the run folder, and of the marker before its text; a word."""

    def files(self, device: str) -> Sequence[str]:
        """The files under /proc or /sys that tell it, shell patterns among them; none where it takes a command.

        All sources' are read by one process. Lines of those under /sys begin with their file and a colon.
        """

    def command(self, device: str) -> str:
        """Shell commands that print the rest, in as few processes as can be; empty where files are all.

        ``$since`` is where the kernel's log ended at the first reading (its seconds since boot), and empty during that
        one. What is not there prints nothing.
        """

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        """The evidence with the differences between both texts; as it was where they tell nothing. Never raises."""


def added(evidence: EndEvidence, source: str, **found: Any) -> EndEvidence:
    """The evidence with these fields; None, where the text was there, is a counter that began anew."""
    anew = any(value is None for value in found.values())
    return replace(evidence, **found, restarted=(*evidence.restarted, source) if anew else evidence.restarted)
