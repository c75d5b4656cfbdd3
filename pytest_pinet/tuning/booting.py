"""What takes a boot: written into the boot files before it, and read back after it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.tuning import Outcome, Tuned, Tuning
from pytest_pinet.shell import Shell
from pytest_pinet.tuning import boot_files
from pytest_pinet.tuning.boot_settings import AT_END, BOOT_SETTINGS, MOVES
from pytest_pinet.tuning.setting import NoKnob, Place, Reading


def prepare(shell: Shell, tuning: Tuning, folders: Sequence[str] = boot_files.FOLDERS) -> None:
    """Write these settings, and none else, into the boot files, for the next boot to find.

    Raises NoKnob where the node has no such files, LabError, SshError.
    """
    if not tuning:
        boot_files.put_back(shell, folders)
        return
    files = boot_files.read_original(shell, folders)
    for name, asked in tuning.settings:
        files = BOOT_SETTINGS[name].edit(files, asked)
    boot_files.write(shell, files)


def found(place: Place, tuning: Tuning) -> dict[str, Reading]:
    """What each of these settings is now, as far as anything tells. Raises SshError."""
    readings = {}
    for name, asked in tuning.settings:
        try:
            readings[name] = BOOT_SETTINGS[name].read(place, asked)
        except NoKnob:
            continue
    return readings


def read_back(place: Place, tuning: Tuning, before: dict[str, Reading]) -> list[Tuned]:
    """What the node that was booted with these settings makes of each. Raises SshError."""
    return [_judged(place, name, asked, before.get(name)) for name, asked in tuning.settings]


def _judged(place: Place, name: str, asked: str, before: Reading | None) -> Tuned:
    setting = BOOT_SETTINGS[name]
    was = before.text if before is not None else ""
    try:
        now = setting.read(place, asked)
    except NoKnob as error:
        return Tuned(place.node, name, asked, was, "", Outcome.UNSUPPORTED, str(error))
    if setting.holds(asked, now):
        held = before is not None and setting.holds(asked, before)
        outcome, why = (Outcome.UNCHANGED, "") if held else _effect(before, now)
        return Tuned(place.node, name, asked, was, now.text, outcome, why)
    if before is not None and before.values == now.values:
        why = "it stands in the boot files, and the boot changed nothing"
        return Tuned(place.node, name, asked, was, now.text, Outcome.REJECTED, why)
    return Tuned(place.node, name, asked, was, now.text, Outcome.CLAMPED)


def _effect(before: Reading | None, now: Reading) -> tuple[Outcome, str]:
    """What came of a setting that the node was booted with, by what it is to change."""
    moved = now.context.get(MOVES)
    if moved is None:
        return Outcome.APPLIED, ""
    if before is None:
        return Outcome.UNCHANGED, f"nobody knows how it was before: {moved}"
    if before.context.get(MOVES) != moved:
        return Outcome.APPLIED, ""
    if end := now.context.get(AT_END):
        return Outcome.UNCHANGED, f"it was so before: {moved}, {end}"
    return Outcome.UNSUPPORTED, f"it changed nothing: {moved}"


def unsupported(node: str, tuning: Tuning, why: str) -> list[Tuned]:
    """All of these settings, where the node has no boot files."""
    return [Tuned(node, name, asked, "", "", Outcome.UNSUPPORTED, why) for name, asked in tuning.settings]
