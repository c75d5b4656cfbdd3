"""The option that names the lab file."""

from __future__ import annotations

import click

DEFAULT_LAB = "lab/virtual.yaml"

LAB_OPTION = click.option(
    "--lab", "lab_file", metavar="FILE", default=DEFAULT_LAB, envvar="PINET_LAB", show_default=True,
    show_envvar=True, help="The lab file.",
)  # fmt: skip
