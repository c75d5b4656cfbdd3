"""Apply one setting to one place: read it, write the journal, change it, read it back, and undo it later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import reason
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.tuning.journal import FOLDER, JournalEntry
from pytest_pinet.tuning.setting import NoKnob, Setting, SettingPlace, SettingReading

# Errors which mean that the knob is missing, or cannot be changed here at all. Any other error is a rejection.
_ABSENT = (
    "No such file or directory",
    "No such device",
    "not supported",
    "Read-only file system",
    "Function not implemented",
    "Operation not permitted",
    "Permission denied",
    "not found",
    "qdisc kind is unknown",
)
# Registers an undo: its description, the function to call, and the node that it changes.
Register = Callable[[str, Callable[[], object], str], None]


def apply(setting: Setting, place: SettingPlace, requested: str, register: Register, journal: str = FOLDER) -> Tuned:
    """Apply a setting to a place. The undo is passed to ``register`` before the change. Raises LabError, SshError.

    The outcome depends on the value that is read back, not on the value that was written.
    """
    who = place.node if setting.where.per_node else place.end
    try:
        before = setting.read(place, requested)
    except NoKnob as error:
        return Tuned(who, setting.name, requested, "", "", SettingOutcome.UNSUPPORTED, str(error))
    if setting.holds(requested, before):
        return Tuned(who, setting.name, requested, before.text, before.text, SettingOutcome.UNCHANGED)
    try:
        command = setting.change(place, requested, before)
    except NoKnob as error:
        return Tuned(who, setting.name, requested, before.text, before.text, SettingOutcome.UNSUPPORTED, str(error))
    what = f"{setting.name}={requested} of {who}"
    entries = [JournalEntry.new(what, setting.restore(place, before, None), journal)]
    register(what, lambda: _undo(setting, place, requested, before, entries), place.node)
    done = place.change(f"{entries[0].kept()} || exit {_NO_JOURNAL}; {command}")
    if done.returncode == _NO_JOURNAL:
        why = reason(done.stderr)
        raise LabError(
            f"{place.node} cannot write {journal}, the journal for undoing tunings: {why}", f"look at {place.node}"
        )
    refused = "" if done.returncode == 0 else reason(done.stderr, done.stdout)
    try:
        after = setting.read(place, requested)
    except NoKnob as error:
        why = f"the value cannot be read any more: {error}"
        return Tuned(who, setting.name, requested, before.text, "", SettingOutcome.REJECTED, why)
    if after.values == before.values:
        # Nothing changed, so nothing is to be undone. The undo command might be refused as well.
        place.change(entries.pop().forgotten())
    else:
        # Restore only the values that changed: other processes may set the other values in the meantime.
        exact = JournalEntry(entries[0].name, what, setting.restore(place, before, after), journal)
        place.change(exact.kept())
        entries[0] = exact
    return _judged(setting, who, requested, before, after, refused)


_NO_JOURNAL = 99


def _judged(
    setting: Setting, who: str, requested: str, before: SettingReading, after: SettingReading, refused: str
) -> Tuned:
    if setting.holds(requested, after):
        return Tuned(who, setting.name, requested, before.text, after.text, SettingOutcome.APPLIED)
    if refused:
        absent = any(word in refused for word in _ABSENT)
        outcome = SettingOutcome.UNSUPPORTED if absent else SettingOutcome.REJECTED
        return Tuned(who, setting.name, requested, before.text, after.text, outcome, refused)
    if after.values == before.values:
        why = "accepted without an error, but the value did not change"
        return Tuned(who, setting.name, requested, before.text, after.text, SettingOutcome.REJECTED, why)
    return Tuned(who, setting.name, requested, before.text, after.text, SettingOutcome.CLAMPED)


def _undo(
    setting: Setting, place: SettingPlace, requested: str, before: SettingReading, entries: list[JournalEntry]
) -> None:
    """Undo the change, and check that the old values are back. Raises LabError."""
    if not entries:
        return
    done = place.change(entries[0].undone())
    if done.returncode:
        raise LabError(f"{place.node} refused: {reason(done.stderr, done.stdout)}", f"boot {place.node}")
    try:
        now = setting.read(place, requested)
    except NoKnob as error:
        message = f"{setting.name} of {place.end} cannot be read any more: {error}"
        raise LabError(message, f"boot {place.node}") from None
    if now.values != before.values:
        raise LabError(f"{setting.name} of {place.end} is {now.text} instead of {before.text}", f"boot {place.node}")


def check_effect(setting: Setting, place: SettingPlace, tuned: Tuned) -> Tuned:
    """Return ``tuned``, or ``unsupported`` if the setting has no effect. Raises InvalidMeasurement, SshError."""
    if not tuned.outcome.holds:
        return tuned
    try:
        why = setting.effect(place, tuned.asked)
    except NoKnob as error:
        why = str(error)
    if not why:
        return tuned
    return replace(tuned, outcome=SettingOutcome.UNSUPPORTED, why=why)
