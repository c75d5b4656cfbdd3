"""The options of a build under test, read before any node is touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.matching import require_any_pi
from pytest_pinet.errors import BuildError, ConfigError
from pytest_pinet.execution.path_kind import exists
from pytest_pinet.judge.change import LEAST_BOOTS, MOST_BOOTS
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.build import Build, BuildFileRole
from pytest_pinet.model.record.change import BuildFileRecord, BuildRecord, BuildSourceRecord
from pytest_pinet.session.option_table import ACCEPTED, RUNNING

BUILD = "--pinet-build"
# The known-good build of exact boards if no other is given.
STOCK = "stock kernel"

_SHOWN = 3
_COUNTED = {
    BuildFileRole.DEVICE_TREE: "device tree",
    BuildFileRole.OVERLAY: "overlay",
    BuildFileRole.INITRAMFS: "initramfs",
    BuildFileRole.FIRMWARE: "firmware file",
}


def config_name(side: Side) -> str:
    """Return the name of the configuration of this side's kernel in the run folder."""
    return f"build-{side}.config"


@dataclass(frozen=True)
class ABOptions:
    """The build under test, and the known-good build ``good`` (None: the own build of each board).

    With ``accepted``, the accepted baselines judge. The known-good build is then not measured, only booted to find out
    whether the build or the lab is at fault. ``own`` is the name of the boards' own build. ``remarks`` are sentences on
    single builds, ``note`` is one on both. If nothing ``is_judged``, the build under test stands on both sides.
    """

    new: Build
    good: Build | None
    accepted: bool = False
    most_boots: int = MOST_BOOTS
    own: str = RUNNING
    remarks: tuple[str, ...] = ()
    note: str = ""
    is_judged: bool = True

    def build(self, side: Side) -> Build | None:
        """Return the build of this side; None is the own build of the board."""
        return self.new if side is Side.B else self.good

    def name(self, side: Side) -> str:
        build = self.build(side)
        if build is None:
            return ACCEPTED if self.accepted else self.own
        other = self.build(Side.B if side is Side.A else Side.A)
        # Two folders can have the same name. If both sides are the same build, the key would not help.
        if other is not None and other.name == build.name and other.key != build.key:
            return f"{build.name} ({build.key})"
        return build.name

    @property
    def keys(self) -> list[str]:
        """The hash of the build of each side, A first; empty for the own build of each board."""
        return [build.key if build is not None else "" for build in (self.good, self.new)]

    def turns(self, boards: str) -> str:
        """Return the boots of the plan of a dry run. ``boards`` names the boards under test."""
        if self.accepted:
            return f"B {self.name(Side.B)}: once on {boards}, with a boot if the build needs a boot"
        names = f"A {self.name(Side.A)}, B {self.name(Side.B)}"
        turns = f"{LEAST_BOOTS} to {self.most_boots} turns on {boards}"
        return f"{names}: {turns}, each with a boot if the build needs a boot"

    def contents(self) -> list[str]:
        """Return a sentence about the files of each build, and one about the files that it leaves out."""
        sides = Side if self.is_judged else [Side.B]
        builds = [(side, build) for side in sides if (build := self.build(side)) is not None]
        contents = [f"{side}: {build.name}: {_contents(build)}" for side, build in builds]
        return [*contents, *self.notes(), *filter(None, [self.note])]

    def notes(self) -> list[str]:
        """Return the remarks, and a sentence about the files beside each build that are no part of it."""
        builds = [build for side in Side if (build := self.build(side)) is not None and build.left_out]
        left = [f"{build}: left out, because it is no part of a build: {_few(build.left_out)}" for build in builds]
        return list(dict.fromkeys([*self.remarks, *left]))

    def record(self, side: Side) -> BuildRecord:
        """Return the build of this side for results.json."""
        build = self.build(side)
        if build is None:
            return BuildRecord(
                name=self.name(side), key="", release=None, files=(), config=(), cmdline=(), options=(), sysctls=()
            )
        files = tuple(
            BuildFileRecord(role=str(file.role), name=file.name, sha256=file.sha256, size=file.size)
            for file in build.files
        )
        return BuildRecord(
            name=build.name,
            key=build.key,
            release=build.release,
            files=files,
            config=tuple(build.config),
            cmdline=tuple(build.cmdline),
            options=tuple(f"{module}.{parameter}={value}" for module, parameter, value in build.options),
            sysctls=tuple(f"{name}={value}" for name, value in build.sysctls),
            rps=build.rps or None,
            irq=build.irq or None,
            features=tuple(f"{name}={value}" for name, value in build.features) or None,
            source=self._source(side, build),
        )

    @staticmethod
    def _source(side: Side, build: Build) -> BuildSourceRecord | None:
        if build.source is None:
            return None
        return BuildSourceRecord.of(build.source, config=config_name(side) if build.source.config else "")

    def keep_configs(self, folder: Path) -> list[str]:
        """Copy the configurations of the kernels to the run folder. Return a warning for each that is gone."""
        warnings = []
        for side in Side:
            build = self.build(side)
            if build is not None and build.source is not None and build.source.config:
                try:
                    shutil.copyfile(build.source.config, folder / config_name(side))
                except OSError as error:
                    warnings.append(f"the kernel configuration {build.source.config} is not kept ({error.strerror})")
        return warnings


def _contents(build: Build) -> str:
    """Return what a build consists of: ``kernel 6.12.25 from kernel8.img, 812 modules, 3 device trees``."""
    words = [
        f"kernel {one.release or 'of an unknown release'} ({name or Path(file.path).name})"
        for name, one in (build.variants or {"": build}).items()
        for file in one.of(BuildFileRole.KERNEL)
    ]
    counts = {"module": len(build.modules)}
    for role in (BuildFileRole.DEVICE_TREE, BuildFileRole.OVERLAY, BuildFileRole.INITRAMFS, BuildFileRole.FIRMWARE):
        counts[_COUNTED[role]] = len(build.of(role))
    counts |= {"line for config.txt": len(build.config), "word for cmdline.txt": len(build.cmdline)}
    counts |= {"option": len(build.options), "sysctl": len(build.sysctls)}
    words += [f"{count} {name if count == 1 else _plural(name)}" for name, count in counts.items() if count]
    words += [f"{key}: {value}" for key, value in (("rps", build.rps), ("irq", build.irq), *build.features) if value]
    return ", ".join(words)


def _plural(name: str) -> str:
    first, blank, rest = name.partition(" for ")
    return f"{first}{'' if first == 'initramfs' else 's'}{blank}{rest}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def read_ab_options(
    new: str | None,
    against: str | None,
    boots: int | None,
    origin: Callable[[str], str] = "--pinet-{}".format,
    exact: bool = False,
) -> ABOptions | None:
    """Read the options; None if no build is under test. ``origin`` names where a value was written.

    ``exact``: the builds are booted on exact boards, each once.

    Raises ConfigError.
    """
    if not new:
        for name, value in (("against", against), ("boots", boots)):
            if value is not None:
                raise ConfigError(f"{origin(name)} {value}: no build is under test; name a build with {BUILD} PATH")
        return None
    if exact:
        return _exact_options(new, against, boots, origin)
    most = MOST_BOOTS if boots is None else boots
    if most < LEAST_BOOTS:
        message = f"too few boots to compare two builds; expected {LEAST_BOOTS} or more"
        raise ConfigError(f"{origin('boots')} {boots}: {message}")
    build = _load(new, origin("build"))
    path = _path_of(against)
    if path is None:
        if against == ACCEPTED and boots is not None:
            message = f"{origin('against')} {ACCEPTED} boots the build only once; write one of them"
            raise ConfigError(f"{origin('boots')} {boots}: {message}")
        return ABOptions(build, None, against == ACCEPTED, most)
    good = _load(path, origin("against"))
    try:
        require_any_pi(good)
    except BuildError as error:
        raise ConfigError(f"{origin('against')}: {error}") from None
    return ABOptions(build, good, most_boots=most)


def _exact_options(new: str, against: str | None, boots: int | None, origin: Callable[[str], str]) -> ABOptions:
    if boots is not None:
        raise ConfigError(
            f"{origin('boots')} {boots}: an exact gate boots each build as often as it must, at most five times; "
            "remove the option"
        )
    build = _load(new, origin("build"))
    path = _path_of(against)
    if path is None and against == ACCEPTED:
        message = "exact gates have no accepted baselines; expected a known-good build, or 'running' (the stock kernel)"
        raise ConfigError(f"{origin('against')} {against}: {message}")
    return ABOptions(build, None if path is None else _load(path, origin("against")), own=STOCK)


def _path_of(against: str | None) -> str | None:
    """Return the path of the known-good build; None for the words RUNNING and ACCEPTED if no file has this name."""
    return None if against in (RUNNING, ACCEPTED) and not exists(against) else against


def _load(path: str, origin: str) -> Build:
    try:
        return load_build(path)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
