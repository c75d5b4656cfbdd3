"""The schema of a build.yaml: its keys and accepted values."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from pytest_pinet.config.fields import Setting, Text
from pytest_pinet.execution.names import shown

_MODULE = re.compile(r"[A-Za-z0-9_-]{1,60}")
_PARAMETER = re.compile(r"[A-Za-z0-9_]{1,60}")
_SYSCTL = re.compile(r"[a-z0-9_]+(\.[A-Za-z0-9_-]+)+")
_CONFIG_FORM = "a list of lines for config.txt such as 'dtparam=eee=off'"
_SYSCTL_FORM = "a mapping such as 'net.ipv4.tcp_sack: 0'"


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _lines(value: object) -> list[str]:
    lines = value.splitlines() if isinstance(value, str) else value
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
    if "\n" in value.strip():
        raise ValueError("expected one line, because the firmware reads only the first")
    return value.strip()


def _option_names(value: object) -> object:
    if isinstance(value, dict):
        for module, parameters in value.items():
            if not _MODULE.fullmatch(str(module)):
                raise ValueError(f"expected the name of a module such as 'e1000e', got {shown(module)}")
            for parameter in parameters if isinstance(parameters, dict) else ():
                if not _PARAMETER.fullmatch(str(parameter)):
                    raise ValueError(f"expected a parameter of {module} such as 'debug', got {shown(parameter)}")
    return value


def _sysctl_names(value: object) -> object:
    if isinstance(value, dict):
        for name in value:
            if not _SYSCTL.fullmatch(str(name)):
                raise ValueError(f"expected {_SYSCTL_FORM}, got {shown(name)}")
    return value


def _option(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(value, bool):
        text = "1" if value else "0"
    if not isinstance(text, str) or not re.fullmatch(r"[!-~]{1,200}", text):
        raise ValueError(f"expected a value without spaces such as 100 or '100,100', got {shown(value)}")
    return text


Paths = Annotated[list[Text], BeforeValidator(_listed)]


class BuildSection(BaseModel):
    """A build.yaml; paths are relative to its folder."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Text | None = Field(None, description="name in reports; default: the file's name")
    deb: Text | None = Field(None, description="a linux-image package")
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
