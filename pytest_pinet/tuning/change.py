"""One setting in one place: looked at, written down, changed, read back, and taken back."""

from __future__ import annotations

from collections.abc import Callable

from pytest_pinet.errors import LabError
from pytest_pinet.model.tuning import Outcome, Tuned
from pytest_pinet.tuning.files import reason
from pytest_pinet.tuning.journal import FOLDER, Entry
from pytest_pinet.tuning.setting import NoKnob, Place, Reading, Setting

# What a kernel says of a knob that is not there, or that nobody in here may turn; anything else is a refusal.
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
# What is told of an undo: its words, what to do, and the node that it touches.
Register = Callable[[str, Callable[[], object], str], None]


def apply(setting: Setting, place: Place, asked: str, register: Register, journal: str = FOLDER) -> Tuned:
    """Bring one setting about in one place; what takes it back goes to ``register`` first. Raises SshError.

    The outcome is what was read back, not what was written.
    """
    who = place.node if setting.where.per_node else place.end
    try:
        before = setting.read(place, asked)
    except NoKnob as error:
        return Tuned(who, setting.name, asked, "", "", Outcome.UNSUPPORTED, str(error))
    if setting.holds(asked, before):
        return Tuned(who, setting.name, asked, before.text, before.text, Outcome.UNCHANGED)
    try:
        command = setting.change(place, asked, before)
    except NoKnob as error:
        return Tuned(who, setting.name, asked, before.text, before.text, Outcome.UNSUPPORTED, str(error))
    what = f"{setting.name}={asked} of {who}"
    entries = [Entry.new(what, setting.restore(place, before, None), journal)]
    register(what, lambda: _undo(setting, place, asked, before, entries), place.node)
    done = place.change(f"{entries[0].kept()} || exit 99; {command}")
    if done.returncode == _NO_JOURNAL:
        why = reason(done.stderr)
        raise LabError(f"{place.node} cannot keep {journal}, which takes tunings back: {why}", f"look at {place.node}")
    refused = "" if done.returncode == 0 else reason(done.stderr or done.stdout)
    try:
        after = setting.read(place, asked)
    except NoKnob as error:
        why = f"it cannot be read any more: {error}"
        return Tuned(who, setting.name, asked, before.text, "", Outcome.REJECTED, why)
    if after.values == before.values:
        # Nothing to take back; the same command might be refused again.
        place.change(entries.pop().forgotten())
    else:
        # Only what really changed: others may set the rest meanwhile.
        exact = Entry(entries[0].name, what, setting.restore(place, before, after), journal)
        place.change(exact.kept())
        entries[0] = exact
    return _judged(setting, who, asked, before, after, refused)


_NO_JOURNAL = 99


def _judged(setting: Setting, who: str, asked: str, before: Reading, after: Reading, refused: str) -> Tuned:
    if setting.holds(asked, after):
        return Tuned(who, setting.name, asked, before.text, after.text, Outcome.APPLIED)
    if refused:
        absent = any(word in refused for word in _ABSENT)
        outcome = Outcome.UNSUPPORTED if absent else Outcome.REJECTED
        return Tuned(who, setting.name, asked, before.text, after.text, outcome, refused)
    if after.values == before.values:
        why = "it was taken without a word, and nothing changed"
        return Tuned(who, setting.name, asked, before.text, after.text, Outcome.REJECTED, why)
    return Tuned(who, setting.name, asked, before.text, after.text, Outcome.CLAMPED)


def _undo(setting: Setting, place: Place, asked: str, before: Reading, entries: list[Entry]) -> None:
    """Take it back and read it back. Raises LabError."""
    if not entries:
        return
    done = place.change(entries[0].undone())
    if done.returncode:
        raise LabError(f"{place.node} refused: {reason(done.stderr or done.stdout)}", f"boot {place.node}")
    try:
        now = setting.read(place, asked)
    except NoKnob as error:
        message = f"{setting.name} of {place.end} cannot be read any more: {error}"
        raise LabError(message, f"boot {place.node}") from None
    if now.values != before.values:
        raise LabError(f"{setting.name} of {place.end} is {now.text}, it was {before.text}", f"boot {place.node}")


def check_effect(setting: Setting, place: Place, tuned: Tuned) -> Tuned:
    """The same, or ``unsupported`` where it holds and moves nothing. Raises InvalidMeasurement, SshError."""
    if not tuned.outcome.holds:
        return tuned
    try:
        why = setting.effect(place, tuned.asked)
    except NoKnob as error:
        why = str(error)
    if not why:
        return tuned
    return Tuned(tuned.end, tuned.name, tuned.asked, tuned.before, tuned.found, Outcome.UNSUPPORTED, why)
