"""The exit codes that all commands share, and how they change under ``git bisect run``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.model.verdict import SKIP

# Every mistake of the user: arguments, options, the lab file.
MISTAKE = 4
LAB_ERROR = 2
INTERRUPTED = 130
# As in sysexits.h: an error of pytest-pinet itself, and output that cannot be written.
INTERNAL = 70
OUTPUT = 74
# `git bisect run` continues after exit codes below 128 except 125. It would take a user's mistake for a bad commit.
ABORT = 128


@dataclass(frozen=True)
class ErrorCodes:
    """The exit codes of a command that ends with an error.

    ``declined`` is for "no" to the question of a command.
    """

    mistake: int = MISTAKE
    other: int = LAB_ERROR
    declined: int = 1
    internal: int = INTERNAL
    output: int = OUTPUT


OF_BISECTION = ErrorCodes(
    mistake=ABORT + MISTAKE, other=SKIP, declined=INTERRUPTED, internal=SKIP, output=ABORT + OUTPUT
)


def error_codes(words: Sequence[str]) -> ErrorCodes:
    """Return the codes for a command line, also for one that click cannot read.

    A mistyped ``--bisect`` counts as well, because its commit must not be marked bad.
    """
    bisect = any(word.startswith("-") and word.lstrip("-").startswith("bis") for word in words)
    return OF_BISECTION if bisect else ErrorCodes()
