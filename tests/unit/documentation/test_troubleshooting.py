"""Every error class and every message of the source has an entry with cause and cure."""

from __future__ import annotations

import ast
import fnmatch

import pytest

from pytest_pinet import errors
from pytest_pinet.errors import LabError, PinetError
from tools.site.messages import PACKAGE, Message, messages, of_module, places
from tools.site.mistakes import MISTAKES, mistakes
from tools.site.troubleshooting import GROUPS, Group, troubles

FOUND = messages()


def entry_of(message: Message) -> Group | None:
    return next((group for group in (*GROUPS, *MISTAKES) if group.has(message)), None)


def test_each_place_that_raises_an_error_has_an_entry_with_cause_and_cure() -> None:
    raised = set(places())

    assert len(raised) > 200
    assert [one for one in sorted(raised) if entry_of(Message(one[0], "", "", one[1])) is None] == []
    assert [one.title for one in (*GROUPS, *MISTAKES) if len(one.cause) < 40 or len(one.cure) < 30] == []


def test_each_message_is_on_a_page() -> None:
    page = troubles() + mistakes()

    assert len(FOUND) > 400
    assert [one for one in FOUND if one.text.replace("`", "'").replace("|", r"\|") not in page] == []


def test_each_error_class_has_an_entry() -> None:
    every = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, PinetError)}
    entries = {name for group in (*GROUPS, *MISTAKES) for name in group.errors}

    # The root of the tree is never raised.
    assert every - entries == {PinetError.__name__}


def test_each_entry_has_modules_that_are_there() -> None:
    paths = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}

    assert [glob for group in (*GROUPS, *MISTAKES) for glob in group.modules if not fnmatch.filter(paths, glob)] == []


def test_a_message_that_no_group_has_is_found() -> None:
    assert entry_of(Message("NewError", "the new thing failed", "", "lab/new.py")) is None
    assert entry_of(Message("ConfigError", "the new thing is wrong", "", "new/new.py")) is None


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
