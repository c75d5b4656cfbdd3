"""Record labgrid's own steps (power, console, ssh) as children of our steps, for reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_pinet.execution.trace import Recorder, Step, current

_LONGEST = 100
# Steps whose arguments are shown, since they are never secret: states, and paths of files. A password is written to a
# console as an ordinary argument of a step.
_SHOWN = ("transition", "force", "put", "get", "rsync", "scp")
# Steps of consoles. There are hundreds of them, the text may be a password, and the console record has what was read.
_LEFT_OUT = ("read", "write", "expect")


def listen() -> Callable[[], None]:
    """Record labgrid's steps whenever a recorder of our steps is active; return a function that ends the recording."""
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
    source = step.source
    who = f"{type(source).__name__} " if source is not None else ""
    words = ", ".join(str(value) for value in (step.args or {}).values()) if step.title in _SHOWN else ""
    text = f"{who}{step.title} {words}".strip().replace("\n", " ")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
