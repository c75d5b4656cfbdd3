"""Adds the files of a kernel that TuxMake or KernelCI built: from a folder, a URL, or a node of KernelCI's API."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

from pytest_pinet.builds.archives import TARS
from pytest_pinet.builds.artefacts import METADATA, Artefact, Artefacts, read_artefacts
from pytest_pinet.builds.contents import BuildContents, add_device_tree_archive, add_device_trees, add_modules
from pytest_pinet.builds.listing import entries_in, existing, files_in, filled
from pytest_pinet.builds.not_a_build import what_is_url
from pytest_pinet.builds.remote import MAX_METADATA, fetch_files, fetch_metadata
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import is_url
from pytest_pinet.execution.path_kind import is_file, is_folder
from pytest_pinet.model.build import BuildFileRole


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


def _all(found: Artefacts) -> list[Artefact]:
    every = (found.kernel, found.modules, *found.device_trees, found.config)
    return [one for one in every if one is not None]


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


def _add(parts: BuildContents, found: Artefacts, paths: dict[Artefact, Path], where: Where) -> None:
    parts.add(BuildFileRole.KERNEL, [existing(paths[found.kernel], where, "kernel")], where)
    if found.modules is not None:
        add_modules(parts, paths[found.modules], where)
    for one in found.device_trees:
        path = existing(paths[one], where, "device tree")
        (add_device_tree_archive if path.name.endswith(TARS) else add_device_trees)(parts, path, where)
    config = paths[found.config] if found.config is not None else None
    parts.source = replace(found.source, config=str(config) if config is not None and is_file(config) else "")
