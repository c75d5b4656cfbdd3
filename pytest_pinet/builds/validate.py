"""Checks that the files of a build fit together, and makes the Build."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from pytest_pinet.builds.archives import Unreadable
from pytest_pinet.builds.cache import sha256_of
from pytest_pinet.builds.config_txt import LONGEST_LINE
from pytest_pinet.builds.contents import BuildContents, BuildPart
from pytest_pinet.builds.kernel_files import (
    PARAMETER_KEYS,
    BuiltInParameters,
    built_in_parameters,
    names_parameter,
    read_module,
)
from pytest_pinet.builds.kernels import split_by_kernel
from pytest_pinet.builds.listing import OVERLAYS, filled, unreadable
from pytest_pinet.builds.tree import built_in_texts, read_tree
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import misspelled, quoted
from pytest_pinet.model.build import MARKER, Build, BuildFile, BuildFileRole, BuildSettings, KernelId, ModuleId
from pytest_pinet.model.forms import BOARD_PATH

_FDT_MAGIC = b"\xd0\x0d\xfe\xed"
# Ten numbers of four bytes; the second is the size of the whole.
_FDT_HEADER = 40
# Settings in config.txt that pinet itself writes, to point to the build's files.
_OURS = ("os_prefix", "kernel", "cmdline", "initramfs", "ramfsfile", "auto_initramfs", "include")
LONGEST_CMDLINE = 1024
# Parameters of every module (kernel/module/main.c, unknown_module_param_cb).
_EACH_MODULE = ("async_probe", "dyndbg")
_BLANKS = re.compile(r"\w+(?:\s+=|=\s)")
_MODULE_NAME = re.compile(r"[A-Za-z0-9_]{1,55}")


def validate_build(parts: BuildContents) -> Build:
    """Return the build of these parts. Raises ConfigError: one sentence with the faulty file or its line."""
    if not parts.files and parts.settings == BuildSettings():
        raise ConfigError("this build is empty; name at least one file or setting", parts.where)
    builds = {name: _build(own, kernel) for name, (own, kernel) in split_by_kernel(parts).items()}
    first = next(iter(builds.values()))
    return replace(first, variants=builds) if len(builds) > 1 else first


def _build(parts: BuildContents, kernel: KernelId | None) -> Build:
    """Return the build of parts with at most one kernel. Raises ConfigError."""
    files, modules = _modules(parts, kernel)
    if kernel is not None and not kernel.release:
        # A zImage does not show its release. Its modules do.
        kernel = replace(kernel, release=next((file.name for file in files if file.role is BuildFileRole.MODULES), ""))
    files += [_file(part) for part in parts.files if part.role not in (BuildFileRole.MODULES, BuildFileRole.MODULE)]
    if twice := [name for (_, name), times in Counter((one.role, one.name) for one in files).items() if times > 1]:
        raise ConfigError(f"two files of this build get the same name on the board: {twice[0]}", parts.where)
    _check_settings(parts)
    _check_options(parts, modules)
    return Build(
        name=parts.name,
        files=tuple(sorted(files, key=lambda file: (str(file.role), file.name))),
        kernel=kernel,
        modules=modules,
        source=parts.source,
        left_out=tuple(dict.fromkeys(parts.left_out)),
        **vars(parts.settings),
    )


def _modules(parts: BuildContents, kernel: KernelId | None) -> tuple[list[BuildFile], dict[str, ModuleId]]:
    files: list[BuildFile] = []
    modules: dict[str, ModuleId] = {}
    trees = parts.of(BuildFileRole.MODULES)
    if trees and kernel is None:
        message = (
            f"the build has all modules of kernel {trees[0].path.name}, but no kernel; "
            "add the image of this kernel, or give only single module files (*.ko)"
        )
        raise ConfigError(message, trees[0].where)
    if len(trees) > 1:
        names = " and ".join(part.path.name for part in trees[:2])
        raise ConfigError(
            f"a build can have the modules of only one kernel, but has two trees: {names}", trees[1].where
        )
    for part in trees:
        try:
            found, digest, size = read_tree(part.path)
        except Unreadable as error:
            raise ConfigError(f"{part.path.name}/{error}", part.where) from None
        except OSError as error:
            raise ConfigError(f"{part.path} cannot be read ({error.strerror})", part.where) from None
        if kernel is not None and kernel.release and part.path.name != kernel.release:
            message = f"the modules are for kernel {part.path.name}, but the image is kernel {kernel.release}"
            raise ConfigError(message, part.where)
        for module in found.values():
            _check_magic(module, kernel, f"{part.path.name}/{module.path}", part.where)
        files.append(BuildFile(BuildFileRole.MODULES, part.path.name, str(part.path), digest, size))
        modules |= found
    singles: dict[str, BuildPart] = {}
    for part in parts.of(BuildFileRole.MODULE):
        try:
            module = read_module(_read(part), part.path.name)
        except Unreadable as error:
            raise ConfigError(f"{part.path}: {error}", part.where) from None
        _check_magic(module, kernel, str(part.path), part.where)
        if not _MODULE_NAME.fullmatch(module.name):
            raise ConfigError(f"{part.path} contains the module name '{module.name}', which is not valid", part.where)
        if (other := modules.get(module.name)) is not None and module.name in singles:
            raise ConfigError(_two_of(module, part, other, singles[module.name]), parts.where)
        singles[module.name] = part
        # Named after the module, whatever the file's name: modprobe finds a module by its name.
        files.append(replace(_file(part), name=f"{module.name}.ko{part.path.name.partition('.ko')[2]}"))
        modules[module.name] = module
    return files, modules


def _two_of(module: ModuleId, part: BuildPart, other: ModuleId, before: BuildPart) -> str:
    """Return the sentence about two files of one module. DKMS keeps the modules of all kernels in one folder."""
    files = f"{before.path} and {part.path}"
    if module.release != other.release:
        return (
            f"the module {module.name} is there for two kernels, {other.release} and {module.release}: {files}; "
            "name the folder or the file of one kernel"
        )
    return f"the module {module.name} is there twice: {files}; name one of them"


def _check_magic(module: ModuleId, kernel: KernelId | None, path: str, where: Where) -> None:
    if kernel is None or not kernel.release:
        return
    if module.arch != kernel.arch:
        raise ConfigError(f"{path} is a module for {module.arch}, but the kernel is for {kernel.arch}", where)
    if module.release != kernel.release:
        message = f"{path} was built for kernel {module.release}, but the image is kernel {kernel.release}"
        raise ConfigError(message, where)
    if kernel.vermagic and module.vermagic != kernel.vermagic:
        message = f"build {path} and the kernel with one configuration: the module has vermagic '{module.vermagic}', "
        raise ConfigError(f"{message}the image '{kernel.vermagic}'", where)


def _file(part: BuildPart) -> BuildFile:
    data_of = filled(part.path, part.where, str(part.role))
    if not data_of.is_file():
        raise ConfigError(f"{data_of} is not a file", part.where)
    if part.role in (BuildFileRole.DEVICE_TREE, BuildFileRole.OVERLAY) and not _is_device_tree(_read(part)):
        raise ConfigError(f"{data_of} is not a compiled device tree; expected the output of dtc", part.where)
    name = _name(part)
    try:
        return BuildFile(part.role, name, str(data_of), sha256_of(data_of), data_of.stat().st_size)
    except OSError as error:
        raise unreadable(data_of, error, part.where) from None


def _is_device_tree(data: bytes) -> bool:
    """Return whether the data have the header of a compiled device tree, and are as long as it says."""
    if len(data) < _FDT_HEADER or not data.startswith(_FDT_MAGIC):
        return False
    return _FDT_HEADER <= int.from_bytes(data[4:8], "big") <= len(data)


def _name(part: BuildPart) -> str:
    """Return the file's name on the board. Raises ConfigError."""
    name = _raw_name(part)
    if not BOARD_PATH.pattern.fullmatch(name):
        raise ConfigError(f"{part.role} {quoted(name)}: expected {BOARD_PATH.text}", part.where)
    return name


def _raw_name(part: BuildPart) -> str:
    if part.role is BuildFileRole.KERNEL:
        return "kernel8.img"
    if part.role is BuildFileRole.OVERLAY:
        return f"{OVERLAYS}/{part.path.name}"
    if part.role is BuildFileRole.FIRMWARE:
        path = PurePosixPath(part.name)
        if path.is_absolute() or ".." in path.parts:
            raise ConfigError(f"firmware '{part.name}' must be a path below /lib/firmware", part.where)
        return str(path)
    return part.path.name


def _check_settings(parts: BuildContents) -> None:
    for line in parts.settings.config:
        name = line.replace("=", " ").split()[0]
        if name in _OURS:
            message = f"config line '{line}': {name} is reserved: pinet sets it when it deploys the build"
            raise ConfigError(message, parts.where)
        if len(line) > LONGEST_LINE:
            message = f"config line {quoted(line)} has {len(line)} characters, and the firmware reads {LONGEST_LINE}"
            raise ConfigError(message, parts.where)
        if _BLANKS.match(line):
            message = f"config line '{line}': the firmware ignores a line with a blank beside its first '='"
            raise ConfigError(message, parts.where)
    words = [*parts.settings.cmdline, *parts.settings.option_words]
    if any(word.partition("=")[0] == MARKER for word in words):
        raise ConfigError(f"cmdline: {MARKER} is reserved: pinet sets it when it deploys the build", parts.where)
    if len(" ".join(words)) > LONGEST_CMDLINE:
        raise ConfigError(
            f"cmdline: longer than {LONGEST_CMDLINE} characters, which the firmware does not pass to the kernel",
            parts.where,
        )


def _check_options(parts: BuildContents, modules: Mapping[str, ModuleId]) -> None:
    """Check the options of the build's own modules, and of code that is built into its kernel.

    The kernel ignores a parameter that it does not know, so the build would be judged without the option. If the texts
    of its image prove nothing, only a misspelled name of built-in code is an error.
    """
    built_in: dict[str, set[str]] = {}
    in_image = _built_in(parts)
    for tree in parts.of(BuildFileRole.MODULES):
        for module, key, value in built_in_texts(tree.path):
            known = built_in.setdefault(module, set())
            known |= {value.partition(":")[0]} if key in PARAMETER_KEYS else set()
    for module, parameter, _ in parts.settings.options:
        if module in modules:
            _check_parameter("options", parts, modules[module], parameter)
        elif module in built_in or in_image.of(module):
            listed = built_in.get(module, set())
            has = in_image.lacks(module, parameter, listed)
            is_near = bool(misspelled(parameter, listed)) and not in_image.has(module, parameter)
            if not has_parameter(listed, parameter) and (has or is_near):
                raise ConfigError(f"options: {no_parameter(module, parameter, has or listed)}", parts.where)
        # Without the list of what is built in, the module may be part of the kernel. A prefix that no list has may be
        # like a name that is built in: rcutree and srcutree.
        elif built_in and (near := misspelled(module, modules)):
            message = f"options: the build has no module {module!r}, and its kernel has none built in"
            raise ConfigError(f"{message}; did you mean {near!r}?", parts.where)
    for word in parts.settings.cmdline:
        module, dot, parameter = word.partition("=")[0].replace("-", "_").partition(".")
        # Other words with a dot are for programs, such as net.ifnames=0.
        if dot and module in modules:
            _check_parameter("cmdline", parts, modules[module], parameter)
        elif dot and (names := built_in.get(module)) and not has_parameter(names, parameter):
            has = in_image.lacks(module, parameter, names)
            if has:
                raise ConfigError(f"cmdline: {no_parameter(module, parameter, has)}", parts.where)


def _built_in(parts: BuildContents) -> BuiltInParameters:
    """Return the parameters of the code that is built into the build's kernel, as far as a check needs them."""
    kernels = parts.of(BuildFileRole.KERNEL)
    settings = parts.settings
    if not kernels or not (settings.options or any("." in word.partition("=")[0] for word in settings.cmdline)):
        return BuiltInParameters()
    return built_in_parameters(sha256_of(kernels[0].path), lambda: _read(kernels[0]))


def _check_parameter(key: str, parts: BuildContents, module: ModuleId, parameter: str) -> None:
    """Check whether a module that can be loaded has this parameter. Raises ConfigError."""
    if has_parameter(module.parameters, parameter):
        return
    singles = [part for part in parts.of(BuildFileRole.MODULE) if part.path.name == module.path]
    trees = [replace(tree, path=tree.path / module.path) for tree in parts.of(BuildFileRole.MODULES)]
    if not any(names_parameter(_read(part), parameter) for part in singles or trees):
        raise ConfigError(f"{key}: {no_parameter(module.name, parameter, module.parameters)}", parts.where)


def has_parameter(known: Iterable[str], parameter: str) -> bool:
    """Return whether a module with these parameters of its own accepts this one."""
    return parameter in known or parameter in _EACH_MODULE


def no_parameter(module: str, parameter: str, has: Iterable[str]) -> str:
    """Return the sentence about a parameter that a module does not have."""
    known = ", ".join(sorted(has)) or "none"
    return f"{module} has no parameter {parameter!r}; accepted: {known}"


def _read(part: BuildPart) -> bytes:
    try:
        return filled(part.path, part.where, str(part.role)).read_bytes()
    except OSError as error:
        raise unreadable(part.path, error, part.where) from None
