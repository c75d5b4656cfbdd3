"""What every report of a change calls things alike: the answer, its figures, and what a build holds."""

from __future__ import annotations

from pytest_pinet.report.change import BuildRecord, ChangeEntryRecord
from pytest_pinet.report.record import RunRecord


def change_in_words(run: RunRecord) -> str:
    """The one sentence that everybody reads."""
    emulated = " The figures are emulated." if run.get("figures") == "emulated" else ""
    sentence = run["change"]["sentence"]
    interrupted = "" if run.get("complete", True) or "interrupted" in sentence else " The run was interrupted."
    return f"{sentence}{emulated}{interrupted}"


def emulated_words(run: RunRecord) -> str:
    """What the figures are, where they are emulated; else empty."""
    if run.get("figures") != "emulated":
        return ""
    return f"figures are emulated: {run['meaning']}" if "meaning" in run else "figures are emulated"


def emulated_sentence(run: RunRecord) -> str:
    """The same as a whole sentence; else empty."""
    meant = emulated_words(run)
    return f"{meant[0].upper()}{meant[1:]}." if meant else ""


def figure_name(entry: ChangeEntryRecord) -> str:
    """The id of the figure; of both ways at once with its own."""
    way = entry["direction"]
    return entry["id"] if not way or entry["id"].endswith(f"-{way}") else f"{entry['id']}-{way}"


def build_parts(build: BuildRecord, digits: int) -> list[str]:
    """All that a build holds, of each file the first ``digits`` of its sha256."""
    files = [f"{file['role']} {file['name']}: sha256 {file['sha256'][:digits]}" for file in build["files"]]
    return [*files, *build["config"], *build["cmdline"], *build["options"], *build["sysctls"]]
