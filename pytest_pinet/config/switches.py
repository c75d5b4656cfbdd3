"""Resolves the switches of a lab: which settings each backend accepts, and which values they can have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from pytest_pinet.catalogue.load import built_in
from pytest_pinet.config.schema import SwitchSection
from pytest_pinet.config.section import validated
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError, mistake_in
from pytest_pinet.execution.files import exists, is_file
from pytest_pinet.execution.names import quoted, unknown
from pytest_pinet.model.fields import Name
from pytest_pinet.model.forms import DEVICE, NAME, USER, Template, snmp_address, ssh_address
from pytest_pinet.model.lab import Switch
from pytest_pinet.model.quantities import parse_duration

T = TypeVar("T")
SNMP_VERSIONS = ("1", "2c", "3")
AUTH_PROTOCOLS = ("md5", "sha", "sha224", "sha256", "sha384", "sha512")
PRIV_PROTOCOLS = ("des", "3des", "aes", "aes192", "aes256")
LEAST_TIMEOUT_S = 0.1
_RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")


def _number(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text) <= 4094:
        raise ValueError(f"expected a number from 1 to 4094, got {quoted(text)}")
    return int(text)


def _vlan_range(text: str) -> range:
    match = _RANGE.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= 4094:
        raise ValueError(f"expected an ascending range of VLANs such as '3900-3999', got {quoted(text)}")
    return range(int(match[1]), int(match[2]) + 1)


def seconds(text: str) -> float:
    """Parse a duration, or a plain number of seconds. Raises ValueError."""
    return parse_duration(f"{text} s" if re.fullmatch(r"[0-9.]+", text) else text)


def timeout(text: str) -> float:
    """Parse the timeout of a switch, in seconds. Raises ValueError."""
    return _within(text, LEAST_TIMEOUT_S, 300.0, "from 100 ms to 5 min")


def _latency(text: str) -> float:
    return _within(text, 0.0, 3600.0, "of at most 1 h")


def _within(text: str, least_s: float, most_s: float, words: str) -> float:
    value = seconds(text)
    if not least_s <= value <= most_s:
        raise ValueError(f"expected a time {words}, got {quoted(text)}")
    return value


def _line(text: str) -> str:
    if not text.isprintable() or len(text) > 500:
        raise ValueError(f"expected a text of one line, got {quoted(text)}")
    return text


def _word(text: str) -> str:
    if not text.strip():
        raise ValueError(f"expected a text, got {quoted(text)}")
    return _line(text)


def _keyfile(text: str) -> str:
    if not text.strip() or text.startswith("-"):
        raise ValueError(f"expected the path of a key, got {quoted(text)}")
    if exists(text) and not is_file(text):
        raise ValueError(f"expected the path of a key, but {quoted(text)} is not a regular file")
    return _line(text)


def _one_of(accepted: Collection[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in accepted:
            raise ValueError(f"expected one of {', '.join(accepted)}, got {quoted(text)}")
        return text

    return check


# Settings of every switch that can put ports into VLANs. The VLAN range is reserved for tests' groups of ports.
_VLAN_SETTINGS = {"default_vlan": _number, "group_vlans": _vlan_range, "counter_latency": _latency}
# The settings of each backend, with their checks. Backends that are not listed accept any setting.
_SETTINGS: Mapping[str, Mapping[str, Callable[[str], object]]] = {
    "cli": {
        "address": ssh_address,
        "username": USER.check,
        **dict.fromkeys(("password", "secret", "families"), _line),
        "keyfile": _keyfile,
        "family": NAME.check,
        "timeout": timeout,
        **_VLAN_SETTINGS,
    },
    "fixed": {},
    "linux": {"address": ssh_address, "default_group": DEVICE.check, "keyfile": _keyfile, **_VLAN_SETTINGS},
    "snmp": {
        "address": snmp_address,
        "version": _one_of(SNMP_VERSIONS),
        **dict.fromkeys(("community", "write_community"), _word),
        "user": USER.check,
        "keyfile": _keyfile,
        "proxy": ssh_address,
        "auth_protocol": _one_of(AUTH_PROTOCOLS),
        "auth_key": _word,
        "priv_protocol": _one_of(PRIV_PROTOCOLS),
        "priv_key": _word,
        "timeout": timeout,
        "poe_group": _number,
        "read_only": _one_of(("true", "false")),
        **_VLAN_SETTINGS,
    },
}
_REQUIRED = {"cli": ("family", "address"), "linux": ("address",), "snmp": ("address",)}


def read_switches(pinet: Mapping[str, object], document: Document) -> dict[str, Switch]:
    """Return the switches of a lab file by name. Raises ConfigError."""
    path = ("pinet", "switches")
    sections = validated(dict[Name, SwitchSection], pinet.get("switches", {}), document, path)
    return {name: _switch(name, section, document) for name, section in sections.items()}


def _switch(name: str, section: SwitchSection, document: Document) -> Switch:
    path = ("pinet", "switches", name)
    settings: dict[str, str] = dict(section.model_extra or {})
    checks = _SETTINGS.get(section.backend, _VLAN_SETTINGS)
    for key in settings:
        if section.backend in _SETTINGS and key not in checks:
            message = unknown("key", key, ["backend", "ports", *checks], ".".join(path))
            raise ConfigError(message, document.key((*path, key)))
    for key in _REQUIRED.get(section.backend, ()):
        if key not in settings:
            message = f"{'.'.join(path)} lacks the key '{key}', which backend '{section.backend}' needs"
            raise ConfigError(message, document.key(path))
    # The settings of all backends are fields of the switch. A switch with very many ports needs more VLANs.
    usual = range(min(Switch.group_vlans.start, Switch.group_vlans.stop - len(section.ports)), Switch.group_vlans.stop)
    groups = _taken(settings, "group_vlans", _vlan_range, path, document) or usual
    default_vlan = _taken(settings, "default_vlan", _number, path, document) or Switch.default_vlan
    latency_s = _taken(settings, "counter_latency", _latency, path, document)
    for key, text in settings.items():
        # A template is filled in only when the lab is up.
        if key in checks and not isinstance(text, Template):
            _parsed(key, text, checks[key], path, document)
    where = document.key(path)
    switch = Switch(name, section.backend, tuple(section.ports), settings, where, groups, default_vlan, latency_s)
    _check_together(switch, path, document)
    return switch


def _taken(
    settings: dict[str, str], key: str, parse: Callable[[str], T], path: tuple[str, ...], document: Document
) -> T | None:
    """Remove a setting and return its value; None if the lab file does not have it."""
    return _parsed(key, settings.pop(key), parse, path, document) if key in settings else None


def _parsed(key: str, text: str, parse: Callable[[str], T], path: tuple[str, ...], document: Document) -> T:
    with mistake_in(".".join((*path, key)), document.value((*path, key))):
        # YAML reads yes, no, on and off as true and false. Only a key for a yes or no has such a value.
        if isinstance(_written(document, (*path, key)), bool) and key != "read_only":
            raise ValueError(f"expected a text in quotes, got {text}")
        return parse(text)


def _written(document: Document, path: tuple[str, ...]) -> object:
    value = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _check_together(switch: Switch, path: tuple[str, ...], document: Document) -> None:
    """Check the settings that depend on each other."""
    settings, where = switch.settings, ".".join(path)
    if switch.backend != "fixed" and len(switch.group_vlans) < len(switch.ports):
        message = f"{where} has {len(switch.ports)} ports, but only {len(switch.group_vlans)} VLANs in group_vlans; "
        raise ConfigError(f"{message}expected one VLAN for each port", document.value((*path, "group_vlans")))
    if switch.default_vlan in switch.group_vlans:
        message = f"{where}: default_vlan {switch.default_vlan} is one of the group_vlans, which are reserved for tests"
        raise ConfigError(message, document.value((*path, "default_vlan")))
    family = settings.get("family")
    # A template, and a family of the user's own file, are read when the lab is up.
    is_built_in = switch.backend == "cli" and "families" not in settings and not isinstance(family, Template)
    if is_built_in and family not in built_in():
        raise ConfigError(unknown("switch family", str(family), built_in()), document.value((*path, "family")))
    name, address = settings.get("username"), settings.get("address", "")
    if switch.backend == "cli" and name is not None and not isinstance(name, Template):
        user = None if isinstance(address, Template) else ssh_address(address).user
        if user not in (None, name):
            message = f"{where} has two users, '{user}' in the address and '{name}' in the key 'username'; remove one"
            raise ConfigError(message, document.value((*path, "username")))
    if switch.backend != "snmp":
        return
    if "keyfile" in settings and "proxy" not in settings:
        message = f"{where}: the key 'keyfile' is for the login at the proxy; add `proxy: ssh://user@host`"
        raise ConfigError(message, document.key((*path, "keyfile")))
    version = settings.get("version", "2c")
    wrong = ("community", "write_community") if version == "3" else ("user", "auth_key", "priv_key")
    for key in wrong:
        if key in settings:
            message = f"{where}: SNMP version {version} does not use the key '{key}'"
            raise ConfigError(message, document.key((*path, key)))
    if version == "3":
        for key in ("user", "auth_key", "priv_key"):
            if key not in settings:
                raise ConfigError(f"{where} lacks the key '{key}', which SNMP version 3 needs", document.key(path))
