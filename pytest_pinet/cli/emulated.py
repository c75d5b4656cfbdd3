"""``pinet emulated``: creates the SD card image of emulated boards, and fetches kernels and QEMU for them."""

from __future__ import annotations

import click

from pytest_pinet.cli.command import PinetGroup
from pytest_pinet.cli.paint import echo


@click.group(cls=PinetGroup)
def emulated() -> None:
    """Create the SD card image of emulated boards, and fetch kernels to compare, or a newer QEMU."""


@emulated.command()
def card() -> None:
    """Create the SD card image, unless it exists, and print its path. Every emulated board gets a copy of it."""
    from pytest_pinet.emulated.image import card_image
    from pytest_pinet.emulated.prepare import check_commands

    check_commands()
    echo(card_image(_report))


@emulated.command()
@click.argument("package", required=False)
def kernel(package: str | None) -> None:
    """Fetch the Debian kernel PACKAGE, such as linux-image-6.12-arm64, and print the path of its file.

    Without PACKAGE, list the newest kernel of each kind in this machine's Debian sources. The printed path is a build:
    `pinet gate "$(pinet emulated kernel linux-image-rt-arm64)"`.
    """
    from pytest_pinet.emulated.image import kernel_package, kernels

    if package is None:
        for name in kernels(_report):
            echo(name)
    else:
        echo(kernel_package(package, _report))


@emulated.command()
def qemu() -> None:
    """Unpack a newer QEMU from Debian's backports beside the installed one, and print its path. Needs no root.

    Exact boards that need a newer QEMU (igb) then use it. `PINET_QEMU` names another QEMU for all exact boards.
    """
    from pytest_pinet.exact.qemu import unpack_newer_qemu

    echo(unpack_newer_qemu(_report))


def _report(text: str) -> None:
    echo(text, err=True)
