"""Where the values come from that no look at a board can find: from options, or from the user at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.text import for_log

PEER_RUNNER, PEER_NONE = "runner", "none"
POWERS = (OUTLET, POE, NONE) = ("outlet", "poe", "none")
CONSOLES = (SERIAL, NONE) = ("serial", "none")
BACKENDS = (FIXED, SNMP, CLI, LINUX) = ("fixed", "snmp", "cli", "linux")


T = TypeVar("T")
_TRIES = 5


class Answers:
    """Questions to the user. ``is_terminal``: the user can answer; else a question without a default is an error.

    ``takes_defaults``: the default of each question is taken without a question (--yes).
    """

    def __init__(self, is_terminal: bool, takes_defaults: bool = False) -> None:
        self.is_terminal = is_terminal
        self.takes_defaults = takes_defaults

    def say(self, text: str) -> None:
        """Explain the next question."""
        if self.asks:
            click.echo(for_log(text), err=True)

    @property
    def asks(self) -> bool:
        """Whether questions go to the user."""
        return self.is_terminal and not self.takes_defaults

    def text(self, question: str, parse: Callable[[str], T], option: str, default: str | None = None) -> T:
        """Return the answer to a question, parsed. ``parse`` raises ValueError with what is accepted.

        Raises ConfigError if the user cannot answer, or gave no accepted answer.
        """
        if not self.asks:
            if default is None or not self.takes_defaults:
                or_yes = "" if default is None else f", or take {default!r} with --yes"
                raise ConfigError(f"{question}: give it with {option}{or_yes}")
            return parse(default)
        for _ in range(_TRIES):
            given: str = click.prompt(for_log(question), default=default, err=True)
            try:
                return parse(given.strip())
            except ValueError as error:
                click.echo(for_log(f"  {error}"), err=True)
        raise ConfigError(f"{question}: no accepted answer in {_TRIES} tries; give it with {option}")

    def choose(self, question: str, choices: Sequence[str], option: str, default: str | None = None) -> str:
        """Return one of these choices."""

        def parse(text: str) -> str:
            if text.isdecimal() and 0 < int(text) <= len(choices) and text not in choices:
                return choices[int(text) - 1]
            if text not in choices:
                raise ValueError(f"accepted: {', '.join(choices)}")
            return text

        return self.text(f"{question} ({', '.join(choices)})", parse, option, default)

    def agrees(self, question: str) -> bool:
        return self.asks and click.confirm(for_log(question), default=False, err=True)
