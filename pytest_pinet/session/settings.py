"""Reads the settings of a run from the command line, the environment and the configuration file of pytest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import Where, mistake_in
from pytest_pinet.session.option_table import SETTINGS, RunSetting, Value

# xdist sends the options of its controller to its workers, so what is stored there is read only once.
_STORED = "pinet_settings"
# What the user of `pinet gate` wrote in place of our options: a mapping in ``config.option``.
SPELLED = "pinet_spelled"
# Separates the values of a repeatable setting in the environment. In the configuration file, each has its own line.
SEPARATOR = ";"


class Source(StrEnum):
    """Where a value was written. The first source that has a value counts; values are never merged."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    CONFIGURATION = "configuration file"
    DEFAULT = "default"


@dataclass(frozen=True)
class Written:
    """The texts of a setting as they were written. ``name`` is what messages call them."""

    texts: tuple[str, ...]
    source: Source
    name: str


class Settings:
    """The parsed values of all settings by name, such as ``error-rate``, and where each was written."""

    def __init__(self, values: dict[str, Any], written: dict[str, Written]) -> None:
        self._values = values
        self.written = written

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def origin(self, name: str) -> str:
        """Return what messages call the value of a setting: an option, a variable, or file, line and key."""
        return self.written[name].name

    @property
    def labs_on_command_line(self) -> tuple[str, ...]:
        """The lab files of the command line, whatever other places say."""
        lab = self.written["lab"]
        return lab.texts if lab.source is Source.COMMAND_LINE else ()

    def repeated(self) -> list[str]:
        """Return the options that make another run measure and judge as this one does."""
        written = [(one, self.written[one.name]) for one in SETTINGS if one.repeated]
        return [
            one.option if one.metavar is None else f"{one.option}={text}"
            for one, found in written
            if found.source is not Source.DEFAULT
            for text in found.texts
            if one.parse(text) is not False
        ]


def settings(config: pytest.Config) -> Settings:
    """Return the settings of a run. Raises ConfigError, which names where the bad value was written.

    ``config.getoption("--pinet-...")`` returns the same values afterwards, in xdist's workers as well.
    """
    stored = getattr(config.option, _STORED, None)
    if stored is None:
        written = {one.name: find(config, one) for one in SETTINGS}
        values = {one.name: _parsed(one, written[one.name]) for one in SETTINGS}
        plain = {name: (list(one.texts), str(one.source), one.name) for name, one in written.items()}
        stored = (values, plain)
        setattr(config.option, _STORED, stored)
    values, plain = stored
    for one in SETTINGS:
        setattr(config.option, one.variable.lower(), values[one.name])
    found = {name: Written(tuple(texts), Source(source), called) for name, (texts, source, called) in plain.items()}
    return Settings(values, found)


def _parsed(one: RunSetting, written: Written) -> Value | list[Value]:
    values: list[Value] = []
    for text in written.texts:
        with mistake_in(written.name):
            values.append(one.parse(text))
    if one.repeatable:
        return values
    return values[0] if values else None


def is_written(config: pytest.Config, one: RunSetting) -> bool:
    """Return whether a setting has any value, without parsing it."""
    return hasattr(config.option, _STORED) or find(config, one).source is not Source.DEFAULT


def find(config: pytest.Config, one: RunSetting) -> Written:
    """Find the texts of a setting."""
    if (given := config.getoption(one.option)) not in (None, False, []):
        texts = given if isinstance(given, list) else ["true" if given is True else str(given)]
        return Written(tuple(texts), Source.COMMAND_LINE, _option_name(config, one.option))
    is_overridden = _is_overridden(config, one.key)
    if not is_overridden and (variable := os.environ.get(one.variable)):
        texts = re.split(rf"[{SEPARATOR}\n]", variable) if one.repeatable else [variable]
        return Written(tuple(text.strip() for text in texts if text.strip()), Source.ENVIRONMENT, one.variable)
    if key := config.getini(one.key):
        texts = key if isinstance(key, list) else [key]
        source = Source.COMMAND_LINE if is_overridden else Source.CONFIGURATION
        if one.from_folder is not None:
            texts = [one.from_folder(text, config.rootpath) for text in texts]
        return Written(tuple(texts), source, _key_name(config, one.key))
    name = _spelled(config).get(one.option, one.option)
    return Written((one.default,) if one.default is not None else (), Source.DEFAULT, name)


def _spelled(config: pytest.Config) -> Mapping[str, str]:
    spelled: Mapping[str, str] = getattr(config.option, SPELLED, {})
    return spelled


def _option_name(config: pytest.Config, option: str) -> str:
    if option in _spelled(config):
        return _spelled(config)[option]
    given = config.invocation_params.args
    if hasattr(config, "workerinput") or any(str(word).partition("=")[0] == option for word in given):
        return option
    variable = os.environ.get("PYTEST_ADDOPTS", "")
    where = "PYTEST_ADDOPTS" if re.search(rf"(^|\s|['\"]){option}([=\s]|$)", variable) else "addopts"
    return f"{option} in {where}"


def _is_overridden(config: pytest.Config, key: str) -> bool:
    """Return whether ``-o`` gives a key of the configuration file on the command line."""
    return any(text.partition("=")[0].strip() == key for text in config.getoption("override_ini", None) or ())


def _key_name(config: pytest.Config, key: str) -> str:
    if _is_overridden(config, key):
        return f"-o {key}"
    return f"{_line_of(config.inipath, key)}: {key}" if config.inipath is not None else key


def _line_of(file: Path, key: str) -> Where:
    """Return the line of a key in an INI or TOML file; the file alone if no line begins with the key."""
    shown = os.path.relpath(file)
    pattern = re.compile(rf"""\s*["']?{key}["']?\s*[=:]""")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return Where(shown)
    return Where(shown, next((number for number, line in enumerate(lines, 1) if pattern.match(line)), None))
