"""``pinet emulated``: makes the card of emulated boards, and fetches kernels for them."""

from __future__ import annotations

import click


@click.group()
def emulated() -> None:
    """Make the card of emulated boards, and fetch kernels to gate against each other."""


@emulated.command()
def card() -> None:
    """Make the card that every emulated board gets a copy of, unless it is there; print its path."""
    from pytest_pinet.emulated.image import card_image
    from pytest_pinet.emulated.prepare import check_commands

    check_commands()
    click.echo(card_image(_tell))


@emulated.command()
@click.argument("package", required=False)
def kernel(package: str | None) -> None:
    """Fetch a Debian kernel, such as linux-image-6.12-arm64, and print the path of its package.

    Without a PACKAGE list the newest of each kind that this machine's Debian sources offer. What is printed is a build:
    `pinet gate "$(pinet emulated kernel linux-image-rt-arm64)"`.
    """
    from pytest_pinet.emulated.image import kernel_package, kernels

    if package is None:
        for name in kernels(_tell):
            click.echo(name)
    else:
        click.echo(kernel_package(package, _tell))


def _tell(what: str) -> None:
    click.echo(what, err=True)
