"""The interface of evidence sources, which are read before and after traffic, and the list of installed sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, cast

from pytest_pinet.errors import ConfigError
from pytest_pinet.evidence.counting import is_count, rises_by_cpu
from pytest_pinet.execution.entry_points import EVIDENCE_SOURCES
from pytest_pinet.model.evidence import EndEvidence

# Order of our sources after traffic. Before traffic the order is reversed. The CPU load is read nearest to the traffic,
# so that it does not include the cost of other readings. Sources of other packages are read farthest away.
ORDER = ("stat", "softirqs", "interrupts", "softnet", "interface", "ethtool", "heat", "kernel")


@dataclass(frozen=True)
class Texts:
    """The output of one source before and after traffic; empty if the source printed nothing or is missing."""

    before: str
    after: str


class EvidenceSource(Protocol):
    """One source of evidence on a node, such as ``/proc/net/softnet_stat``."""

    @property
    def name(self) -> str:
        """One word that names the source's files in the run folder, and the marker before its text."""

    def files(self, device: str) -> Sequence[str]:
        """Return the files to read under /proc or /sys, with shell patterns; none if the source needs a command.

        One process reads the files of all sources. Lines of files under /sys begin with the file name and a colon.
        """
        return ()

    def command(self, device: str) -> str:
        """Return shell commands that print all other evidence, with as few processes as possible; empty if not needed.

        ``$since`` is the time stamp (seconds since boot) at which the kernel's log ended at the first reading. It is
        empty during that reading. A missing file or tool must print nothing.
        """
        return ""

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        """Return the evidence with the differences between both texts; unchanged if they show none. Never raises."""


def added(evidence: EndEvidence, source: str, **found: Any) -> EndEvidence:
    """Return the evidence with these fields. The value None means that a counter restarted between both readings."""
    anew = any(value is None for value in found.values())
    return replace(evidence, **found, restarted=(*evidence.restarted, source) if anew else evidence.restarted)


class CpuCounters(EvidenceSource, ABC):
    """A source with counters per CPU in one file. The differences go into the field of EndEvidence that ``name`` names.

    ``only_growing``: counters that did not grow on any CPU are left out.
    """

    name: str
    file: str
    only_growing = False

    def files(self, device: str) -> Sequence[str]:
        return (self.file,)

    @abstractmethod
    def parse(self, text: str) -> dict[str, dict[int, int]]:
        """Return the counts by name and CPU; empty if the text is not of this file."""

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = self.parse(texts.before), self.parse(texts.after)
        if not before or not after:
            return evidence
        found = rises_by_cpu(before, after)
        if found is not None and self.only_growing:
            found = {name: counts for name, counts in found.items() if any(counts)}
        return added(evidence, self.name, **{self.name: found})


def cpu_table(text: str) -> Iterator[tuple[str, dict[int, int], str]]:
    """Yield the name, the counts by CPU and the rest of each line below a header such as ``CPU0 CPU1``.

    The rest keeps its blanks, which separate its columns. Lines without a count for each CPU are left out, such as ERR
    and MIS of the interrupts.
    """
    header, *lines = text.splitlines() or [""]
    cpus = [int(word[3:]) for word in header.split() if word.startswith("CPU") and is_count(word[3:])]
    for line in lines:
        name, colon, rest = line.partition(":")
        *counts, described = [*rest.split(maxsplit=len(cpus)), ""][: len(cpus) + 1]
        if colon and len(counts) == len(cpus) and all(map(is_count, counts)):
            yield name.strip(), dict(zip(cpus, map(int, counts), strict=True)), described


@cache
def installed_sources() -> tuple[EvidenceSource, ...]:
    """Return all installed sources in reading order. Raises ConfigError.

    Every installed source is read in every measurement. There is no option to switch one off.
    """
    others = sorted(EVIDENCE_SOURCES.names - set(ORDER))
    return tuple(_source(name) for name in (*ORDER, *others))


def _source(name: str) -> EvidenceSource:
    made, what = EVIDENCE_SOURCES.make(name)
    EVIDENCE_SOURCES.require(made, what, EvidenceSource)
    source = cast(EvidenceSource, made)
    if source.name != name:
        raise ConfigError(f"{what} has the name {source.name!r}; expected the name that its package registers")
    return source
