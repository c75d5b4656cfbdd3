"""The accepted keys and values under ``pinet:`` in a lab file, and the JSON Schema made from them.

``python -m pytest_pinet.config.schema`` writes ``lab.schema.json`` beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from pytest_pinet.config.fields import (
    TWO,
    UNIQUE,
    Backend,
    BootTimeout,
    BusInfo,
    Clock,
    CommitUrl,
    Cores,
    Device,
    Driver,
    Drivers,
    Fraction,
    Glob,
    Latency,
    Launcher,
    LinkSpeed,
    Mac,
    ManagementOf,
    Marginal,
    Members,
    Minimum,
    Mtu,
    Name,
    Percentage,
    PlaceName,
    PortAddress,
    Ports,
    Rate,
    Scale,
    Setting,
    Text,
    Tolerance,
    Tool,
    one_of,
)
from pytest_pinet.config.section import Section
from pytest_pinet.judge.profile import DEFAULT_PROFILE, PROFILES
from pytest_pinet.model.hardware import KERNEL_BUSES, Bus
from pytest_pinet.model.lab import CLOCKS, MACHINES, MANAGERS, USERS
from pytest_pinet.model.limit_parser import MOST_DROPS
from pytest_pinet.model.limits import WAYS

BUSES = tuple(sorted(bus.value for bus in Bus))
DIRECTIONS = tuple(sorted(WAYS))
FIGURES = ("emulated", "measured")
# The kinds of power outlets that a launcher can provide. The words are labgrid's models of a NetworkPowerPort.
OUTLETS = ("poe_mib", "rest", "shelly_gen2")
# labgrid's own keys are not checked here. ``x-`` keys are for anchors.
LABGRID_KEYS = ("targets", "options", "features", "paths", "images", "tools", "imports")
SCHEMA_FILE = Path(__file__).with_name("lab.schema.json")

BusName = Annotated[str, *one_of("bus", BUSES)]


class BoardSection(Section):
    """A board: a new one, or changes to a board of the catalogue."""

    title: Text | None = None
    clock_mhz: Clock | None = Field(None, description="stock clock of the processor")
    cores: Cores | None = None
    buses: list[BusName] | None = Field(None, description="buses that an add-on NIC can use")
    onboard: Name | None = Field(None, description="catalogue name of the board's own NIC")
    model: Text | None = Field(
        None, description="name in /proc/device-tree/model, without revision; a new board without it is not checked"
    )
    sources: list[Text] | None = None


class NicSection(Section):
    """A NIC: a new one, or changes to a NIC of the catalogue."""

    title: Text | None = None
    chip: Text | None = None
    driver: Driver | None = Field(None, description="the kernel module")
    bus: BusName | None = None
    speeds_mbps: Annotated[list[LinkSpeed], *UNIQUE] | None = Field(
        None, description="link speeds that the NIC can negotiate"
    )
    mtu_max: Mtu | None = None
    products: list[Name] | None = Field(None, description="other names of this NIC")
    traits: list[Text] | None = None
    sources: list[Text] | None = None


class SwitchSection(Section):
    """A switch; other keys belong to its backend."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Setting] = Field(init=False)

    backend: Backend = Field(description="cli, fixed, linux, snmp, or a backend of an installed package")
    ports: Annotated[Ports, *UNIQUE] = Field(description="a list, or a range such as p1-p16")


class InterfaceSection(Section):
    """A NIC of a node, and the switch port that its cable ends in."""

    nic: Name | None = Field(None, description="catalogue or product name; may be left out for 'onboard'")
    port: PortAddress = Field(description="switch/port")
    device: Device | None = Field(
        None,
        description="network device, if the NIC is found by its name; default: the board's own NIC for onboard, "
        "then eth1 and so on",
    )
    mac: Mac | None = Field(None, description="MAC address; the NIC is found by it, whatever its name")
    bus_info: BusInfo | None = Field(
        None, description="place on the bus, as ethtool -i prints it; without mac, the NIC is found by it"
    )
    driver: Annotated[Drivers, *UNIQUE] | None = Field(
        None, description="accepted driver, or a list; default: that of the catalogue"
    )
    bus: Annotated[str, *one_of("bus", tuple(KERNEL_BUSES))] | None = Field(
        None, description="the NIC is found by its driver on this bus, if it is the only one; without mac and bus_info"
    )
    speed: Rate | None = Field(None, description="link speed, if it is lower than the rated speed")


class NodeSection(Section):
    """One board in the lab."""

    board: Name
    place: PlaceName | None = Field(None, description="labgrid place, by default the node's name")
    target: PlaceName | None = Field(None, description="key under 'targets', by default the node's name")
    boot_timeout: BootTimeout | None = Field(
        None, description="longest time from power-on to ssh, by default 180 s; 300 s for boards with one core"
    )
    management: ManagementOf | None = Field(
        None,
        description="how commands reach the node: separate (an interface of its own), same (the onboard interface, or "
        "else the first one, which is also under test), vlan:N (a tagged VLAN on that interface), wifi or serial; by "
        "default the interface that the ssh connection uses decides",
    )
    outlet: Annotated[str, *one_of("kind of outlet", OUTLETS)] | None = Field(
        None, description="kind of power switch that the launcher provides for this node; only in a lab with a launcher"
    )
    machine: Annotated[str, *one_of("machine", MACHINES)] | None = Field(
        None, description="kind of machine that the launcher runs as this board; only in a lab with a launcher"
    )
    clock: Annotated[str, *one_of("clock", CLOCKS)] = Field(
        CLOCKS[0],
        description="clock of the board; virtual: counts instructions; goodput is per second of this clock; exact: a "
        "board of `pinet gate --exact`, whose values repeat to the last digit",
    )
    user: Annotated[str, *one_of("user", USERS)] | None = Field(
        None,
        description="account of an emulated board; pi: a user with sudo, and root cannot log in; default: root",
    )
    manager: Annotated[str, *one_of("network manager", MANAGERS)] | None = Field(
        None, description="what configures the NICs of an emulated board, which then runs systemd; default: nothing"
    )
    runner: bool = Field(
        False, description="this node is the machine that pytest runs on: it is only a peer, and has no target"
    )
    interfaces: Annotated[dict[Name, InterfaceSection], Field(json_schema_extra={"minProperties": 1})]


class UplinkSection(Section):
    """A cable between two switches. One group of ports at a time uses it, so it is leased like a node."""

    ports: Annotated[list[PortAddress], *TWO] = Field(description="one port on each of two switches")
    place: PlaceName | None = Field(None, description="labgrid place, by default the uplink's name")
    speed: Rate = Field(description="link speed of the cable, such as 1 Gbit/s")


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
    marginal: Marginal | None = Field(
        None, description="width of the band, as a share of the limit, where a value that meets the limit is marginal"
    )


class PinetSection(Section):
    """The parts of the lab that labgrid does not describe."""

    name: Name | None = Field(None, description="by default the file's name")
    figures: Annotated[str, *one_of("kind of values", FIGURES)] | None = Field(
        None, description="how reports label the values of this lab; by default emulated for a lab with a launcher"
    )
    launcher: Launcher | None = Field(
        None, description="program that starts the lab: virtual, or a launcher of an installed package; by default none"
    )
    scale: Scale = Field(
        1.0,
        description="share of their rate at which the launcher runs links; auto: a tenth if a trial shows that the "
        "machine is too slow for the full rate. Reported values are converted to the full rate",
    )
    boards: dict[Name, BoardSection] = Field({})
    nics: dict[Name, NicSection] = Field({})
    switches: dict[Name, SwitchSection]
    nodes: Annotated[dict[Name, NodeSection], Field(json_schema_extra={"minProperties": 1})]
    uplinks: dict[Name, UplinkSection] = Field({}, description="cables between switches")
    limits: list[LimitSection] = Field([])
    profile: Annotated[str, *one_of("profile", tuple(PROFILES))] = Field(
        DEFAULT_PROFILE, description="how long traffic may run until a verdict"
    )
    traffic_tool: Tool | None = Field(None, description="tool for TCP and UDP, by default iperf3")
    http_tool: Tool | None = Field(None, description="tool for HTTP, by default wrk")
    baselines: Text | None = Field(
        None, description="folder of the accepted baselines, by default 'baselines' beside this file"
    )
    calibration: Text | None = Field(
        None, description="file that `pinet calibrate` writes, by default NAME.calibration.yaml beside this file"
    )
    commits: CommitUrl | None = Field(
        None, description="URL of a commit, with {commit} in the place of its hash; the report page links builds to it"
    )
    domains: dict[Name, Annotated[Members, *UNIQUE]] = Field(
        {}, description="contention domains: node names or globs ('*': all); each domain runs one measurement at a time"
    )


def json_schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a whole lab file."""
    section = PinetSection.model_json_schema(mode="validation")
    definitions = section.pop("$defs")
    for mapping in [section, *definitions.values()]:
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
