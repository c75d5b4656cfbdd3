"""The accepted keys and values under ``pinet:`` in a lab file, and the JSON Schema made from them.

``python -m pytest_pinet.config.schema`` writes ``lab.schema.json`` beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter

from pytest_pinet.config.section import Section
from pytest_pinet.errors import Where
from pytest_pinet.judge.profile import DEFAULT_PROFILE, PROFILES
from pytest_pinet.model.fields import (
    NO_KEY,
    UNIQUE,
    Backend,
    CommitUrl,
    Fraction,
    Glob,
    Latency,
    Marginal,
    Minimum,
    Name,
    Percentage,
    PerSecond,
    Ports,
    Setting,
    Text,
    Tolerance,
    in_file,
    one_of,
)
from pytest_pinet.model.hardware import Board, Nic
from pytest_pinet.model.lab import Lab, Switch
from pytest_pinet.model.limits import MOST_DROPS, WAYS

DIRECTIONS = tuple(sorted(WAYS))
# labgrid's own keys are not checked here. ``x-`` keys are for anchors.
LABGRID_KEYS = ("targets", "options", "features", "paths", "images", "tools", "imports")
SCHEMA_FILE = Path(__file__).with_name("lab.schema.json")


class SwitchSection(Section):
    """A switch; other keys belong to its backend."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Setting] = Field(init=False)

    backend: Backend = Field(description="cli, fixed, linux, snmp, or a backend of an installed package")
    ports: Annotated[Ports, *UNIQUE] = Field(description="a list, or a range such as p1-p16")


class LimitSection(Section):
    """Limits on the goodput and the costs of all matching combinations."""

    board: Glob = "*"
    nic: Glob = Field("*", description="'onboard', a catalogue or product name, or a glob")
    topology: Glob = "*"
    direction: Annotated[str, *one_of("direction", DIRECTIONS)] | None = None
    min: Minimum | None = Field(
        None, description="goodput of a NIC: a rate such as '690 Mbit/s' or a share of the physical limit such as '94%'"
    )
    sum: Minimum | None = Field(
        None, description="goodput of all flows together: a rate, or a share of their physical limit"
    )
    share: Fraction | None = Field(
        None, description="least share of its fair rate that each flow must get, such as '90%'"
    )
    fairness: Fraction | None = Field(None, description="Jain's fairness index, from 0 to 1")
    tolerance: Tolerance | None = Field(
        None, description="how far goodput may be below its accepted baseline; of two parts, the larger decides"
    )
    cost_tolerance: Percentage | None = Field(
        None, description="how much more a Gbit may cost the device under test with build B than with A, such as '10%'"
    )
    retransmits: Percentage | None = Field(
        None, description="largest share of TCP segments that are retransmitted, such as '0.1%'"
    )
    loss: Percentage | None = Field(None, description="largest share of UDP datagrams that are lost, such as '0.5%'")
    latency: Latency | None = Field(None, description="longest mean round-trip time under load, such as '5 ms'")
    cpu: Percentage | None = Field(None, description="largest share of one core for each Gbit/s, such as '40%'")
    max_drops: Annotated[int, Field(ge=0, le=MOST_DROPS)] | None = Field(
        None,
        description="how often the link of the device under test may drop in one measurement; by default a second "
        "drop, on a fresh link-up, fails",
    )
    transactions: PerSecond | None = Field(
        None, description="fewest requests of gate.transactions that are answered for each second, such as '8000/s'"
    )
    connections: PerSecond | None = Field(
        None, description="fewest connections of gate.connections for each second, such as '900/s'"
    )
    packets: PerSecond | None = Field(
        None, description="fewest small packets of gate.packets for each second, such as '300k/s'"
    )
    p50: Latency | None = Field(None, description="longest round trip of half of the probes of gate.latency")
    p90: Latency | None = Field(None, description="longest round trip of 90 % of the probes of gate.latency")
    p99: Latency | None = Field(None, description="longest round trip of 99 % of the probes of gate.latency")
    late: Percentage | None = Field(
        None, description="largest share of the probes of gate.latency that are later than its after="
    )
    idle_loss: Percentage | None = Field(
        None, description="largest share of the idle pings of gate.idle that are lost, such as '1%'"
    )
    first_answer: Latency | None = Field(
        None, description="longest time to the first answer after the idle time of gate.idle, such as '500 ms'"
    )
    first_second: Percentage | None = Field(
        None, description="smallest goodput of the first second after an idle time, as a share of the line rate"
    )
    marginal: Marginal | None = Field(
        None, description="width of the band, as a share of the limit, where a value that meets the limit is marginal"
    )


@dataclass(frozen=True)
class LabOfFile(Lab):
    """The parts of the lab that labgrid does not describe.

    This is a lab together with its file's settings for judging, the result of ``labfile.load``. ``baselines`` is the
    folder of the accepted baselines. ``baselines_where`` is the place that names this folder (None: the default folder,
    which need not exist). ``calibration`` need not exist either. ``packaged_calibration`` is what a packaged lab may
    come with; it is never written. ``unset`` are the variables of templates that are not set, with their first place; a
    launcher sets its own.
    """

    # The file has sections here, which `labfile.resolve` turns into switches and limits.
    switches: Annotated[Mapping[str, Switch], *in_file(dict[Name, SwitchSection])]
    limit_sections: Annotated[Sequence[LimitSection], *in_file(list[LimitSection], key="limits")] = ()
    boards: Annotated[Mapping[str, Board], *in_file(dict[Name, Board])] = field(default_factory=dict)
    nics: Annotated[Mapping[str, Nic], *in_file(dict[Name, Nic])] = field(default_factory=dict)
    profile: Annotated[
        str,
        *in_file(Annotated[str, *one_of("profile", tuple(PROFILES))], "how long traffic may run until a verdict"),
    ] = DEFAULT_PROFILE
    baselines: Annotated[
        Path, *in_file(Text | None, "folder of the accepted baselines, by default 'baselines' beside this file")
    ] = Path("baselines")
    baselines_where: Annotated[Where | None, *NO_KEY] = None
    calibration: Annotated[
        Path,
        *in_file(Text | None, "file that `pinet calibrate` writes, by default NAME.calibration.yaml beside this file"),
    ] = Path("lab.calibration.yaml")
    packaged_calibration: Annotated[Path | None, *NO_KEY] = None
    commits: Annotated[
        str,
        *in_file(
            CommitUrl | None,
            "URL of a commit, with {commit} in the place of its hash; the report page links builds to it",
        ),
    ] = ""
    unset: Annotated[Mapping[str, Where], *NO_KEY] = field(default_factory=dict)


def json_schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a whole lab file."""
    section = TypeAdapter(LabOfFile).json_schema(mode="validation")
    definitions = section.pop("$defs")
    for own in (definitions["Board"], definitions["Nic"]):
        # What the file leaves out, the catalogue has.
        own.pop("required")
        own["properties"] = {
            key: {name: part for name, part in value.items() if name != "default"}
            for key, value in own["properties"].items()
        }
    for key in ("figures", "baselines", "calibration"):
        # Their defaults depend on other values of the file.
        del section["properties"][key]["default"]
    for mapping in [section, *definitions.values()]:
        # The further paragraphs of a docstring are for readers of the code.
        mapping["description"] = mapping["description"].partition("\n\n")[0]
        for value in mapping["properties"].values():
            if "patternProperties" in value:
                value["additionalProperties"] = False  # a key that is not a name is a mistake
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-pinet lab file",
        "description": "A labgrid environment file with one more key, pinet.",
        "type": "object",
        "required": ["pinet"],
        "properties": {"pinet": section} | {key: {} for key in LABGRID_KEYS},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "$defs": definitions,
    }


def schema_text() -> str:
    """Return the text of the shipped schema file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
