"""The lab file: a labgrid environment with one more key, ``pinet``."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from pytest_pinet.config.build import build
from pytest_pinet.config.file_text import read_text
from pytest_pinet.config.lab_of_file import LabOfFile
from pytest_pinet.config.messages import first_error
from pytest_pinet.config.schema import LABGRID_KEYS, PinetSection
from pytest_pinet.config.yaml_lines import Document, parse
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import nearest, shown, unknown

WHAT = "a lab file (a labgrid environment with a 'pinet' key)"


def load(path: str | Path) -> LabOfFile:
    """Read, check and resolve a lab file.

    Raises ConfigError: one sentence with the path as it was given, the line, the offending value and what is accepted.
    """
    document = parse(read_text(path, WHAT), str(path))
    data = _top_level(document)
    try:
        section = PinetSection.model_validate(data["pinet"])
    except ValidationError as error:
        raise first_error(error, PinetSection, document, ("pinet",)) from None
    return build(section, _targets(data, document), document)


def _top_level(document: Document) -> dict[str, object]:
    data = document.data
    if data is None:
        raise ConfigError(f"the file is empty; expected {WHAT}", document.key(()))
    if not isinstance(data, dict):
        raise ConfigError(f"expected {WHAT}, got {shown(data)}", document.value(()))
    accepted = ["pinet", *LABGRID_KEYS]
    for key in data:
        if key not in accepted and not key.startswith("x-"):
            raise ConfigError(unknown("key", key, accepted), document.key((key,)))
    if "pinet" not in data:
        near = nearest("pinet", data)
        hint = f"; did you mean '{near}'?" if near else ""
        raise ConfigError(f"the key 'pinet' is missing{hint}; expected {WHAT}", document.key(()))
    return data


def _targets(data: dict[str, object], document: Document) -> dict[str, object] | None:
    """Return labgrid's targets by name, or None if the file has none."""
    targets = data.get("targets")
    if targets is None or isinstance(targets, dict):
        return targets
    raise ConfigError(f"targets: expected a mapping, got {shown(targets)}", document.value(("targets",)))
