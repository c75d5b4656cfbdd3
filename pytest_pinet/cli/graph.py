"""``pinet graph``: draw a lab, or what a combination uses of it; touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_pinet.cli.lab_file import LAB_OPTION
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.traffic import Direction


@click.command()
@LAB_OPTION
@click.argument("combination", metavar="[COMBINATION-ID]", required=False)
@click.option(
    "--direction", type=click.Choice([str(way) for way in Direction]),
    help="Which way the traffic of the combination goes; by default the usual one of its topology.",
)  # fmt: skip
@click.option("--svg", "svg_file", metavar="FILE", help="Also write an SVG file.")
def graph(lab_file: str, combination: str | None, direction: str | None, svg_file: str | None) -> None:
    """Draw a lab, or what a combination such as pi4b:onboard/incast:5 uses of it."""
    from pytest_pinet import inventory
    from pytest_pinet.config.labfile import load
    from pytest_pinet.lab.contention import all_domains, domains_of
    from pytest_pinet.pictures.combination_svg import combination_drawing
    from pytest_pinet.pictures.combination_text import combination_text
    from pytest_pinet.pictures.lab_svg import lab_drawing
    from pytest_pinet.pictures.lab_text import lab_text

    lab = load(lab_file)
    if combination is None:
        if direction is not None:
            raise ConfigError(f"--direction {direction} goes with a combination, such as pi4b:onboard/pair")
        domains = all_domains(lab)
        lines, picture = lab_text(lab, domains), lab_drawing(lab, domains)
    else:
        chosen = inventory.combination(lab, combination)
        way = Direction(direction) if direction is not None else chosen.topology.directions[0]
        try:
            chosen.topology.runs(way)
        except ValueError as error:
            raise ConfigError(f"--direction: {error}") from None
        own = domains_of(lab, chosen)
        lines, picture = combination_text(lab, chosen, way, own), combination_drawing(lab, chosen, way, own)
    if svg_file is not None:
        try:
            Path(svg_file).write_text(picture.svg(), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--svg: cannot write {svg_file}: {error.strerror}") from None
    for line in lines:
        click.echo(line)
