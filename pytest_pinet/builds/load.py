"""Reads the value of ``--pinet-build`` and makes a checked Build. No lab is used."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from pytest_pinet.builds.contents import BuildContents, BuildPart, kernel_words
from pytest_pinet.builds.kernel_files import is_name
from pytest_pinet.builds.listing import existing, filled
from pytest_pinet.builds.not_a_build import what_is_file, what_is_text
from pytest_pinet.builds.places import add_places, add_tuxmake, is_tuxmake
from pytest_pinet.builds.validate import validate_build
from pytest_pinet.config.section import read_section
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import exists, is_file
from pytest_pinet.execution.names import is_url, shown, unknown
from pytest_pinet.model.build import Build, BuildFileRole, BuildSettings, BuildSource
from pytest_pinet.model.fields import Setting, Text
from pytest_pinet.model.forms import BUILD_NAME, Template
from pytest_pinet.tuning.nic_settings import kernel_feature
from pytest_pinet.tuning.values import cpus, switch

FILE = "build.yaml"
WHAT = "a build (build.yaml, a folder, a package or archive, Image,modules.tar.xz or module.ko)"
_PARAMETER = re.compile(r"[A-Za-z0-9_]{1,60}")
_SYSCTL = re.compile(r"[a-z0-9_]+(\.[A-Za-z0-9_-]+)+")
# Python and YAML read these numbers, the kernel refuses them.
_UNDERSCORES = re.compile(r"[-+]?(?:0x[0-9a-f]*(?:_[0-9a-f]*)+|[0-9]+(?:_[0-9]*)+)", re.IGNORECASE)
# What a user can state of a BuildSource. ``config`` is the file with the kernel's configuration.
SOURCE_KEYS = ("tree", "branch", "commit", "describe", "compiler", "config")
_CONFIG_FORM = "a list of lines for config.txt such as 'dtparam=eee=off'"
_FEATURE_FORM = "a mapping such as 'tso: on' or 'tx-udp-segmentation: off'"
_SYSCTL_FORM = "a mapping such as 'net.ipv4.tcp_sack: 0'"


def _lines(value: object) -> list[str]:
    lines = value.split("\n") if isinstance(value, str) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise ValueError(f"expected {_CONFIG_FORM}, got {shown(value)}")
    for line in lines:
        if "\n" in line or not line.isprintable():
            raise ValueError(f"expected {_CONFIG_FORM}, got {shown(line)}")
    return [line.strip() for line in lines if line.strip()]


def _cmdline(value: object) -> str:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if not isinstance(value, str):
        raise ValueError(f"expected words for cmdline.txt such as 'pci=pcie_bus_perf', got {shown(value)}")
    line = value.strip(" \t\n")
    if "\n" in line:
        raise ValueError("expected one line, because the firmware reads only the first")
    return " ".join(kernel_words(line))


def _option_names(value: object) -> object:
    if isinstance(value, dict):
        for module, parameters in value.items():
            if not is_name(str(module)):
                raise ValueError(f"expected the name of a module such as 'e1000e', got {shown(module)}")
            for parameter in parameters if isinstance(parameters, dict) else ():
                if not _PARAMETER.fullmatch(str(parameter)):
                    raise ValueError(f"expected a parameter of {module} such as 'debug', got {shown(parameter)}")
    return value


def _sysctl_names(value: object) -> object:
    if isinstance(value, dict):
        for name, setting in value.items():
            if not _SYSCTL.fullmatch(str(name)):
                raise ValueError(f"expected {_SYSCTL_FORM}, got {shown(name)}")
            if isinstance(setting, bool) or setting == "":
                raise ValueError(f"expected {_SYSCTL_FORM}, got {shown(setting)} for {name}")
            if isinstance(setting, str) and (not setting.isprintable() or isinstance(setting, Template)):
                raise ValueError(f"expected {_SYSCTL_FORM}, got {shown(setting)}")
            _check_numbers(str(setting))
    return value


def _check_numbers(text: str) -> None:
    if any(_UNDERSCORES.fullmatch(word) for word in re.split(r"[\s,]", text)):
        raise ValueError(f"expected numbers without '_', which the kernel cannot read, got {shown(text)}")


def _source_key(value: str) -> str:
    if value not in SOURCE_KEYS:
        raise ValueError(unknown("key", value, SOURCE_KEYS))
    return value


def _option(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(value, bool):
        text = "1" if value else "0"
    if not isinstance(text, str) or not re.fullmatch(r"[!-~]{1,200}", text):
        raise ValueError(f"expected a value without spaces such as 100 or '100,100', got {shown(value)}")
    if text.count('"') % 2:
        raise ValueError(f"a quote has no end, so the kernel takes the rest as one value, in {shown(text)}")
    _check_numbers(text)
    return text


def _features(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"expected {_FEATURE_FORM}, got {shown(value)}")
    for name in value:
        if kernel_feature(str(name)) is None:
            raise ValueError(f"expected {_FEATURE_FORM}, with names of ethtool -K, got {shown(name)}")
    return {str(name): switch(one) for name, one in value.items()}


def _cpu(value: object) -> str:
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,4}", str(value)):
        raise ValueError(f"expected one CPU such as 1, got {shown(value)}")
    return str(int(str(value)))


BuildName = Annotated[Text, AfterValidator(BUILD_NAME.check)]
Paths = Annotated[list[Text], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class BuildSection(BaseModel):
    """A build.yaml; paths are relative to its folder."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: BuildName | None = Field(None, description="name in reports; default: the file's name")
    deb: Text | None = Field(None, description="a package or archive with a kernel")
    artefacts: Text | None = Field(None, description="folder of a build by TuxMake")
    kernel: Text | None = Field(None, description="Image, Image.gz, vmlinuz")
    initramfs: Text | None = None
    modules: Paths = Field([], description="archive or folder of modules_install, single modules (*.ko)")
    device_trees: Paths = Field([], description="*.dtb, or a folder of them")
    overlays: Paths = Field([], description="*.dtbo, or a folder of them")
    firmware: dict[Text, Text] = Field({}, description="files for /lib/firmware: path on the board, and file")
    config: Annotated[list[str], PlainValidator(_lines)] = Field([], description="lines to append to config.txt")
    cmdline: Annotated[str, PlainValidator(_cmdline)] = Field("", description="words to append to cmdline.txt")
    options: Annotated[
        dict[str, dict[str, Annotated[str, PlainValidator(_option)]]], BeforeValidator(_option_names)
    ] = Field({}, description="parameters by module")
    sysctls: Annotated[dict[str, Setting], BeforeValidator(_sysctl_names)] = {}
    rps: Annotated[str, PlainValidator(cpus)] = Field("", description="CPUs for received packets, on exact boards")
    irq: Annotated[str, PlainValidator(_cpu)] = Field("", description="CPU for interrupts, on exact boards")
    features: Annotated[dict[str, str], PlainValidator(_features)] = Field(
        {}, description="features of the NIC, as of ethtool -K, on exact boards"
    )
    source: dict[Annotated[str, AfterValidator(_source_key)], Text] = Field(
        {}, description="where the kernel comes from, for reports; of a build that no tool describes"
    )


def load_build(path: str) -> Build:
    """Read and check a build: a build.yaml, a folder, a package or archive, a kernel image, a module, or several of
    them, separated by commas.

    Raises ConfigError: one sentence with file and line.
    """
    if is_url(path):
        what = "a URL; download the build, or check out and build what the URL shows, and name the folder"
        raise ConfigError(f"{path} is {what}", Where(path))
    paths = [path] if exists(path) else [part.strip() for part in path.split(",") if part.strip()]
    if not paths:
        raise ConfigError(f"no build is named; expected {WHAT}")
    for one in paths:
        _check_exists(one)
    first, is_alone = Path(paths[0]), len(paths) == 1
    if is_alone and (is_file(first / FILE) or first.suffix in (".yaml", ".yml")):
        return _of_yaml(first / FILE if first.is_dir() else first)
    is_folder = is_alone and first.is_dir()
    name = first.resolve().name if is_folder else "+".join(_report_name(Path(one)) for one in paths)
    parts = BuildContents(name, Where(paths[0]))
    if is_folder and is_tuxmake(first):
        add_tuxmake(parts, first, Where(paths[0]))
    else:
        add_places(parts, [Path(one) for one in paths])
    return validate_build(parts)


def _check_exists(path: str) -> None:
    where = Where(path)
    if not os.path.lexists(path) and (what := what_is_text(path)):
        raise ConfigError(f"there is no file or folder {path}: it is {what}", where)
    try:
        existing(Path(path), where, "file or folder")
    except ConfigError as error:
        if is_file(path) and (what := what_is_file(Path(path))):
            raise ConfigError(f"{path} is {what}", where) from None
        if not os.path.lexists(path) and not error.message.endswith("?"):
            raise ConfigError(f"{error.message}; expected {WHAT}", where) from None
        raise


def _report_name(path: Path) -> str:
    """Return a file's name for reports, of a package without version and architecture. The build's key is unique."""
    return path.name.partition("_")[0] if path.suffix == ".deb" else path.name


def _of_yaml(path: Path) -> Build:
    section, document = read_section(path, "a build.yaml with keys such as 'kernel' and 'modules'", BuildSection)
    name = section.name or (path.parent.resolve().name if path.name == FILE else path.stem)
    parts = BuildContents(name, document.value(()))
    _files(parts, section, path.parent, document)
    if section.source:
        # What the file does not state, a tool may have described.
        parts.describe(replace(parts.source or BuildSource(), **_stated(section.source, path.parent, document)))
    options = [(m.replace("-", "_"), p, v) for m, own in section.options.items() for p, v in own.items()]
    parts.add_settings(
        BuildSettings(
            config=tuple(section.config),
            cmdline=tuple(section.cmdline.split()),
            options=tuple(options),
            sysctls=tuple(section.sysctls.items()),
            rps=section.rps,
            irq=section.irq,
            features=tuple(section.features.items()),
        )
    )
    return validate_build(parts)


def _stated(source: Mapping[str, str], base: Path, document: Document) -> dict[str, str]:
    """Return what ``source:`` states, with the path of the kernel's configuration. Raises ConfigError."""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}|", commit := source.get("commit", "")):
        what = f"expected the whole hash of a commit (git rev-parse HEAD), got {shown(commit)}"
        raise ConfigError(f"source.commit: {what}", document.value(("source", "commit")))
    if "config" not in source:
        return dict(source)
    where = document.value(("source", "config"))
    config = filled(base / source["config"], where, "configuration")
    if config.is_dir():
        raise ConfigError(f"configuration {config} is a folder; expected a file such as .config", where)
    return {**source, "config": str(config)}


def _files(parts: BuildContents, section: BuildSection, base: Path, document: Document) -> None:
    if section.deb is not None:
        where = document.value(("deb",))
        add_places(parts, [existing(base / section.deb, where, "package")], where)
    if section.artefacts is not None:
        add_tuxmake(parts, base / section.artefacts, document.value(("artefacts",)))
    for role, named in ((BuildFileRole.KERNEL, section.kernel), (BuildFileRole.INITRAMFS, section.initramfs)):
        if named is not None:
            where = document.value((str(role),))
            parts.add(role, [existing(base / named, where, str(role))], where)
    for index, named in enumerate(section.modules):
        parts.add_modules(base / named, document.value(("modules", index)))
    for key, listed in (("device_trees", section.device_trees), ("overlays", section.overlays)):
        for index, named in enumerate(listed):
            where = document.value((key, index))
            parts.add_device_trees(existing(base / named, where, "device tree"), where)
    for there, named in section.firmware.items():
        where = document.value(("firmware", there))
        file = existing(base / named, where, "firmware")
        if file.is_dir():
            parts.add_firmware(file, where)
        else:
            parts.files.append(BuildPart(BuildFileRole.FIRMWARE, file, where, there))
