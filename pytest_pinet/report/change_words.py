"""Texts that all reports of a change share: the answer, names of directions, and the parts of a build."""

from __future__ import annotations

from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.run import RunRecord


def change_in_words(run: RunRecord, head: ChangeHeadRecord) -> str:
    """Return the verdict on the change of this run as one sentence."""
    emulated = " The values are emulated." if run.figures == "emulated" else ""
    interrupted = "" if run.complete or "interrupted" in head.sentence else " The run was interrupted."
    return f"{head.sentence}{emulated}{interrupted}"


def emulated_words(run: RunRecord) -> str:
    """Return a note that the values are emulated; empty for measured values."""
    if run.figures != "emulated":
        return ""
    return f"values are emulated: {run.meaning}" if run.meaning is not None else "values are emulated"


def emulated_sentence(run: RunRecord) -> str:
    """Return the note on emulated values as a sentence; empty for measured values."""
    meant = emulated_words(run)
    return f"{meant[0].upper()}{meant[1:]}." if meant else ""


def figure_name(entry: ChangeEntryRecord) -> str:
    """Return the id of a direction: the entry's id, with the direction if the id does not end with it."""
    way = entry.direction
    return entry.id if not way or entry.id.endswith(f"-{way}") else f"{entry.id}-{way}"


def build_parts(build: BuildRecord, digits: int) -> list[str]:
    """Return all parts of a build; of each file the first ``digits`` digits of its sha256."""
    files = [f"{file.role} {file.name}: sha256 {file.sha256[:digits]}" for file in build.files]
    return [*files, *build.config, *build.cmdline, *build.options, *build.sysctls]
