"""The known switch families: the plugin's own, and the families in a user's file."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from pydantic import ValidationError

from pytest_pinet.config import yaml_lines
from pytest_pinet.config.messages import first_error
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import shown, unknown
from pytest_pinet.lab.switch.cli_family import Family, merged

_LIKE = "like"


def built_in() -> list[str]:
    """Return the names of the families that come with the plugin."""
    return sorted(file.name[: -len(".yaml")] for file in _folder().iterdir() if file.name.endswith(".yaml"))


def load(name: str, where: Where, own_file: str | None = None) -> Family:
    """Return the family of this name; ``where`` is the place that names it. Raises ConfigError.

    ``own_file`` is a user's YAML file, a mapping of names to families, which comes first. ``like: NAME`` in an entry
    copies another family, own or built in; the keys of the entry override the copy.
    """
    own = None if own_file is None else _own(own_file)
    families: dict[str, object] = {} if own is None else _entries(own)
    if name not in families and name not in built_in():
        raise ConfigError(unknown("switch family", name, [*families, *built_in()]), where)
    document, data = _expanded(name, own, families, [])
    try:
        return Family.model_validate(data)
    except ValidationError as error:
        raise first_error(error, Family, document, (name,)) from None


def _folder() -> Traversable:
    return resources.files("pytest_pinet.catalogue").joinpath("switch_families")


def _own(file: str) -> Document:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the switch families in {file} cannot be read: {error}") from None
    return yaml_lines.parse(text, file)


def _entries(document: Document) -> dict[str, object]:
    if not isinstance(document.data, dict):
        raise ConfigError("expected a mapping of names to switch families", Where(document.file, 1))
    return document.data


def _expanded(name: str, own: Document | None, families: dict[str, object], seen: list[str]) -> tuple[Document, object]:
    """Return the data of a family, with ``like`` resolved, and the document that contains the family."""
    if own is not None and name in families and name not in seen:
        document, data = own, families[name]
    else:
        # Not in the user's file, or it is there and is like the built-in family of the same name.
        document = yaml_lines.parse(_folder().joinpath(f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")
        data = _entries(document)[name]
    if not isinstance(data, dict) or _LIKE not in data:
        return document, data
    like = data[_LIKE]
    if not isinstance(like, str) or like not in {*families, *built_in()} or (like in seen and like not in built_in()):
        where = document.value((name, _LIKE))
        if isinstance(like, str) and like in seen:
            raise ConfigError(f"{name} is like {like}, which is like {name}: copy one of them instead", where)
        raise ConfigError(unknown("switch family", str(like), [*families, *built_in()]), where)
    source, base = _expanded(like, own, families, [*seen, name])
    if not isinstance(base, dict):
        raise ConfigError(f"{like}: expected a mapping, got {shown(base)}", source.value((like,)))
    return document, merged(base, {key: value for key, value in data.items() if key != _LIKE})
