"""All settings by their names, in the order in which they stand in ids, and how a test's ``tuning=`` is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_pinet.config.names import unknown
from pytest_pinet.model.tuning import UNTUNED, Tuning
from pytest_pinet.tuning.boot_settings import BOOT_SETTINGS
from pytest_pinet.tuning.coalescing import COALESCING, Coalescing
from pytest_pinet.tuning.cpu_clock import Governor, ScalingFrequency
from pytest_pinet.tuning.cpu_masks import Rps, Xps
from pytest_pinet.tuning.eee import Eee
from pytest_pinet.tuning.flow_control import FlowControl
from pytest_pinet.tuning.irq_affinity import IrqAffinity
from pytest_pinet.tuning.mtu import Mtu
from pytest_pinet.tuning.offloads import OFFLOADS, Offload
from pytest_pinet.tuning.qdisc import Qdisc
from pytest_pinet.tuning.rfs import Rfs
from pytest_pinet.tuning.ring import Ring
from pytest_pinet.tuning.setting import Setting
from pytest_pinet.tuning.sysctls import Congestion, SocketBuffers, TcpBuffers
from pytest_pinet.tuning.timestamps import Timestamps

FORM = "a mapping such as {'rps': 'all', 'mtu': 9000}, or a list of them ({} leaves everything as it is)"

# Of a node that runs.
_ALL: tuple[Setting, ...] = (
    IrqAffinity(),
    Rps(),
    Xps(),
    Rfs(),
    Governor(),
    ScalingFrequency("max"),
    ScalingFrequency("min"),
    Mtu(),
    Ring("rx"),
    Ring("tx"),
    *(Coalescing(parameter) for parameter in COALESCING),
    *(Offload(name, feature) for name, feature in OFFLOADS.items()),
    Eee(),
    FlowControl(),
    Congestion(),
    SocketBuffers(),
    TcpBuffers(),
    Timestamps(),
    Qdisc(),
)
SETTINGS: Mapping[str, Setting] = {setting.name: setting for setting in _ALL}
NAMES = (*BOOT_SETTINGS, *SETTINGS)
# What people call them elsewhere.
_MEANT = {"cmdline": "kernel", "cpu_freq": "scaling_max_freq", "rings": "ring_rx", "pause": "flow_control"}


def read_tuning(value: object) -> Tuning:
    """One mapping from names to values, in the order of NAMES. Raises ValueError, which says what is accepted."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no tuning; expected {FORM}")
    for name in value:
        if name not in NAMES:
            meant = _MEANT.get(str(name))
            hint = f"unknown tuning '{name}', did you mean '{meant}'?"
            raise ValueError(hint if meant else unknown("tuning", str(name), NAMES))
    settings = []
    for name in (name for name in NAMES if name in value):
        try:
            settings.append((name, (BOOT_SETTINGS.get(name) or SETTINGS[name]).parse(value[name])))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return Tuning(tuple(settings))


def read_tunings(value: object) -> tuple[Tuning, ...]:
    """A mapping, or a list of mappings, each once. Raises ValueError."""
    each = [value] if isinstance(value, Mapping) else value
    if not isinstance(each, list | tuple) or not each:
        raise ValueError(f"{value!r} is no tuning; expected {FORM}")
    return tuple(dict.fromkeys(read_tuning(one) for one in each))


def together(tuning: Tuning, more: Tuning) -> Tuning:
    """Both at once; of a setting that both have the latter's."""
    settings = {**dict(tuning.settings), **dict(more.settings)}
    return Tuning(tuple((name, settings[name]) for name in NAMES if name in settings))


def parse_key(text: str) -> Tuning:
    """``rps=all+mtu=9000`` as the command line has it; ``none`` leaves everything as it is. Raises ValueError."""
    if text in ("", UNTUNED):
        return Tuning()
    given: dict[str, object] = {}
    for part in text.split("+"):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is no tuning; expected settings such as 'rps=all+mtu=9000', or {UNTUNED!r}")
        given[name] = value
    return read_tuning(given)


def boot_part(tuning: Tuning) -> Tuning:
    """What takes a boot."""
    return tuning.only(BOOT_SETTINGS)


def running_part(tuning: Tuning) -> Tuning:
    """What does not."""
    return tuning.only(SETTINGS)


def in_order(names: Iterable[str]) -> list[Setting]:
    """As they are applied: first what may take the link down and set up queues anew, which others then set."""
    found = [SETTINGS[name] for name in names]
    return sorted(found, key=lambda setting: not setting.disruptive)


def who_gets(name: str) -> str:
    """Where a setting is applied, in words."""
    return "at a boot of the device under test" if name in BOOT_SETTINGS else f"on {SETTINGS[name].where.value}"
