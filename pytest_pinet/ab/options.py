"""The options of a build under test, read before any node is touched; and which kernels an exact gate compares."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_pinet.builds.code import compare_builds
from pytest_pinet.builds.kernels import firmware_name
from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.matching import require_any_pi
from pytest_pinet.errors import BuildError, ConfigError, LabError
from pytest_pinet.execution.files import exists
from pytest_pinet.judge.turns import LEAST_BOOTS, MOST_BOOTS, Side
from pytest_pinet.model.build import Build, BuildFileRole, CodeDifference
from pytest_pinet.model.record.change import BuildRecord
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
    ``layout_counts``: a slower build is a regression, whatever differs between the builds.
    """

    new: Build
    good: Build | None
    accepted: bool = False
    most_boots: int = MOST_BOOTS
    own: str = RUNNING
    remarks: tuple[str, ...] = ()
    note: str = ""
    is_judged: bool = True
    layout_counts: bool = False

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

    @cached_property
    def code(self) -> CodeDifference | None:
        """What differs between two builds, beside the order of their code; None if they are one build, or A is none."""
        return None if self.good is None or self.good.key == self.new.key else compare_builds(self.good, self.new)

    @property
    def is_layout(self) -> bool:
        """Whether a slower build is undecided, because only the order and the addresses of its code differ."""
        return not self.layout_counts and self.code is not None and not self.code

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
        source = build.source
        if source is not None and source.config:
            source = replace(source, config=config_name(side))
        return BuildRecord.of(
            build,
            options=build.option_words,
            sysctls=[f"{name}={value}" for name, value in build.sysctls],
            rps=build.rps or None,
            irq=build.irq or None,
            features=[f"{name}={value}" for name, value in build.features] or None,
            source=source,
        )

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
    counts = {"module": len(build.modules)} | {name: len(build.of(role)) for role, name in _COUNTED.items()}
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
    layout_counts: bool = False,
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
    if exact and boots is not None:
        raise ConfigError(
            f"{origin('boots')} {boots}: an exact gate boots each build as often as it must, at most five times; "
            "remove the option"
        )
    most = MOST_BOOTS if boots is None else boots
    if most < LEAST_BOOTS:
        message = f"too few boots to compare two builds; expected {LEAST_BOOTS} or more"
        raise ConfigError(f"{origin('boots')} {boots}: {message}")
    build = _load(new, origin("build"))
    # The words RUNNING and ACCEPTED may also be the names of files.
    path = None if against in (RUNNING, ACCEPTED) and not exists(against) else against
    good = None if path is None else _load(path, origin("against"))
    accepted = path is None and against == ACCEPTED
    if exact:
        if accepted:
            expected = "expected a known-good build, or 'running' (the stock kernel)"
            raise ConfigError(f"{origin('against')} {against}: exact gates have no accepted baselines; {expected}")
        return ABOptions(build, good, own=STOCK)
    if accepted and boots is not None:
        message = f"{origin('against')} {ACCEPTED} boots the build only once; write one of them"
        raise ConfigError(f"{origin('boots')} {boots}: {message}")
    try:
        if good is not None:
            require_any_pi(good)
    except BuildError as error:
        raise ConfigError(f"{origin('against')}: {error}") from None
    return ABOptions(build, good, accepted, most, layout_counts=layout_counts)


def _load(path: str, origin: str) -> Build:
    try:
        return load_build(path)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None


def for_exact_boards(options: ABOptions, is_named: bool, stock_release: Callable[[], str]) -> ABOptions:
    """Return the options with at most one kernel in each build.

    A kernel of another release than the stock kernel is judged only if the known-good build ``is_named``: any two
    releases differ. ``stock_release`` returns the release of the stock kernel, or raises LabError.
    """
    options = _with_one_kernel(options)
    new, good = options.new, options.good
    if new.release is None:
        return options
    try:
        known = good.release if good is not None and good.release is not None else stock_release()
    except LabError:
        # An ordinary gate of the stock kernel says why it is not there.
        known = ""
    if known == new.release:
        return options
    if is_named:
        differs = f"the whole kernel differs, {known} in A and {new.release} in B"
        return replace(options, note=differs) if known else options
    why = f"the stock kernel is {known}" if known else "the stock kernel is not there"
    note = (
        f"{new.name} is measured and not judged: its kernel is {new.release}, {why}, and no known-good build is "
        "named. Name the build without the change: --against BASE"
    )
    return replace(options, good=new, note=note, is_judged=False)


def _with_one_kernel(options: ABOptions) -> ABOptions:
    """Return the options with one kernel of each build that has several: if possible, the same for both builds."""
    new, good = options.new, options.good
    of_new, of_good = _kernels(new), _kernels(good) if good is not None else {}
    fitting = [name for name in of_new if name in of_good or not of_good]
    remarks = []

    def chosen(build: Build, kernels: Mapping[str, Build]) -> Build:
        if len(kernels) < 2:
            return build
        release = next((module.release for module in new.modules.values()), "") if new.kernel is None else ""
        of_module = [name for name, one in kernels.items() if one.release == release]
        (name, *_) = [*of_module, *(name for name in fitting if name in kernels), *kernels]
        remarks.append(
            f"{build} has {' and '.join(kernels)}. {name} is gated; to gate another one, name only its files"
        )
        return replace(kernels[name], left_out=build.left_out)

    new = chosen(new, of_new)
    good = None if good is None else chosen(good, of_good)
    return replace(options, new=new, good=good, remarks=(*options.remarks, *remarks))


def _kernels(build: Build) -> Mapping[str, Build]:
    """Return a build for each kernel, by the name that the kernel has on a card of Raspberry Pi OS."""
    if build.variants or build.kernel is None:
        return build.variants
    (file,) = build.of(BuildFileRole.KERNEL)
    return {firmware_name(Path(file.path).name, build.kernel): build}
