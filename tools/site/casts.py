"""``python -m tools.site.casts FOLDER``: pictures of terminals, recorded from a real command, as SVG.

A cast shows each line at the time at which it was printed, when the picture is opened. Long waits are shortened. A
reader who prefers reduced motion, or a program without animations, sees all lines at once.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
COLUMNS, LIMIT_S, LONGEST_WAIT_S = 80, 240.0, 1.5
CHAR, LINE, PAD = 8.0, 18.0, 14.0
COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 90: "#8b949e"}
COLOURS |= {code + 60: colour for code, colour in COLOURS.items() if code < 40}
SGR = re.compile(r"\x1b\[([0-9;]*)m")
OTHER = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][0-9A-B])")


class Cast(NamedTuple):
    """A part of the recording: from the line that contains ``since`` to the next one that contains ``until``.

    A row with three dots stands for the lines from ``skip[0]`` to the line before ``skip[1]``. If the picture is
    ``moving``, each line appears at its time.
    """

    since: str
    until: str
    skip: tuple[str, str]
    moving: bool = False


# One recording serves all pictures. On a busy machine the second gate is invalid, or names the processor as the limit,
# which is not what the demo broke: such a recording is made again.
COMMAND, AFTERWARDS = "pinet demo --yes", "pinet demo --remove --yes"
FAILED, WANTED, TRIES = " FAILURES ", "limited by shaper", 2
IDLE, LONGEST_PATIENCE_S = 0.8, 60.0
CASTS = {
    "failing-gate": Cast("$ pinet lab degrade", " failed,", ("session starts", FAILED)),
    "demo": Cast("$", "Next: ", (FAILED, " pinet throughput "), moving=True),
}


def record(command: str, afterwards: str, folder: Path) -> list[tuple[float, str]]:
    """Run the command on a terminal of its own. Return what it printed, with the time since its start."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "xterm-256color"}
    environment |= {"COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT), "FORCE_COLOR": "1"}
    # What `pinet demo` notes for `--remove` is not the user's own.
    environment["XDG_STATE_HOME"] = str(folder)
    process = None
    try:
        mine, its = pty.openpty()
        started = time.monotonic()
        chunks: list[tuple[float, str]] = []
        words = ["bash", "-c", f"stty cols {COLUMNS}; exec {command}"]
        process = subprocess.Popen(words, cwd=folder, env=environment, stdin=its, stdout=its, stderr=its)
        os.close(its)
        while time.monotonic() - started < LIMIT_S:
            if select.select([mine], [], [], 0.2)[0]:
                try:
                    data = os.read(mine, 65536)
                except OSError:  # The terminal has no writer any more.
                    return chunks
                chunks.append((time.monotonic() - started, data.decode(errors="replace")))
            elif process.poll() is not None:
                return chunks
        raise TimeoutError(f"{command} did not end within {LIMIT_S:g} s")
    finally:
        if process is not None:
            process.terminate()
            process.wait(LIMIT_S)
        subprocess.run(["bash", "-c", afterwards], cwd=folder, env=environment, check=False, timeout=LIMIT_S)


def await_idle() -> None:
    """Wait until the processors have little other work, but not for ever."""
    ends = time.monotonic() + LONGEST_PATIENCE_S
    while time.monotonic() < ends:
        before = _processor_time()
        time.sleep(3)
        total, idle = (now - then for now, then in zip(_processor_time(), before, strict=True))
        if idle >= IDLE * total:
            return


def _processor_time() -> tuple[int, int]:
    """Return the ticks of all processors together, and their idle ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[3]


def lines_of(chunks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the lines that stay on the screen. A carriage return overwrites the line, as progress does."""
    done: list[tuple[float, str]] = []
    line, at = "", 0.0
    for at, text in chunks:
        for part in re.split(r"(\r\n|\n|\r)", text):
            if part in ("\r\n", "\n"):
                done.append((at, OTHER.sub(lambda code: code[0] if SGR.fullmatch(code[0]) else "", line)))
                line = ""
            elif part == "\r":
                line = ""
            else:
                line += part
    if line.strip():
        done.append((at, line))
    return done


def wrapped(text: str) -> list[str]:
    """Return the rows of a line on the terminal, with the colours that continue."""
    rows, row, column, active = [], "", 0, ""
    for number, part in enumerate(SGR.split(text)):
        if number % 2:
            code = f"\x1b[{part}m"
            row, active = row + code, "" if part in ("", "0") else active + code
            continue
        rest = part
        while column + len(rest) > COLUMNS:
            rows.append(row + rest[: COLUMNS - column])
            row, column, rest = active, 0, rest[COLUMNS - column :]
        row, column = row + rest, column + len(rest)
    return [*rows, row]


def svg(title: str, lines: list[tuple[float, str]], moving: bool) -> str:
    """Return the picture."""
    width, height = COLUMNS * CHAR + 2 * PAD, len(lines) * LINE + 2 * PAD
    shown, clock, before = [], 0.0, 0.0
    for number, (at, text) in enumerate(lines):
        clock, before = clock + min(at - before, LONGEST_WAIT_S), at
        style = f' style="animation-duration:{clock:.2f}s"' if moving and clock > 0 else ""
        shown.append(f'<text x="{PAD:g}" y="{PAD + (number + 0.75) * LINE:g}"{style}>{spans(text)}</text>')
    motion = (
        "text{animation:show 0s step-end backwards}@keyframes show{from{opacity:0}to{opacity:1}}"
        "@media(prefers-reduced-motion:reduce){text{animation:none!important}}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">',
            f"<title>{escape(title)}</title>",
            "<style>text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,monospace;fill:#e6edf3;white-space:pre}"
            f"{motion if moving else ''}</style>",
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117"/>',
            *shown,
            "</svg>",
            "",
        ]
    )


def spans(text: str) -> str:
    """Return a line with its colours. Each piece is as wide as its characters, whatever the font."""
    pieces, column, colour, bold = [], 0, "", False
    for number, part in enumerate(SGR.split(text)):
        if number % 2:
            for code in [int(one or 0) for one in part.split(";")]:
                colour = COLOURS.get(code, "" if code in (0, 39) else colour)
                bold = (bold or code == 1) and code not in (0, 22)
        elif part:
            style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
            x, length = PAD + column * CHAR, len(part) * CHAR
            pieces.append(f'<tspan x="{x:g}" textLength="{length:g}"{style}>{escape(part)}</tspan>')
            column += len(part)
    return "".join(pieces)


def recorded() -> list[tuple[float, str]]:
    """Return the rows of the recording, made in a folder of its own. Raises SystemExit if no gate failed."""
    kept: list[tuple[float, str]] = []
    for _ in range(TRIES):
        await_idle()
        with tempfile.TemporaryDirectory() as work:
            chunks = record(COMMAND, AFTERWARDS, Path(work))
        rows = [(at, row) for at, text in lines_of(chunks) for row in wrapped(text.replace(work, "~"))]
        if any(WANTED in text for _, text in rows):
            return rows
        print(f"no {WANTED!r}, because this machine was busy: {COMMAND}")
        kept = rows if any(FAILED in text for _, text in rows) else kept
    if not kept:
        raise SystemExit("no picture of a terminal is new: try again while this machine does nothing else")
    print(
        "the failure does not name the shaper: try again while this machine does nothing else, or say so on the pages"
    )
    return kept


def part(rows: list[tuple[float, str]], cast: Cast) -> list[tuple[float, str]]:
    """Return the rows of one picture."""

    def find(text: str, start: int = 0) -> int:
        return next(number for number in range(start, len(rows)) if text in SGR.sub("", rows[number][1]))

    start = find(cast.since)
    first = find(cast.skip[0], start)
    second = find(cast.skip[1], first)
    return [*rows[start:first], (rows[first][0], "..."), *rows[second : find(cast.until, second) + 1]]


def main(words: list[str]) -> None:
    """Write the pictures."""
    rows = recorded()
    rows.insert(0, (rows[0][0], f"\x1b[32m$\x1b[0m \x1b[1m{COMMAND}\x1b[0m"))
    for name, cast in CASTS.items():
        lines = part(rows, cast)
        file = Path(words[0]) / f"{name}.svg"
        file.write_text(svg(COMMAND, lines, cast.moving), encoding="utf-8")
        print(f"{file}: {len(lines)} lines")


if __name__ == "__main__":
    main(sys.argv[1:])
