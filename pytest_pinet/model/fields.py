"""What a file that users write may contain: the forms of its values, and the fields of a dataclass that it sets.

Each type parses YAML's value, and its message says what is accepted.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    JsonValue,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema

from pytest_pinet.execution.entry_points import LAUNCHERS, SWITCH_BACKENDS, TRAFFIC_TOOLS, Extension
from pytest_pinet.execution.names import shown, unknown
from pytest_pinet.model.forms import (
    BUS_INFO,
    DEVICE,
    DRIVER,
    NAME,
    PLACE,
    PORT,
    PORT_ADDRESS,
    Form,
    Management,
    Template,
)
from pytest_pinet.model.forms import FORM as MANAGEMENT_FORM
from pytest_pinet.model.limits import parse_marginal
from pytest_pinet.model.quantities import DURATION_FORM, RATE_FORM, Bitrate, Share, parse_duration, parse_text

NUMBER = r"[0-9]+(\.[0-9]+)?([eE][0-9]+)?"
RATE_PATTERN = rf"{NUMBER} ?([kKmMgG]?([bB]it/s|bps)|[kKmMgG])"
_RATE = {"type": "string", "pattern": f"^{RATE_PATTERN}$"}
PERCENT = {"type": "string", "pattern": rf"^{NUMBER} ?%$"}
_TIME = {"type": "string", "pattern": rf"^{NUMBER} ?(ms|s|min|h)$"}
_MAC = Form(
    re.compile(r"[0-9a-fA-F][02468aceACE]([:-][0-9a-fA-F]{2}){5}"),
    "the MAC address of a NIC in quotes, such as 'dc:a6:32:01:02:03'",
)
_GLOB = Form(re.compile(r"[A-Za-z0-9._:+*?\[\]!-]{1,63}"), "a name or a glob such as 'pi4*'")
_TEXT = Form(re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]{1,500}"), "a text of one line")
_COMMITS = Form(
    re.compile(r"https?://[^\s<>\"']{1,400}\{commit\}[^\s<>\"']{0,100}"),
    "a URL with '{commit}', such as 'https://git.kernel.org/linus/{commit}'",
)
MAX_PORTS = 1024
LEAST_BOOT_S, MOST_BOOT_S = 1.0, 3600.0
# The fastest Ethernet that is specified has 800 Gbit/s.
MOST_MBPS = 1_000_000
# At a lower scale the queues of a link last longer than its traffic.
LEAST_SCALE = 0.01

# Of a dataclass that is a mapping in a file: other keys are mistakes.
ONLY_KNOWN_KEYS = ConfigDict(extra="forbid")
# The annotations of a field that is no key of the file (no key is a control character), and of such a field without a
# default: the code that reads the file sets it afterwards.
NO_KEY = (SkipJsonSchema(), Field(alias="\0"))  # type: ignore[type-arg]  # an annotation, and no type
SET_LATER = (*NO_KEY, Field(default=None))


def in_file(
    kind: object, description: str | None = None, *, default: object = ..., key: str | None = None, **schema: JsonValue
) -> tuple[object, ...]:
    """Return the annotations of a field that a file sets: ``Annotated[int, *in_file(LinkSpeed, "Mbit/s")]``.

    ``kind`` is the type that the file must have, ``description`` is for the file's JSON Schema, and ``key`` is the
    file's key if the field has another name. Without a ``default`` the file must have the key, unless the dataclass
    has a default.
    """
    own = Field(alias=key, description=description, json_schema_extra=schema or None)
    only_there = () if default is ... else (Field(default=default),)
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(kind)), own, *only_there


class UnknownName(ValueError):
    """A name in a file that means nothing there. The message is a whole sentence."""


def _scale(value: object) -> float | None:
    if value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST_SCALE <= value <= 1:
        raise ValueError(f"expected 'auto', or a share of the rate from {LEAST_SCALE:g} to 1, got {shown(value)}")
    return float(value)


def _of(form: Form, numbers: bool = False) -> Callable[[object], str]:
    """Return a check for texts of a form. ``numbers``: a whole number counts as its digits (port 7)."""

    def check(value: object) -> str:
        if isinstance(value, Template):
            raise ValueError(f"expected {form.text}; a !template is accepted only in the settings of a switch")
        return form.check(value, numbers)

    return check


def one_of(kind: str, accepted: tuple[str, ...]) -> tuple[object, ...]:
    """Return the annotations for a ``str`` with few accepted values: ``Annotated[str, *one_of(...)]``."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected one of {', '.join(accepted)}, got {shown(value)}")
        if value not in accepted:
            raise ValueError(unknown(kind, value, accepted))
        return value

    return PlainValidator(check), WithJsonSchema({"enum": list(accepted)})


def _rate(value: object) -> Bitrate:
    return Bitrate.parse(parse_text(value, RATE_FORM))


def _boot_timeout(value: object) -> float:
    seconds = parse_duration(parse_text(value, DURATION_FORM))
    if not LEAST_BOOT_S <= seconds <= MOST_BOOT_S:
        raise ValueError(f"expected {DURATION_FORM}, from {LEAST_BOOT_S:g} s to 1 h, got {shown(value)}")
    return seconds


def _whole(least: int, most: int) -> tuple[object, ...]:
    """Return the annotations of a whole number: ``Annotated[int, *_whole(1, 9)]``."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"expected a whole number from {least} to {most}, got {shown(value)}")
        return value

    return PlainValidator(check), WithJsonSchema({"type": "integer", "minimum": least, "maximum": most})


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a text or a finite number, got {shown(value)}")
    if isinstance(value, str):
        return value  # unchanged: a Template stays a Template
    return parse_text(value, "a text or a number")


def _registered(group: Extension) -> AfterValidator:
    """Return a check that a package registers this name. Packages are searched only if the lab file needs it."""

    def check(name: str) -> str:
        if name not in group.names:
            raise ValueError(unknown(group.kind, name, group.names))
        return name

    return AfterValidator(check)


def _ports(value: object) -> object:
    """Return the ports of a range such as ``p1-p16``. Other values go on to the list's own check."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and _is_range(value[0]):
        raise ValueError(f"a list with the one port {shown(value[0])}; write a range of ports without brackets")
    if not isinstance(value, str):
        return value
    ends = _ends(value)
    if ends is None or "," in value:
        raise ValueError(f"expected a list of ports or a range such as 'p1-p16', got {shown(value)}")
    prefix, first, last = ends
    if len(first) > 6 or len(last) > 6 or not 0 <= int(last) - int(first) < MAX_PORTS:
        raise ValueError(f"expected an ascending range of at most {MAX_PORTS} ports, got {shown(value)}")
    width = len(first) if first.startswith("0") else 1
    return [f"{prefix}{number:0{width}}" for number in range(int(first), int(last) + 1)]


def _is_range(text: str) -> bool:
    """Return whether the text can only be a range: ``p1-p16``. A switch may have a port ``1-1`` or ``lan-1-2``."""
    if (ends := _ends(text)) is None:
        return False
    prefix, first, last = ends
    has_two_names = prefix != "" and "-" not in prefix and f"-{prefix}" in text
    return has_two_names or int(last) - int(first) >= MAX_PORTS


def _ends(text: str) -> tuple[str, str, str] | None:
    """Return the prefix and the two numbers of ``p1-p16`` or ``p1-16``; None if the text is no range."""
    # The longest range has two port names. A regular expression would try each '-' with each other one.
    if len(text) > 129:
        return None
    for at in (at for at, character in enumerate(text) if character == "-"):
        left, right = text[:at], text[at + 1 :]
        before, after = left.rstrip(string.digits), right.rstrip(string.digits)
        if before != left and after != right and after in ("", before):
            return before, left[len(before) :], right[len(after) :]
    return None


def _text(form: Form, numbers: bool = False, **schema: object) -> tuple[object, ...]:
    """Return the annotations for texts of a form. ``schema``: keys of its JSON Schema in place of the pattern."""
    kind = ["string", "integer"] if numbers else "string"
    keys = schema or {"pattern": f"^{form.pattern.pattern}$"}
    return BeforeValidator(_of(form, numbers)), WithJsonSchema({"type": kind, **keys})


# Annotations of a list that can also be written as one text.
_ONE_OR_MORE = (
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
)
Name = Annotated[str, *_text(NAME, numbers=True)]
PlaceName = Annotated[str, *_text(PLACE)]
Tool = Annotated[Name, _registered(TRAFFIC_TOOLS)]
Backend = Annotated[Name, _registered(SWITCH_BACKENDS)]
Launcher = Annotated[Name, _registered(LAUNCHERS)]
Glob = Annotated[str, BeforeValidator(_of(_GLOB)), WithJsonSchema({"type": "string"})]
parse_line = _of(_TEXT)
Text = Annotated[str, *_text(_TEXT, minLength=1)]
CommitUrl = Annotated[str, *_text(_COMMITS, pattern=r"^https?://.*\{commit\}")]
Device = Annotated[str, *_text(DEVICE)]
# YAML reads 10:20:30:40:50:60 and 0000:01:00.0 as numbers.
Mac = Annotated[str, *_text(_MAC), AfterValidator(lambda value: value.lower().replace("-", ":"))]
BusInfo = Annotated[str, *_text(BUS_INFO)]
Driver = Annotated[str, *_text(DRIVER, minLength=1)]
Drivers = Annotated[tuple[Driver, ...], *_ONE_OR_MORE]
PortAddress = Annotated[str, *_text(PORT_ADDRESS)]
Port = Annotated[str, BeforeValidator(_of(PORT, numbers=True)), WithJsonSchema({"type": ["string", "integer"]})]
Ports = Annotated[
    list[Port],
    BeforeValidator(_ports),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1, "uniqueItems": True},
                {"type": "string", "pattern": "^.*[0-9]+-.*[0-9]+$"},
            ]
        }
    ),
]
LinkShare = Annotated[
    float | None,
    PlainValidator(_scale),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "number", "minimum": LEAST_SCALE, "maximum": 1}]}),
]
# A rate in Mbit/s. It need not be a whole number.
Mbps = Annotated[float, PlainValidator(lambda value: _rate(value).bps / 1e6), WithJsonSchema(_RATE)]
BootTimeout = Annotated[float, PlainValidator(_boot_timeout), WithJsonSchema(_TIME)]
# The values of limits stay as they are written: the parser of limits reads them, editors need their shape.
Minimum = Annotated[object, WithJsonSchema({"type": "string", "pattern": rf"^({RATE_PATTERN}|{NUMBER} ?%)$"})]
Fraction = Annotated[object, WithJsonSchema({"anyOf": [PERCENT, {"type": "number", "minimum": 0, "maximum": 1}]})]
Percentage = Annotated[object, WithJsonSchema(PERCENT)]
Latency = Annotated[object, WithJsonSchema(_TIME)]
PerSecond = Annotated[object, WithJsonSchema({"type": "string", "pattern": r"^ *[0-9.eE+-]+ *[kKmM]? */ *s *$"})]
Tolerance = Annotated[
    object,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": rf"^{NUMBER} ?%( and {RATE_PATTERN})?$"},
                {
                    "type": "object",
                    "required": ["relative"],
                    "properties": {"relative": PERCENT, "absolute": _RATE},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
ManagementOf = Annotated[
    Management,
    PlainValidator(lambda value: Management.parse(parse_text(value, MANAGEMENT_FORM))),
    WithJsonSchema({"type": "string", "pattern": "^(separate|same|wifi|vlan:[1-9][0-9]{0,3})$"}),
]
Marginal = Annotated[Share, PlainValidator(parse_marginal), WithJsonSchema(PERCENT)]
Clock = Annotated[int, *_whole(1, 100_000)]
Cores = Annotated[int, *_whole(1, 4096)]
Count = Annotated[int, *_whole(1, 10_000_000)]
WholeSeconds = Annotated[int, *_whole(0, 10_000_000)]
LinkSpeed = Annotated[int, *_whole(1, MOST_MBPS)]
# The least packet that IPv4 requires (RFC 791), and the largest MTU of Linux's loopback.
Mtu = Annotated[int, *_whole(68, 65_536)]
Setting = Annotated[str, PlainValidator(_setting), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Members = Annotated[tuple[Glob, ...], *_ONE_OR_MORE]


def _unique(values: Sequence[object]) -> Sequence[object]:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{shown(value)} occurs twice in this list")
        seen.add(value)
    return values


def _filled(values: Sequence[object]) -> Sequence[object]:
    if not values:
        raise ValueError("expected at least one entry, got an empty list")
    return values


def _two(values: Sequence[object]) -> Sequence[object]:
    if len(values) != 2:
        raise ValueError(f"expected the two ports of one cable, got {len(values)}")
    return values


TWO = (
    AfterValidator(_two),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}),
)
UNIQUE = (AfterValidator(_filled), AfterValidator(_unique))
