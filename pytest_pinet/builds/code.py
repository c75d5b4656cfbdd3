"""Compares the code of two builds: what differs beside the order and the addresses of functions and data?

Padding between functions, or another order, changes addresses and no function. It can still move goodput by some
percent, because other functions share a line of a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, fields
from itertools import chain
from pathlib import Path

from pytest_pinet.builds.archives import Unreadable
from pytest_pinet.builds.kernel_files import same_image
from pytest_pinet.builds.module_code import compare_modules
from pytest_pinet.builds.tree import module_files
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, BuildSettings, CodeDifference

# These are compared by their content.
_COMPARED = (BuildFileRole.KERNEL, BuildFileRole.MODULES, BuildFileRole.MODULE)


def compare_builds(a: Build, b: Build) -> CodeDifference:
    """Return what differs between two builds. Modules are compared only if nothing else differs.

    An image has no relocations: it is another kernel unless only its version text and its build ID differ. The image
    also stands for the configuration.
    """
    for name in sorted({*a.variants, *b.variants}):
        if name not in a.variants or name not in b.variants:
            return CodeDifference(parts=(f"kernel {name}",))
        if found := compare_builds(a.variants[name], b.variants[name]):
            return found
    parts = [f"setting {one.name}" for one in fields(BuildSettings) if getattr(a, one.name) != getattr(b, one.name)]
    files_a, files_b = (
        {(str(one.role), one.name): one for one in build.files if one.role not in _COMPARED} for build in (a, b)
    )
    parts += [
        " ".join(key) for key in sorted({*files_a, *files_b}) if _hash(files_a.get(key)) != _hash(files_b.get(key))
    ]
    kernels = [build.of(BuildFileRole.KERNEL) for build in (a, b)]
    try:
        if len(kernels[0]) != len(kernels[1]) or not all(map(_same_kernel, *kernels)):
            parts.append("kernel")
        return CodeDifference(parts=tuple(parts)) if parts else _compare_all_modules(module_files(a), module_files(b))
    except (OSError, Unreadable) as error:
        return CodeDifference(parts=(*parts, f"unknown: {error}"))


def _hash(file: BuildFile | None) -> str:
    return "" if file is None else file.sha256


def _same_kernel(a: BuildFile, b: BuildFile) -> bool:
    return a.sha256 == b.sha256 or same_image(Path(a.path).read_bytes(), Path(b.path).read_bytes())


def _compare_all_modules(a: Mapping[str, Path], b: Mapping[str, Path]) -> CodeDifference:
    found = [CodeDifference(parts=tuple(f"module {name}" for name in sorted(a.keys() ^ b.keys())))]
    for name in sorted(a.keys() & b.keys()):
        try:
            one = compare_modules(a[name].read_bytes(), b[name].read_bytes())
        except Unreadable as error:
            raise Unreadable(f"{name}: {error}") from None
        found.append(CodeDifference(*(tuple(f"{part} [{name}]" for part in parts) for parts in astuple(one))))
    return CodeDifference(*(tuple(chain(*parts)) for parts in zip(*map(astuple, found), strict=True)))
