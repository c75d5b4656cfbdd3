"""Reads the value of ``--pinet-build`` and makes a checked Build. No lab is used."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from pytest_pinet.builds.contents import (
    BuildContents,
    BuildPart,
    add_device_trees,
    add_file,
    add_firmware,
    add_folder,
    add_modules,
    add_package,
    existing,
)
from pytest_pinet.builds.schema import BuildSection
from pytest_pinet.builds.validate import validate_build
from pytest_pinet.config.file_text import read_text
from pytest_pinet.config.messages import first_error
from pytest_pinet.config.yaml_lines import Document, parse
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import shown
from pytest_pinet.model.build import Build, BuildFileRole

FILE = "build.yaml"
WHAT = "a build (build.yaml, a folder, a .deb, Image,modules.tar.xz or module.ko)"


def load_build(path: str) -> Build:
    """Read and check a build: a build.yaml, a folder, a .deb, a kernel image, a module, or several, separated by
    commas.

    Raises ConfigError: one sentence with file and line.
    """
    paths = [path] if Path(path).exists() else [part.strip() for part in path.split(",") if part.strip()]
    if not paths:
        raise ConfigError(f"no build is named; expected {WHAT}")
    for one in paths:
        existing(Path(one), Where(one), "file or folder")
    first = Path(paths[0])
    if len(paths) == 1 and first.is_dir():
        if (first / FILE).is_file():
            return _of_yaml(first / FILE)
        parts = BuildContents(first.resolve().name, Where(str(first)))
        add_folder(parts, first)
    elif len(paths) == 1 and first.suffix in (".yaml", ".yml"):
        return _of_yaml(first)
    else:
        parts = BuildContents("+".join(_report_name(Path(one)) for one in paths), Where(paths[0]))
        for one in paths:
            if Path(one).is_dir():
                add_modules(parts, Path(one), Where(one))
            elif not add_file(parts, Path(one), Where(one)):
                # The content shows whether the file is a kernel.
                parts.add(BuildFileRole.KERNEL, [Path(one)], Where(one))
    return validate_build(parts)


def _report_name(path: Path) -> str:
    """Return a file's name for reports, of a package without version and architecture. The build's key is unique."""
    return path.name.partition("_")[0] if path.suffix == ".deb" else path.name


def _of_yaml(path: Path) -> Build:
    document = parse(read_text(path, WHAT), str(path))
    if not isinstance(document.data, dict):
        got = "nothing" if document.data is None else shown(document.data)
        raise ConfigError(f"expected keys such as 'kernel' and 'modules', got {got}", document.value(()))
    try:
        section = BuildSection.model_validate(document.data)
    except ValidationError as error:
        raise first_error(error, BuildSection, document, ()) from None
    name = section.name or (path.parent.resolve().name if path.name == FILE else path.stem)
    parts = BuildContents(name, document.value(()))
    _files(parts, section, path.parent, document)
    parts.config += section.config
    parts.cmdline += section.cmdline.split()
    parts.options += [(m.replace("-", "_"), p, v) for m, own in section.options.items() for p, v in own.items()]
    parts.sysctls += list(section.sysctls.items())
    return validate_build(parts)


def _files(parts: BuildContents, section: BuildSection, base: Path, document: Document) -> None:
    if section.deb is not None:
        add_package(parts, base / section.deb, document.value(("deb",)))
    for role, named in ((BuildFileRole.KERNEL, section.kernel), (BuildFileRole.INITRAMFS, section.initramfs)):
        if named is not None:
            where = document.value((str(role),))
            parts.add(role, [existing(base / named, where, str(role))], where)
    for index, named in enumerate(section.modules):
        add_modules(parts, base / named, document.value(("modules", index)))
    for key, listed in (("device_trees", section.device_trees), ("overlays", section.overlays)):
        for index, named in enumerate(listed):
            where = document.value((key, index))
            add_device_trees(parts, existing(base / named, where, "device tree"), where)
    for there, named in section.firmware.items():
        where = document.value(("firmware", there))
        file = existing(base / named, where, "firmware")
        if file.is_dir():
            add_firmware(parts, file, where)
        else:
            parts.files.append(BuildPart(BuildFileRole.FIRMWARE, file, where, there))
