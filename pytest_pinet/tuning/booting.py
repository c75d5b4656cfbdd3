"""Settings that need a boot: the lines that they add to the boot files, and their values before and after the boot."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.tuning.boot_settings import AT_END, MOVES
from pytest_pinet.tuning.registry import boot_setting
from pytest_pinet.tuning.setting import BootLines, NoKnob, SettingPlace, SettingReading


def lines_of(tuning: Tuning) -> BootLines:
    """Return the lines that these settings add to the boot files."""
    lines = BootLines()
    for name, requested in tuning.settings:
        lines = boot_setting(name).edit(lines, requested)
    return lines


def found(place: SettingPlace, tuning: Tuning) -> dict[str, SettingReading]:
    """Return the present value of each setting that can be read. Raises SshError."""
    readings = {}
    for name, requested in tuning.settings:
        try:
            readings[name] = boot_setting(name).read(place, requested)
        except NoKnob:
            continue
    return readings


def read_back(place: SettingPlace, tuning: Tuning, before: Mapping[str, SettingReading]) -> list[Tuned]:
    """Return the outcome of each setting, after the node has booted with these settings. Raises SshError."""
    return [_judged(place, name, requested, before.get(name)) for name, requested in tuning.settings]


def _judged(place: SettingPlace, name: str, requested: str, before: SettingReading | None) -> Tuned:
    setting = boot_setting(name)
    was = before.text if before is not None else ""
    try:
        now = setting.read(place, requested)
    except NoKnob as error:
        return Tuned(place.node, name, requested, was, "", SettingOutcome.UNSUPPORTED, str(error))
    if setting.holds(requested, now):
        held = before is not None and setting.holds(requested, before)
        outcome, why = (SettingOutcome.UNCHANGED, "") if held else _effect(before, now)
        return Tuned(place.node, name, requested, was, now.text, outcome, why)
    if before is not None and before.values == now.values:
        why = "it is in the boot files, but the boot did not change the value"
        return Tuned(place.node, name, requested, was, now.text, SettingOutcome.REJECTED, why)
    return Tuned(place.node, name, requested, was, now.text, SettingOutcome.CLAMPED)


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
    """Return the outcome "unsupported" for all settings of a node that cannot boot with them."""
    return [
        Tuned(node, name, requested, "", "", SettingOutcome.UNSUPPORTED, why) for name, requested in tuning.settings
    ]
