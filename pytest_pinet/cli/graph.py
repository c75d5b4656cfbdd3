"""``pinet graph``: draws a lab, or the part of it that a combination uses, without using the lab."""

from __future__ import annotations

import subprocess

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import LAB_OPTION, print_lines, write_output
from pytest_pinet.errors import ConfigError, UnsupportedError, mistake_in
from pytest_pinet.model.traffic import Direction

# Graphviz draws fifty nodes in a second, but needs minutes for a mesh of fifty.
_RENDER_TIMEOUT_S = 60.0


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.argument("combination", metavar="[COMBINATION-ID]", required=False, shell_complete=lab_names.combinations)
@click.option(
    "--direction", type=click.Choice([str(way) for way in Direction]),
    help="Direction of the traffic. By default the first direction of the topology.",
)  # fmt: skip
@click.option("--dot", "dot_file", metavar="FILE", help="Also write a DOT file, the input of Graphviz.")
@click.option("--svg", "svg_file", metavar="FILE", help="Also write an SVG file; needs Graphviz.")
def graph(
    lab_file: str, combination: str | None, direction: str | None, dot_file: str | None, svg_file: str | None
) -> None:
    """Draw a lab, or the part of it that a combination such as pi4b:onboard/incast:5 uses."""
    from pytest_pinet.config.labfile import load
    from pytest_pinet.lab.contention import all_domains, domains_of
    from pytest_pinet.matrix import inventory
    from pytest_pinet.report.diagrams.dot import combination_dot, lab_dot
    from pytest_pinet.report.diagrams.text import combination_text, lab_text

    lab = load(lab_file, in_use=False)
    if combination is None:
        if direction is not None:
            raise ConfigError(
                f"--direction {direction} needs a combination, as in: pi4b:onboard/pair --direction {direction}"
            )
        domains = all_domains(lab)
        lines, dot = lab_text(lab, domains), lab_dot(lab, domains)
    else:
        chosen = inventory.combination(lab, combination)
        way = Direction(direction) if direction is not None else chosen.topology.directions[0]
        with mistake_in("--direction"):
            chosen.topology.runs(way)
        own = domains_of(lab, chosen)
        lines, dot = combination_text(lab, chosen, way, own), combination_dot(lab, chosen, way, own)
    if dot_file is not None:
        write_output([dot], dot_file, "--dot")
    if svg_file is not None:
        write_output([_rendered(dot)], svg_file, "--svg")
    print_lines(lines)


def _rendered(dot: str) -> str:
    """Return the SVG of a graph, made by Graphviz. Raises UnsupportedError."""
    try:
        done = subprocess.run(
            ["dot", "-Tsvg"], input=dot, capture_output=True, encoding="utf-8", timeout=_RENDER_TIMEOUT_S, check=False
        )
    except OSError as error:
        why = f"the program 'dot' cannot be run: {error.strerror}"
        raise UnsupportedError(f"--svg needs Graphviz (Debian package graphviz), but {why}") from None
    except subprocess.TimeoutExpired:
        raise UnsupportedError(
            f"--svg: Graphviz did not finish within {_RENDER_TIMEOUT_S:g} s; use --dot, which does not run Graphviz"
        ) from None
    if done.returncode:
        raise UnsupportedError(f"--svg: Graphviz failed with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout
