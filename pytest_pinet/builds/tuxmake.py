"""Reads a kernel that TuxMake built, from the ``metadata.json`` that describes the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_pinet.builds.archives import TARS
from pytest_pinet.builds.contents import BuildContents, unpack
from pytest_pinet.builds.listing import existing, filled
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.json_text import parse_json
from pytest_pinet.execution.names import quoted
from pytest_pinet.execution.path_kind import is_file
from pytest_pinet.model.build import BuildFileRole, BuildSource

METADATA = "metadata.json"
FORM = "the metadata.json of TuxMake"
_MAX_METADATA = 2**24


@dataclass(frozen=True)
class TuxMakeBuild:
    """The files of a build by role, and the kernel's configuration; as paths in the folder of the build."""

    files: Mapping[BuildFileRole, str]
    config: str | None
    source: BuildSource


class _Loose(BaseModel):
    # TuxMake may add keys at any time.
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Results(_Loose):
    status: str
    artifacts: dict[str, list[str]] = {}


class _Git(_Loose):
    git_url: str = ""
    git_branch: str = ""
    git_commit: str = ""
    git_describe: str = ""


class _Compiler(_Loose):
    version_full: str = ""


class _Metadata(_Loose):
    results: _Results
    git: _Git = _Git()
    compiler: _Compiler = _Compiler()


def is_tuxmake(folder: Path) -> bool:
    """Return whether a folder has TuxMake's metadata. KernelCI's have the same name and other keys."""
    file = folder / METADATA
    return is_file(file) and b'"results"' in _read(file)


def read_metadata(data: bytes, where: Where, place: str) -> TuxMakeBuild:
    """Return what TuxMake says of the build in the folder ``place``. Raises ConfigError."""
    try:
        found = _Metadata.model_validate(parse_json(data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"expected {FORM}; key '{key}': {first['msg']}", where) from None
    except ValueError as error:
        raise ConfigError(f"expected {FORM}, but it is not JSON ({error})", where) from None
    if found.results.status.lower() != "pass":
        status = quoted(found.results.status)
        raise ConfigError(f"TuxMake reports {status} for this build, so there is nothing to measure", where)
    first_of = {key: _plain(names[0], where) for key, names in found.results.artifacts.items() if names}
    if "kernel" not in first_of:
        raise ConfigError(
            "TuxMake built no kernel; name the target: tuxmake -a arm64 config kernel modules dtbs", where
        )
    source = BuildSource(
        made_by="TuxMake",
        place=place,
        tree=found.git.git_url,
        branch=found.git.git_branch,
        commit=found.git.git_commit,
        describe=found.git.git_describe,
        compiler=found.compiler.version_full,
    )
    named = {
        BuildFileRole.KERNEL: first_of["kernel"],
        BuildFileRole.MODULES: first_of.get("modules"),
        BuildFileRole.DEVICE_TREE: first_of.get("dtbs", first_of.get("dtbs-legacy")),
    }
    return TuxMakeBuild({role: name for role, name in named.items() if name}, first_of.get("config"), source)


def _plain(name: str, where: Where) -> str:
    """Return the path of an artefact. Raises ConfigError if it leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable() or not path.name:
        raise ConfigError(f"the path of an artefact leads out of the folder of the build: {quoted(name)}", where)
    return str(path)


def add_tuxmake(parts: BuildContents, folder: Path, where: Where) -> None:
    """Add the files and the source of a build. ``where`` is the place that names the folder. Raises ConfigError."""
    file = filled(folder / METADATA, where, "build")
    found = read_metadata(_read(file), Where(str(file)), str(folder))
    for role, name in found.files.items():
        path = folder / name
        if role is BuildFileRole.MODULES:
            parts.add_modules(path, where)
            continue
        existing(path, where, str(role).replace("_", " "))
        if role is BuildFileRole.KERNEL:
            parts.add(role, [path], where)
        else:
            parts.add_device_trees(unpack([path], where) if path.name.endswith(TARS) else path, where)
    config = folder / found.config if found.config is not None else None
    parts.describe(replace(found.source, config=str(config) if config is not None and is_file(config) else ""))


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_METADATA + 1)
    except OSError as error:
        raise ConfigError(f"this cannot be read ({error.strerror})", Where(str(file))) from None
    if len(data) > _MAX_METADATA:
        raise ConfigError(f"this has more than {_MAX_METADATA // 2**20} MiB", Where(str(file)))
    return data
