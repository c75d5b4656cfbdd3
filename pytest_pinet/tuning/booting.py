"""Apply settings that need a boot: write the boot files before the boot, read the values after it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.tuning import boot_files
from pytest_pinet.tuning.boot_settings import AT_END, MOVES
from pytest_pinet.tuning.registry import boot_setting
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading


def prepare(shell: Shell, tuning: Tuning, folders: Sequence[str] = boot_files.FOLDERS) -> None:
    """Write exactly these settings into the boot files, for the next boot.

    Raises NoKnob if the node has no boot files, LabError, SshError.
    """
    if not tuning:
        boot_files.put_back(shell, folders)
        return
    files = boot_files.read_original(shell, folders)
    for name, asked in tuning.settings:
        files = boot_setting(name).edit(files, asked)
    boot_files.write(shell, files)


def found(place: SettingPlace, tuning: Tuning) -> dict[str, SettingReading]:
    """Return the present value of each setting that can be read. Raises SshError."""
    readings = {}
    for name, asked in tuning.settings:
        try:
            readings[name] = boot_setting(name).read(place, asked)
        except NoKnob:
            continue
    return readings


def read_back(place: SettingPlace, tuning: Tuning, before: dict[str, SettingReading]) -> list[Tuned]:
    """Return the outcome of each setting, after the node has booted with these settings. Raises SshError."""
    return [_judged(place, name, asked, before.get(name)) for name, asked in tuning.settings]


def _judged(place: SettingPlace, name: str, asked: str, before: SettingReading | None) -> Tuned:
    setting = boot_setting(name)
    was = before.text if before is not None else ""
    try:
        now = setting.read(place, asked)
    except NoKnob as error:
        return Tuned(place.node, name, asked, was, "", SettingOutcome.UNSUPPORTED, str(error))
    if setting.holds(asked, now):
        held = before is not None and setting.holds(asked, before)
        outcome, why = (SettingOutcome.UNCHANGED, "") if held else _effect(before, now)
        return Tuned(place.node, name, asked, was, now.text, outcome, why)
    if before is not None and before.values == now.values:
        why = "it is in the boot files, but the boot did not change the value"
        return Tuned(place.node, name, asked, was, now.text, SettingOutcome.REJECTED, why)
    return Tuned(place.node, name, asked, was, now.text, SettingOutcome.CLAMPED)


def _effect(before: SettingReading | None, now: SettingReading) -> tuple[SettingOutcome, str]:
    """Judge a setting that the node booted with, by the value that the setting should change."""
    moved = now.context.get(MOVES)
    if moved is None:
        return SettingOutcome.APPLIED, ""
    if before is None:
        return SettingOutcome.UNCHANGED, f"the value before is not known: {moved}"
    if before.context.get(MOVES) != moved:
        return SettingOutcome.APPLIED, ""
    if end := now.context.get(AT_END):
        return SettingOutcome.UNCHANGED, f"the value was the same before: {moved}, {end}"
    return SettingOutcome.UNSUPPORTED, f"the setting had no effect: {moved}"


def unsupported(node: str, tuning: Tuning, why: str) -> list[Tuned]:
    """Return the outcome "unsupported" for all settings of a node that has no boot files."""
    return [Tuned(node, name, asked, "", "", SettingOutcome.UNSUPPORTED, why) for name, asked in tuning.settings]
