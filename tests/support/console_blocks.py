"""The console blocks of README.md and docs/, with their marks.

The line before a block says how it is tested::

    <!-- not run: needs a board -->
    <!-- run: with a history -->       or another setting of tests/support/block_settings.py
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:^[ \t]*<!-- (?P<mark>[^\n]*) -->\n\s*)?^(?P<indent> *)```console\n(?P<text>.*?)^ *```", re.M | re.S
)
_SEPARATORS = {"&&", "||", ";", "|", ">", ">>"}


@dataclass(frozen=True)
class ConsoleBlock:
    """``mark`` is the comment before the block, empty if there is none; ``commands`` are its lines after ``$``."""

    page: str
    line: int
    mark: str
    commands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def words(self) -> Iterator[list[str]]:
        """The words of each simple command; comments and redirections are left out."""
        for command in self.commands:
            words: list[str] = []
            shell = shlex.shlex(command, posix=True, punctuation_chars=";|&>")
            shell.whitespace_split = True
            shell.commenters = "#"
            for word in shell:
                if word in _SEPARATORS:
                    yield words
                    words = []
                else:
                    words.append(word)
            yield words


def console_blocks() -> list[ConsoleBlock]:
    """Return all blocks, in the order of the pages."""
    return [block for page in PAGES for block in blocks_of(page)]


def script_lines() -> list[ConsoleBlock]:
    """Return the lines with a command of ours in the scripts of all pages, each as a block."""
    return [
        ConsoleBlock(str(page.relative_to(ROOT)), text.count("\n", 0, match.start()) + 1, "", (match["command"],))
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for script in re.finditer(r"^ *```bash\n.*?^ *```", text, re.M | re.S)
        for match in re.compile(r"^ *(?:exec )?(?P<command>pinet .*)$", re.M).finditer(text, *script.span())
    ]


def blocks_of(page: Path) -> list[ConsoleBlock]:
    """Return the blocks of one page."""
    text = page.read_text(encoding="utf-8")
    return [
        ConsoleBlock(
            str(page.relative_to(ROOT)),
            text.count("\n", 0, match.start("text")),
            match["mark"] or "",
            tuple(line.strip()[2:] for line in match["text"].splitlines() if line.strip().startswith("$ ")),
        )
        for match in _BLOCK.finditer(text)
    ]
