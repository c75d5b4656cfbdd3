"""Live progress while traffic runs, drawn past pytest's capture."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol

from pytest_pinet.report.fit import WIDTH, plain, rate, shorten

# Without a terminal (CI) a line every so often shows that the run lives.
QUIET_INTERVAL_S = 10.0
_INDENT = "  "
_LABEL_MIN = 8


class Terminal(Protocol):
    """What of pytest's terminal reporter is used."""

    @property
    def isatty(self) -> object:
        """A bool in pytest 8, something to call since 9."""

    def rewrite(self, line: str, **markup: bool) -> None: ...

    def write_line(self, line: str, **markup: bool) -> None: ...

    def ensure_newline(self) -> None: ...

    def flush(self) -> None: ...


class Capture(Protocol):
    """What of pytest's capture manager is used."""

    def global_and_fixture_disabled(self) -> AbstractContextManager[None]: ...


class Progress:
    """One rewriting line on a terminal, a line every 10 s elsewhere.

    Draws nothing without a terminal reporter (``-p no:terminal``, xdist workers) and under ``-q``. Nothing that goes
    wrong here reaches the test. Leaving the context erases the line: leave it inside the test's call (or the fixture's
    setup), since after that pytest has written its verdict to this line.
    """

    def __init__(
        self,
        terminal: Terminal | None,
        capture: Capture | None = None,
        verbosity: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terminal = terminal if verbosity >= 0 else None
        self._capture = capture
        self._clock = clock
        self._last_s = clock()
        self._drawn = False

    @property
    def shown(self) -> bool:
        """Whether anybody will see it."""
        return self._terminal is not None

    def update(self, label: str, elapsed_s: float, total_s: float, bps: Mapping[str, float | None]) -> None:
        """Show how far a measurement is; ``bps`` is the latest rate of each direction, None before the first sample."""
        if self._terminal is None:
            return
        total = math.ceil(total_s)
        # Seconds that are over: rounded ones would stay at 2 for three half-second updates, then jump to 4.
        seconds = f"{math.floor(min(elapsed_s, total_s)):{len(str(total))}}/{total} s"
        rates = "  ".join(f"{way} {'-' if value is None else rate(value):>12}" for way, value in bps.items())
        figures = f"  {seconds}  {rates}"
        # The label gives way to the figures, or those of the second direction would fall off the line.
        room = max(_columns() - 1 - len(_INDENT) - len(figures), _LABEL_MIN)
        self.show(shorten([plain(label)], room)[plain(label)] + figures)

    def show(self, text: str) -> None:
        """Show what is being done or waited for, in one line."""
        self._draw(lambda terminal: self._show(terminal, _INDENT + plain(text)))

    def close(self) -> None:
        """Erase the line, so that pytest's own output begins where it was."""
        if self._drawn:
            self._draw(self._erase)
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _draw(self, action: Callable[[Terminal], None]) -> None:
        if self._terminal is None:
            return
        try:
            # Inside, since a terminal looks like a file while pytest captures.
            with nullcontext() if self._capture is None else self._capture.global_and_fixture_disabled():
                action(self._terminal)
                # The buffer must be empty before the capture takes the file descriptor back.
                self._terminal.flush()
        except (OSError, ValueError):
            # A closed or broken standard output; the measurement is worth more than its progress.
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


def _columns() -> int:
    return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)


def _is_tty(terminal: Terminal) -> bool:
    answer = terminal.isatty
    return bool(answer() if callable(answer) else answer)
