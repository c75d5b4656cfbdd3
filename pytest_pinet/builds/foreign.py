"""Reads a kernel that TuxMake or KernelCI built, from the JSON that describes it: in a folder, or at a URL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import unquote, urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_pinet.builds.archives import TARS
from pytest_pinet.builds.contents import BuildContents, add_device_trees, add_modules, is_tree_of_pi, unpack
from pytest_pinet.builds.listing import OVERLAYS, entries_in, existing, files_in, filled
from pytest_pinet.builds.not_a_build import what_is_url
from pytest_pinet.builds.remote import MAX_METADATA, fetch_files, fetch_metadata
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.json_text import parse_json
from pytest_pinet.execution.names import is_url, quoted
from pytest_pinet.execution.path_kind import is_file, is_folder
from pytest_pinet.model.build import BuildFileRole, BuildSource

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
class ForeignBuild:
    """A build of TuxMake or KernelCI. ``files`` have a kernel; ``config`` is the kernel's configuration."""

    files: Mapping[Artefact, BuildFileRole]
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


def read_artefacts(data: bytes, where: Where, place: str, beside: Collection[str] = ()) -> ForeignBuild:
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


def _of_tuxmake(found: _TuxMake, where: Where, place: str) -> ForeignBuild:
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
    trees = [first[key] for key in ("dtbs", "dtbs-legacy") if key in first][:1]
    return ForeignBuild(_by_role(first["kernel"], first.get("modules"), trees), first.get("config"), source)


def _of_kernelci(found: _KernelCi, where: Where, place: str, beside: Collection[str]) -> ForeignBuild:
    _check_passed("KernelCI", found.build.result or "pass", where)
    known = {name: Artefact(_plain(name, where), url) for name, url in found.artifacts.items()}
    known = known or {name: Artefact(name) for name in sorted(beside)}
    build = found.build
    source = BuildSource(made_by="KernelCI", place=place, compiler=build.compiler_version or build.compiler)
    return _sorted(known, source, where)


def _of_node(found: _ApiNode, where: Where, place: str) -> ForeignBuild:
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


def _sorted(known: Mapping[str, Artefact], source: BuildSource, where: Where) -> ForeignBuild:
    """Return the files by their names, which KernelCI does not change."""
    kernel = _first(known, _KERNELS)
    if kernel is None:
        names = ", ".join(list(known)[:5]) or "no files"
        message = f"this build of {source.made_by} names no kernel for a Raspberry Pi"
        raise ConfigError(f"{message}; expected Image, Image.gz or zImage, found {names}", where)
    trees = [one for name, one in known.items() if is_tree_of_pi(name)]
    return ForeignBuild(_by_role(kernel, _first(known, _MODULES), trees), _first(known, _CONFIGS), source)


def _by_role(kernel: Artefact, modules: Artefact | None, trees: Iterable[Artefact]) -> dict[Artefact, BuildFileRole]:
    """Return the files with their roles. Device trees are single files, or one archive."""
    found = {kernel: BuildFileRole.KERNEL} | ({modules: BuildFileRole.MODULES} if modules is not None else {})
    return found | dict.fromkeys(trees, BuildFileRole.DEVICE_TREE)


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


def is_foreign(place: str) -> bool:
    """Return whether a text names a build of TuxMake or KernelCI."""
    return is_url(place) or place.endswith(".json") or is_file(Path(place) / METADATA)


def add_foreign(parts: BuildContents, place: str, where: Where | None = None) -> None:
    """Add the files and the source of a build. ``where`` is the place that names it. Raises ConfigError."""
    if is_url(place):
        if what := what_is_url(place):
            raise ConfigError(f"{place} is {what}", where or Where(place))
        data, url = fetch_metadata(place, METADATA)
        found = read_artefacts(data, Where(url), place)
        base = f"{place.rstrip('/')}/" if url != place else place
        paths = _downloaded({one: one.url or urljoin(base, one.name) for one in _all(found)})
    else:
        file = Path(place) if Path(place).suffix == ".json" else Path(place) / METADATA
        filled(file, where or Where(place), "build")
        found = read_artefacts(_read(file), Where(str(file)), place, _beside(file.parent, where or Where(place)))
        local = {one: file.parent / one.name for one in _all(found)}
        absent = {one: one.url for one, path in local.items() if one.url and not is_file(path)}
        paths = local | (_downloaded(absent) if absent else {})
    _add(parts, found, paths, where or Where(place))


def _all(found: ForeignBuild) -> list[Artefact]:
    return [*found.files, *([found.config] if found.config is not None else [])]


def _downloaded(urls: dict[Artefact, str]) -> dict[Artefact, Path]:
    folder = fetch_files({one.name: url for one, url in urls.items()})
    return {one: folder / one.name for one in urls}


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_METADATA + 1)
    except OSError as error:
        raise ConfigError(f"this cannot be read ({error.strerror})", Where(str(file))) from None
    if len(data) > MAX_METADATA:
        raise ConfigError(f"this has more than {MAX_METADATA // 2**20} MiB", Where(str(file)))
    return data


def _beside(folder: Path, where: Where) -> list[str]:
    """Return the files of a build folder by their path in it, without the content of archives."""
    trees = folder / "dtbs"
    below = files_in(trees, where) if is_folder(trees) else []
    beside = [folder / entry.name for entry in entries_in(folder, where)]
    return [str(path.relative_to(folder)) for path in (*beside, *below) if is_file(path)]


def _add(parts: BuildContents, found: ForeignBuild, paths: dict[Artefact, Path], where: Where) -> None:
    for one, role in found.files.items():
        if role is BuildFileRole.MODULES:
            add_modules(parts, paths[one], where)
            continue
        path = existing(paths[one], where, str(role).replace("_", " "))
        if role is BuildFileRole.KERNEL:
            parts.add(role, [path], where)
        else:
            add_device_trees(parts, unpack([path], where) if path.name.endswith(TARS) else path, where)
    config = paths[found.config] if found.config is not None else None
    parts.describe(replace(found.source, config=str(config) if config is not None and is_file(config) else ""))
