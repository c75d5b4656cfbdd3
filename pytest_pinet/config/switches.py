"""The switches of a lab."""

from __future__ import annotations

from pytest_pinet.config.names import unknown
from pytest_pinet.config.schema import SwitchSection
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.lab import Switch

# The settings that a backend takes, and whether it needs them; a backend that is not here takes what it is given.
SETTINGS: dict[str, dict[str, bool]] = {
    "fixed": {},
    "linux": {"address": True, "default_group": False, "keyfile": False},
}


def resolve_switch(name: str, section: SwitchSection, document: Document) -> Switch:
    """One switch with the settings of its backend. Raises ConfigError."""
    path = ("pinet", "switches", name)
    settings: dict[str, str] = dict(section.model_extra or {})
    known = SETTINGS.get(section.backend)
    if known is not None:
        for key in settings:
            if key not in known:
                message = unknown("key", key, ["backend", "ports", *known], ".".join(path))
                raise ConfigError(message, document.key((*path, key)))
        for key, needed in known.items():
            if needed and key not in settings:
                message = f"{'.'.join(path)} lacks the key '{key}', which backend '{section.backend}' needs"
                raise ConfigError(message, document.key(path))
    return Switch(name, section.backend, tuple(section.ports), settings, document.key(path))
