"""Settings in the environment and in pytest's configuration file, for commands that do not start pytest.

pytest's own reader is private, and its import takes 65 ms, for which each completion of a shell would wait. Tests
compare both readers for each kind of file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import shown
from pytest_pinet.session.option_table import SETTINGS

# In the order of pytest. These files are pytest's own, so they count even without a section.
_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")


def configured(name: str) -> str | None:
    """Return the value of a setting such as ``lab``; None if it has none. Raises ConfigError for a broken file."""
    (one,) = (one for one in SETTINGS if one.name == name)
    if variable := os.environ.get(one.variable):
        return variable
    for path in _files(Path.cwd()):
        keys = _keys(path)
        if keys is not None:
            value = keys.get(one.key)
            if not value:
                return None
            if not isinstance(value, str):
                raise ConfigError(f"{one.key}: expected a text, got {shown(value)}", Where(str(path)))
            return one.from_folder(value, path.parent) if one.from_folder is not None else value
    return None


def _files(folder: Path) -> Iterator[Path]:
    for base in (folder, *folder.parents):
        yield from (path for file in (*_OWN, *_SHARED) if (path := base / file).is_file())


def _keys(path: Path) -> dict[str, object] | None:
    """Return the keys of pytest in a file, or None if the file is not pytest's."""
    try:
        text = path.read_text(encoding="utf-8")
        found = _toml(text, path.name) if path.suffix == ".toml" else _ini(text, path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"this is no configuration of pytest: {error}", Where(str(path))) from None
    return {} if found is None and path.name in _OWN else found


def _toml(text: str, name: str) -> dict[str, object] | None:
    import tomllib

    data = tomllib.loads(text)
    if name in _OWN:
        return _table(data, "pytest")
    tool = _table(data, "tool") or {}
    own = _table(tool, "pytest")
    return _table(own, "ini_options") or own if own is not None else None


def _table(data: dict[str, object], key: str) -> dict[str, object] | None:
    found = data.get(key)
    return found if isinstance(found, dict) else None


def _ini(text: str, path: Path) -> dict[str, object] | None:
    import iniconfig

    section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    try:
        found = iniconfig.IniConfig(str(path), data=text)
    except iniconfig.ParseError as error:
        raise ValueError(error) from None
    return dict(found[section].items()) if section in found else None
