"""Shows live progress during traffic, despite pytest's output capture."""

from __future__ import annotations

import math
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from pytest_pinet.history.text import ASCII_HEIGHTS, course
from pytest_pinet.report.text_wrap import WIDTH, plain, rate, shorten

# Without a terminal (CI) a line at this interval shows that the run is alive.
QUIET_INTERVAL_S = 10.0
_INDENT = "  "
_LABEL_MIN = 8
# So many of the latest rates are shown as a course of characters.
_COURSE = 8


class Terminal(Protocol):
    """The part of pytest's terminal reporter that we use."""

    @property
    def isatty(self) -> object:
        """A bool in pytest 8, a method since 9."""

    def rewrite(self, line: str, **markup: bool) -> None: ...

    def write_line(self, line: str, **markup: bool) -> None: ...

    def ensure_newline(self) -> None: ...

    def flush(self) -> None: ...


class Capture(Protocol):
    """The part of pytest's capture manager that we use."""

    def global_and_fixture_disabled(self) -> AbstractContextManager[None]: ...


class Progress:
    """Shows one updated line on a terminal, or a line every 10 s elsewhere.

    Draws nothing without a terminal reporter (``-p no:terminal``, xdist workers) or with ``-q``. Its errors never reach
    the test. Leaving the context erases the line. Leave it inside the test's call or the fixture's setup, because later
    pytest has written its verdict to this line.
    """

    def __init__(
        self,
        terminal: Terminal | None,
        capture: Capture | None = None,
        verbosity: int = 0,
        clock: Callable[[], float] = time.monotonic,
        heights: str = ASCII_HEIGHTS,
    ) -> None:
        self._heights = heights
        # The latest rates of the connection that is shown, all directions together, and its label and seconds.
        self._course: deque[float] = deque(maxlen=_COURSE)
        self._shown = ("", 0.0)
        self._terminal = terminal if verbosity >= 0 else None
        self._capture = capture
        self._clock = clock
        self._last_s = clock()
        self._drawn = False

    @property
    def shown(self) -> bool:
        return self._terminal is not None

    def update(
        self,
        label: str,
        elapsed_s: float,
        total_s: float,
        bps: Mapping[str, float | None],
        retransmits: int | None = None,
        now_bps: float | None = None,
    ) -> None:
        """Show the progress of a measurement.

        ``bps`` is the goodput of the connection so far by direction, None before the first sample. ``retransmits``
        counts from the start of the connection; None if the count is not known. ``now_bps`` is the rate of the latest
        moment, all directions together (None: ``bps``), for the course of characters.
        """
        if self._terminal is None:
            return
        if label != self._shown[0] or elapsed_s < self._shown[1]:
            self._course.clear()
        self._shown = (label, elapsed_s)
        known = [value for value in bps.values() if value is not None]
        if known:
            self._course.append(sum(known) if now_bps is None else now_bps)
        total = math.ceil(total_s)
        # Elapsed whole seconds. Rounded ones would stay at 2 for three half-second updates, then jump to 4.
        seconds = f"{math.floor(min(elapsed_s, total_s)):{len(str(total))}}/{total} s"
        rates = "  ".join(f"{way} {rate(value):>12}" for way, value in bps.items())
        values = f"  {seconds}  {rates}"
        if retransmits is not None:
            values += f"  retr {retransmits}"
        # Shorten the label, so that the rate of the second direction stays visible.
        room = max(_columns() - 1 - len(_INDENT) - len(values) - _COURSE - len("  []"), _LABEL_MIN)
        if self._course:
            values += f"  [{course(self._course, self._heights)}]"
        line = _INDENT + shorten([plain(label)], room)[plain(label)] + values
        self._draw(lambda terminal: self._show(terminal, line))

    def show(self, text: str) -> None:
        """Show the current activity or wait in one line."""
        self._draw(lambda terminal: self._show(terminal, _INDENT + plain(text)))

    def confirm(self, text: str) -> bool:
        """Ask a question that ``y`` affirms. Without a terminal for the answer, return False."""
        if self._terminal is None or not _is_tty(self._terminal):
            return False
        self.close()
        try:
            # pytest has replaced standard input.
            with Path("/dev/tty").open() as keyboard:
                self._draw(lambda terminal: terminal.write_line(f"{plain(text)}. Boot builds there? [y/N]"))
                return keyboard.readline().strip().lower() in ("y", "yes")
        except OSError:
            return False

    def close(self) -> None:
        """Erase the line, so that pytest's own output begins at the same place."""
        if self._drawn:
            self._draw(self._erase)
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _draw(self, action: Callable[[Terminal], None]) -> None:
        if self._terminal is None:
            return
        try:
            # Inside the context, since the terminal looks like a file while pytest captures.
            with nullcontext() if self._capture is None else self._capture.global_and_fixture_disabled():
                action(self._terminal)
                # The buffer must be empty before the capture takes the file descriptor back.
                self._terminal.flush()
        except (OSError, ValueError):
            # Standard output is closed or broken. The measurement continues without progress.
            self._terminal = None

    def _show(self, terminal: Terminal, line: str) -> None:
        if _is_tty(terminal):
            if not self._drawn:
                terminal.ensure_newline()
                self._drawn = True
            terminal.rewrite(line[: _columns() - 1], erase=True)
            return
        now_s = self._clock()
        if now_s - self._last_s >= QUIET_INTERVAL_S:
            self._last_s = now_s
            terminal.ensure_newline()
            terminal.write_line(line[:WIDTH])

    @staticmethod
    def _erase(terminal: Terminal) -> None:
        terminal.rewrite("", erase=True)
        terminal.rewrite("")
        # pytest counts what was erased as a part of its line. Its "[100%]" would begin one column too far to the right.
        writer = getattr(terminal, "_tw", None)
        if writer is not None and hasattr(writer, "_current_line"):
            writer._current_line = ""


def _columns() -> int:
    return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)


def _is_tty(terminal: Terminal) -> bool:
    answer = terminal.isatty
    return bool(answer() if callable(answer) else answer)
