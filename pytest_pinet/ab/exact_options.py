"""Which kernels an exact gate compares, and whether a build is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_pinet.ab.options import ABOptions
from pytest_pinet.builds.kernels import firmware_name
from pytest_pinet.errors import LabError
from pytest_pinet.model.build import Build, BuildFileRole


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
