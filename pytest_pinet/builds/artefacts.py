"""Reads the JSON in which TuxMake and KernelCI describe a kernel build: its files, and where its source comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_pinet.builds.contents import is_tree_of_pi
from pytest_pinet.builds.listing import OVERLAYS
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.json_text import parse_json
from pytest_pinet.execution.names import quoted
from pytest_pinet.model.build import BuildSource

METADATA = "metadata.json"
FORM = "the metadata.json of TuxMake or KernelCI, or a build node of KernelCI's API"
_KERNELS = ("Image", "Image.gz", "vmlinuz", "zImage")
_MODULES = ("modules.tar.xz", "modules.tar.gz", "modules.tar")
_CONFIGS = (".config", "config")


@dataclass(frozen=True)
class Artefact:
    """A file of a build: its path below the folder of the metadata, and its URL if the metadata have it."""

    name: str
    url: str = ""


@dataclass(frozen=True)
class Artefacts:
    """The files of a build that pinet uses. ``device_trees`` are single files, or one archive."""

    kernel: Artefact
    modules: Artefact | None
    device_trees: tuple[Artefact, ...]
    config: Artefact | None
    source: BuildSource


class _Loose(BaseModel):
    # Others may add keys at any time.
    model_config = ConfigDict(extra="ignore", frozen=True)


class _TuxResults(_Loose):
    status: str
    artifacts: dict[str, list[str]] = {}


class _TuxGit(_Loose):
    git_url: str = ""
    git_branch: str = ""
    git_commit: str = ""
    git_describe: str = ""


class _TuxCompiler(_Loose):
    version_full: str = ""


class _TuxMake(_Loose):
    results: _TuxResults
    git: _TuxGit = _TuxGit()
    compiler: _TuxCompiler = _TuxCompiler()


class _KernelCiBuild(_Loose):
    compiler: str = ""
    compiler_version: str = ""
    result: str | None = None


class _KernelCi(_Loose):
    build: _KernelCiBuild
    artifacts: dict[str, str] = {}


class _Revision(_Loose):
    url: str = ""
    branch: str = ""
    commit: str = ""
    describe: str | None = None


class _NodeData(_Loose):
    kernel_revision: _Revision
    compiler: str | None = None


class _ApiNode(_Loose):
    result: str | None = None
    data: _NodeData
    artifacts: dict[str, str] | None = None


ModelT = TypeVar("ModelT", bound=BaseModel)


def read_artefacts(data: bytes, where: Where, place: str, beside: Collection[str] = ()) -> Artefacts:
    """Return what a JSON text says of a build. Raises ConfigError.

    ``place`` is the folder or URL of the build. ``beside`` are the paths of the files in this folder: a folder of
    KernelCI that was not uploaded does not list them.
    """
    try:
        found = parse_json(data)
    except ValueError as error:
        raise ConfigError(f"expected {FORM}, but it is not JSON ({error})", where) from None
    if isinstance(found, dict) and "results" in found:
        return _of_tuxmake(_checked(_TuxMake, found, where), where, place)
    if isinstance(found, dict) and isinstance(found.get("data"), dict):
        return _of_node(_checked(_ApiNode, found, where), where, place)
    if isinstance(found, dict) and "build" in found:
        return _of_kernelci(_checked(_KernelCi, found, where), where, place, beside)
    raise ConfigError(f"expected {FORM}; found none of their keys 'results', 'build' and 'data'", where)


def _checked(model: type[ModelT], found: Mapping[str, object], where: Where) -> ModelT:
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"expected {FORM}; key '{key}': {first['msg']}", where) from None


def _of_tuxmake(found: _TuxMake, where: Where, place: str) -> Artefacts:
    _check_passed("TuxMake", found.results.status, where)
    own = found.results.artifacts
    first = {key: Artefact(_plain(names[0], where)) for key, names in own.items() if names}
    if "kernel" not in first:
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
    trees = tuple(first[key] for key in ("dtbs", "dtbs-legacy") if key in first)[:1]
    return Artefacts(first["kernel"], first.get("modules"), trees, first.get("config"), source)


def _of_kernelci(found: _KernelCi, where: Where, place: str, beside: Collection[str]) -> Artefacts:
    _check_passed("KernelCI", found.build.result or "pass", where)
    known = {name: Artefact(_plain(name, where), url) for name, url in found.artifacts.items()}
    known = known or {name: Artefact(name) for name in sorted(beside)}
    build = found.build
    source = BuildSource(made_by="KernelCI", place=place, compiler=build.compiler_version or build.compiler)
    return _sorted(known, source, where)


def _of_node(found: _ApiNode, where: Where, place: str) -> Artefacts:
    """Read a node of KernelCI's API. Its keys are roles, or names with underscores; the URLs have the real names."""
    _check_passed("KernelCI", found.result or "pass", where)
    known: dict[str, Artefact] = {}
    for key, url in (found.artifacts or {}).items():
        name = PurePosixPath(unquote(urlsplit(url).path)).name
        folder = OVERLAYS if f"/{OVERLAYS}/" in key else "dtbs"
        name = f"{folder}/{name}" if name.endswith((".dtb", ".dtbo")) else name
        known[name] = Artefact(_plain(name, where), url)
    of = found.data.kernel_revision
    source = BuildSource(
        made_by="KernelCI",
        place=place,
        tree=of.url,
        branch=of.branch,
        commit=of.commit,
        describe=of.describe or "",
        compiler=found.data.compiler or "",
    )
    return _sorted(known, source, where)


def _sorted(known: Mapping[str, Artefact], source: BuildSource, where: Where) -> Artefacts:
    """Return the files by their names, which KernelCI does not change."""
    kernel = _first(known, _KERNELS)
    if kernel is None:
        names = ", ".join(list(known)[:5]) or "no files"
        message = f"this build of {source.made_by} names no kernel for a Raspberry Pi"
        raise ConfigError(f"{message}; expected Image, Image.gz or zImage, found {names}", where)
    trees = tuple(one for name, one in known.items() if is_tree_of_pi(name))
    return Artefacts(kernel, _first(known, _MODULES), trees, _first(known, _CONFIGS), source)


def _first(known: Mapping[str, Artefact], names: Collection[str]) -> Artefact | None:
    return next((known[name] for name in names if name in known), None)


def _check_passed(tool: str, status: str, where: Where) -> None:
    if status.lower() != "pass":
        raise ConfigError(f"{tool} reports {quoted(status)} for this build, so there is nothing to measure", where)


def _plain(name: str, where: Where) -> str:
    """Return the path of an artefact. Raises ConfigError if it leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable() or not path.name:
        raise ConfigError(f"the path of an artefact leads out of the folder of the build: {quoted(name)}", where)
    return str(path)
