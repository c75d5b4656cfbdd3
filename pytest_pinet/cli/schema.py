"""``pinet lab schema`` and ``pinet history schema``: print the shipped JSON Schemas."""

from __future__ import annotations

from importlib.resources import files

import click

from pytest_pinet.cli.command import PinetCommand


@click.command("schema", cls=PinetCommand)
def of_lab() -> None:
    """Print the JSON Schema of lab files."""
    _print("pytest_pinet.config", "lab.schema.json")


@click.command("schema", cls=PinetCommand)
def of_results() -> None:
    """Print the JSON Schema of results.json."""
    _print("pytest_pinet.report", "results.schema.json")


def _print(package: str, name: str) -> None:
    click.echo(files(package).joinpath(name).read_text(encoding="utf-8"), nl=False)
