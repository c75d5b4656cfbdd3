"""Every error class and every message of the source has an entry with cause and cure."""

from __future__ import annotations

import ast

import pytest

from pytest_pinet import errors
from pytest_pinet.errors import ConfigError, LabError, PinetError
from tools.site.messages import Message, messages, of_module
from tools.site.troubleshooting import GROUPS, group_of, mistakes, troubles

FOUND = messages()


def test_each_message_of_an_error_has_cause_and_cure() -> None:
    assert len(FOUND) > 400
    assert [one for one in FOUND if one.error != ConfigError.__name__ and group_of(one) is None] == []
    assert [group.title for group in GROUPS if len(group.cause) < 40 or len(group.cure) < 30] == []


def test_each_message_is_on_a_page() -> None:
    page = troubles() + mistakes()

    assert [one for one in FOUND if one.text.replace("`", "'").replace("|", r"\|") not in page] == []


def test_each_error_class_has_an_entry() -> None:
    every = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, PinetError)}
    entries = {name for group in GROUPS for name in group.errors}

    # The page of mistakes is about ConfigError. The root of the tree is never raised.
    assert every - entries == {PinetError.__name__, ConfigError.__name__}


def test_a_message_that_no_group_has_is_found() -> None:
    assert group_of(Message("NewError", "the new thing failed", "", "lab/new.py")) is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('raise LabError(f"{node} is off", "switch it on")', ("LabError", "... is off", "switch it on")),
        ('raise LabError("off", act=f"ask {who}")', ("LabError", "off", "ask ...")),
        ('def f():\n    text = "it is off"\n    raise LabError(text)', ("LabError", "it is off", "")),
        ('raise LabError("off\\n  -> switch it on")', ("LabError", "off", "switch it on")),
    ],
)
def test_message_and_cure_are_read_from_the_source(source: str, expected: tuple[str, str, str]) -> None:
    assert list(of_module(ast.parse(source), {LabError.__name__})) == [expected]
