"""Checks what labgrid reads from a lab file: template variables, imports, and addresses of places and nodes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path as FilePath

from pytest_pinet.config.section import named
from pytest_pinet.config.yaml_lines import Document, Path, substitute
from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.files import is_file
from pytest_pinet.execution.names import shown
from pytest_pinet.model.forms import HOST, MAX_PORT, PLACE, USER, Template, parse_address

# Variables that users and launchers set.
_FREE = "LG_"


def _port(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_PORT:
        raise ValueError(f"expected a port from 1 to {MAX_PORT}, got {shown(value)}")


def _coordinator(value: object) -> None:
    form = "HOST:PORT such as bench.example.org:20408"
    if not isinstance(value, str):
        raise ValueError(f"expected {form}, got {shown(value)}")
    parse_address(value, "", form, user=False)


def _outlet(value: object) -> None:
    # The user and password of a power switch are a part of its URL.
    if not isinstance(value, str) or not _URL.fullmatch(value):
        HOST.check(value)


_URL = re.compile(r"https?://[!-~]{1,500}")
# The values of labgrid's resources and drivers that become words of commands, or addresses of connections.
_CHECKS: Mapping[tuple[str, str], Callable[[object], object]] = {
    ("NetworkService", "address"): HOST.check,
    ("NetworkService", "username"): USER.check,
    ("NetworkService", "port"): _port,
    ("NetworkSerialPort", "host"): HOST.check,
    ("NetworkSerialPort", "port"): _port,
    ("NetworkPowerPort", "host"): _outlet,
    ("RemotePlace", "name"): PLACE.check,
    ("SSHDriver", "username"): USER.check,
    ("PiSSHDriver", "username"): USER.check,
}


@dataclass(frozen=True)
class Part:
    """One resource or driver of a target: its class, its arguments, and its path in the file."""

    cls: str
    arguments: Mapping[str, object]
    path: Path


def parts_of(target: str, kind: str, document: Document) -> list[Part]:
    """Return the resources or drivers (``kind``) of a target, in each form that labgrid reads. Raises ConfigError.

    The forms: a mapping from classes to arguments, a list of such mappings with one class each, and a list of mappings
    with the class as key ``cls``.
    """
    targets = document.data.get("targets") if isinstance(document.data, dict) else None
    section = targets.get(target) if isinstance(targets, dict) else None
    path: Path = ("targets", target, kind)
    if not isinstance(section, dict) or kind not in section:
        return []
    data = section[kind]
    if isinstance(data, dict):
        return [_part(cls, arguments, (*path, cls), document) for cls, arguments in data.items()]
    if not isinstance(data, list):
        raise ConfigError(f"{named(path)}: expected {_FORM}, got {shown(data)}", document.value(path))
    found = []
    for index, entry in enumerate(data):
        here = (*path, index)
        if not isinstance(entry, dict) or not ("cls" in entry or len(entry) == 1):
            message = f"{named(here)}: expected one class with its arguments, or the key 'cls'; got {shown(entry)}"
            raise ConfigError(message, document.value(here))
        if "cls" in entry:
            found.append(_part("", entry, here, document))
        else:
            found += [_part(cls, arguments, (*here, cls), document) for cls, arguments in entry.items()]
    return found


_FORM = "a mapping or a list of classes with their arguments"


def _part(cls: str, arguments: object, path: Path, document: Document) -> Part:
    if not isinstance(arguments, dict):
        message = f"{named(path)}: expected a mapping of arguments ({{}} for none), got {shown(arguments)}"
        raise ConfigError(message, document.value(path))
    chosen = arguments.get("cls", cls)
    for key, value, kind in (("cls", chosen, str), ("name", arguments.get("name"), str | None)):
        if not isinstance(value, kind):
            raise ConfigError(f"{named(path)}.{key}: expected a name, got {shown(value)}", document.value((*path, key)))
    if not isinstance(arguments.get("bindings", {}), dict):
        message = f"{named(path)}.bindings: expected a mapping, got {shown(arguments['bindings'])}"
        raise ConfigError(message, document.value((*path, "bindings")))
    return Part(str(chosen), arguments, path)


def check_labgrid_keys(document: Document, used: Collection[str], all_set: bool) -> None:
    """Check labgrid's part of a lab file, but only the targets that are ``used``. Raises ConfigError.

    ``all_set``: the variables ``LG_*`` must be set.
    """
    data = document.data if isinstance(document.data, dict) else {}
    for path, value in _scalars(data, ()):
        if isinstance(value, Template):
            _check_template(value, path, document, all_set)
    for target in used:
        for part in (*parts_of(target, "resources", document), *parts_of(target, "drivers", document)):
            for key, value in part.arguments.items():
                check = _CHECKS.get((part.cls, key))
                if check is not None and not isinstance(value, Template):
                    _check(check, value, (*part.path, key), document)
    options = data.get("options")
    if options is not None and not isinstance(options, dict):
        raise ConfigError(f"options: expected a mapping, got {shown(options)}", document.value(("options",)))
    if isinstance(options, dict) and "coordinator_address" in options:
        address = options["coordinator_address"]
        if not isinstance(address, Template):
            _check(_coordinator, address, ("options", "coordinator_address"), document)
    _check_imports(data.get("imports"), document)


def unset_variables(document: Document) -> dict[str, Where]:
    """Return the variables of templates that are not set, with the place of the first template of each."""
    found: dict[str, Where] = {}
    for path, value in _scalars(document.data if isinstance(document.data, dict) else {}, ()):
        for name in value.get_identifiers() if isinstance(value, Template) else ():
            if name.startswith(_FREE) and name not in os.environ:
                found.setdefault(name, document.value(path))
    return found


def _scalars(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _scalars(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _scalars(inner, (*path, index))
    elif path:
        yield path, value


def _check(check: Callable[[object], object], value: object, path: Path, document: Document) -> None:
    with mistake_in(named(path), document.value(path)):
        check(value)


def _check_template(text: Template, path: Path, document: Document, all_set: bool) -> None:
    values = dict(os.environ)
    if not all_set:
        values |= {name: "" for name in text.get_identifiers() if name.startswith(_FREE)}
    try:
        substitute(text, values, document.file)
    except ConfigError as error:
        raise ConfigError(error.message, document.value(path)) from None


def _check_imports(imports: object, document: Document) -> None:
    if imports is None and document.value_lines.get(("imports",)) is None:
        return
    if not isinstance(imports, list) or not all(isinstance(name, str) for name in imports):
        raise ConfigError(f"imports: expected a list of modules, got {shown(imports)}", document.value(("imports",)))
    for index, name in enumerate(imports):
        where = document.value(("imports", index))
        if name.endswith(".py"):
            if not is_file(FilePath(document.file).parent / FilePath(name).expanduser()):
                raise ConfigError(f"imports: there is no file {shown(name)}", where)
        elif not _exists(name, FilePath(document.file)):
            message = f"imports: there is no module {shown(name)}; install its package, or correct the name"
            raise ConfigError(message, where)


def _exists(name: str, file: FilePath) -> bool:
    """Return whether Python finds a module, without importing it or its packages."""
    if name in sys.modules:
        return True
    # pytest adds folders of tests and of its option `pythonpath`, which are mostly near.
    near = [str(FilePath.cwd()), str(file.absolute().parent)]
    inside: list[str] | None = None
    for number in range(name.count(".") + 1):
        spec = _found(".".join(name.split(".")[: number + 1]), inside, near)
        if spec is None:
            return False
        inside = list(spec.submodule_search_locations or ())
    return True


def _found(name: str, inside: list[str] | None, near: list[str]) -> ModuleSpec | None:
    """Return what the finders of Python, also that of an editable installation, know of a module."""
    # Some finders have an interface of older Pythons only.
    finders = [find for finder in sys.meta_path if (find := getattr(finder, "find_spec", None)) is not None]
    found = next((spec for find in finders if (spec := find(name, inside)) is not None), None)
    return found if found is not None or inside is not None else PathFinder.find_spec(name, near)
