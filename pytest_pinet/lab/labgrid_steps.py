"""labgrid's own steps (power, console, ssh), beneath those of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_pinet.steps import Recorder, Step, current

_LONGEST = 100
# Steps whose arguments are shown: states, and paths of files.
_SHOWN = ("transition", "force", "put", "get", "rsync", "scp")
# There are hundreds of these, and what was read stands in the record of the console.
_LEFT_OUT = ("read", "write", "expect")


def listen() -> Callable[[], None]:
    """Record labgrid's steps wherever somebody records ours; returns what ends that.

    Not reading, writing and waiting on consoles: there are hundreds, and what is written may be a password.
    """
    from labgrid.step import steps

    opened: dict[int, tuple[Recorder, Step]] = {}

    def hear(event: Any) -> None:
        state = event.data.get("state")
        if state == "start":
            recorder = current()
            if recorder is not None and event.step.title not in _LEFT_OUT:
                opened[id(event.step)] = recorder, recorder.begin(_title(event.step))
        elif state == "stop" and id(event.step) in opened:
            recorder, step = opened.pop(id(event.step))
            error = event.data.get("exception")
            recorder.end(step, "" if error is None else (str(error) or type(error).__name__).partition("\n")[0])

    steps.subscribe(hear)
    return lambda: steps.unsubscribe(hear)


def _title(step: Any) -> str:
    """Who does what, in a line; with what only where that is known to hold no secret.

    A password is written to a console as an argument of a step like any other.
    """
    source = step.source
    who = f"{type(source).__name__} " if source is not None else ""
    words = ", ".join(str(value) for value in (step.args or {}).values()) if step.title in _SHOWN else ""
    text = f"{who}{step.title} {words}".strip().replace("\n", " ")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
