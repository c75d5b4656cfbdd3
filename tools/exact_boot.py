"""Boots an exact board and shows what it counts, for people who write a device model.

python -m tools.exact_boot genet                      what each window executes, and the part of the driver
python -m tools.exact_boot genet --twice              boot twice at once, and name the first difference
python -m tools.exact_boot genet --console --trace    the console, with each access to a register of the model
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from pytest_pinet.builds.load import load_build
from pytest_pinet.emulated.image import KERNEL
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.exact.boot import boot, boot_twice
from pytest_pinet.exact.measure import DEFAULT, ExactBench, exact_boards, stock_build
from pytest_pinet.judge.exact_functions import is_of_driver
from pytest_pinet.model.exact import ExactBoot, first_difference


def main() -> int:
    """Boot the board that the command line names. Return the exit code: 1 if two boots differ or a boot fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("board")
    parser.add_argument("--lab", default=DEFAULT, help="a lab file with exact boards")
    parser.add_argument(
        "--kernel", default=KERNEL, help="a build with a kernel, or a package of Debian, such as linux-image-6.12-arm64"
    )
    parser.add_argument("--build", help="a build under test, such as a module")
    parser.add_argument("--twice", action="store_true", help="boot twice at once, and compare")
    parser.add_argument("--console", action="store_true", help="show the kernel's messages")
    parser.add_argument("--trace", action="store_true", help="show each access to a register of the device model")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="the N functions that execute most")
    given = parser.parse_args()
    try:
        return _boot(given)
    except PinetError as error:
        print(error, *([error.excerpt] if getattr(error, "excerpt", "") else []), sep="\n", file=sys.stderr)
        return 1


def _boot(given: argparse.Namespace) -> int:
    boards = exact_boards(given.lab)
    if given.board not in boards:
        raise ConfigError(f"there is no exact board '{given.board}'; accepted: {', '.join(boards)}")
    bench = ExactBench(boards[given.board])
    is_package = given.kernel.startswith("linux-image-") and not Path(given.kernel).exists()
    base = stock_build(print, given.kernel) if is_package else load_build(given.kernel)
    payload = bench.payload(base, load_build(given.build) if given.build else None)
    model = bench.model(payload)
    if given.trace and model is not None:
        model = replace(model, words=f"{model.words},trace=1")
    if given.console:
        payload = replace(payload, words=f"{payload.words} loglevel=8")
    print(f"QEMU {bench.qemu.version_text}, kernel {payload.release}, modules: {', '.join(payload.modules)}")
    before, show = os.times(), print if given.console else None
    difference = None
    if given.twice:
        found, second = boot_twice(payload, bench.qemu, bench.plugin, model=model)
        difference = first_difference(found, second)
        print(f"difference: {difference or 'none'}")
    else:
        found = boot(payload, bench.qemu, bench.plugin, model=model, show=show)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{used:.1f} s of processor time; driver {found.identity.driver}")
    _show(found, given.top)
    return int(difference is not None)


def _show(boot: ExactBoot, top: int) -> None:
    for window in boot.windows:
        own: Counter[str] = Counter()
        for function, count in window.functions.items():
            if is_of_driver(function, boot.identity):
                own[function.module or "driver in the kernel"] += count
        per = ", ".join(f"{name} {count / window.packets:.2f}" for name, count in own.items())
        total = (window.instructions or 0) / window.packets
        print(f"{window.name:20} {window.packets:6} packets {total:12.2f} instructions each; {per}")
        for function, count in Counter(window.functions).most_common(top):
            print(f"{count / window.packets:40.2f}  {function}")


if __name__ == "__main__":
    sys.exit(main())
