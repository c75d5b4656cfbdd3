"""``pinet schema``: prints the shipped JSON Schemas."""

from __future__ import annotations

from importlib.resources import files

import click

from pytest_pinet.cli.command import PinetCommand

SCHEMAS = {"lab": ("pytest_pinet.config", "lab.schema.json"), "results": ("pytest_pinet.report", "results.schema.json")}


@click.command(cls=PinetCommand)
@click.argument("which", type=click.Choice(sorted(SCHEMAS)))
def schema(which: str) -> None:
    """Print the JSON Schema of lab files ('lab') or of results.json ('results')."""
    package, name = SCHEMAS[which]
    click.echo(files(package).joinpath(name).read_text(encoding="utf-8"), nl=False)
