"""All settings by name, in the order that ids use, and the parser of ``tuning=``.

Each setting is an entry point, also our own settings. A setting is imported when a tuning uses its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import cast

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.entry_points import TUNINGS, missing
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.tuning import UNTUNED, Tuning
from pytest_pinet.tuning.setting import BootSetting, Setting

FORM = "a mapping such as {'rps': 'all', 'mtu': 9000}, or a list of such mappings ({}: no tuning)"

# The order of settings in ids. It must not change, because the history finds values by id. Settings of other packages
# follow, sorted by name.
BOOT_ORDER = (
    *("arm_freq", "arm_boost", "over_voltage", "over_voltage_delta", "force_turbo", "dtparam", "pcie_gen", "kernel"),
)
RUNNING_ORDER = (
    *("irq", "rps", "xps", "rfs", "governor", "scaling_max_freq", "scaling_min_freq", "mtu", "ring_rx", "ring_tx"),
    *("rx_usecs", "tx_usecs", "rx_frames", "tx_frames", "adaptive_rx", "adaptive_tx"),
    *("tso", "gso", "gro", "lro", "sg", "rx_checksum", "tx_checksum", "rx_hash"),
    *("eee", "flow_control", "congestion", "socket_buffers", "tcp_buffers", "timestamps", "qdisc"),
    *("speed", "nat"),
)
ORDER = (*BOOT_ORDER, *RUNNING_ORDER)
# Other common names, for the hint in the error message.
_MEANT = {"cmdline": "kernel", "cpu_freq": "scaling_max_freq", "rings": "ring_rx", "pause": "flow_control"}


def names() -> list[str]:
    """Return the names of the installed settings, in the order that ids use."""
    return sorted(TUNINGS.names, key=_place)


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name), "") if name in ORDER else (len(ORDER), name)


@cache
def _find(name: str) -> Setting | BootSetting:
    """Import a setting. Raises ConfigError if no package has the setting, or if the object is no setting."""
    made, what = TUNINGS.make(name)
    if missing(made, BootSetting):
        TUNINGS.require(made, what, Setting)
    found = cast(Setting | BootSetting, made)
    if found.name != name:
        raise ConfigError(f"{what} has the name {found.name!r}; expected the name that its package registers")
    return found


def takes_boot(name: str) -> bool:
    """Return whether a setting needs a boot. Raises ConfigError."""
    return not missing(_find(name), BootSetting)


def setting(name: str) -> Setting:
    """Return a setting of a running node."""
    assert not takes_boot(name), name
    return cast(Setting, _find(name))


def boot_setting(name: str) -> BootSetting:
    """Return a setting that needs a boot."""
    assert takes_boot(name), name
    return cast(BootSetting, _find(name))


def read_tuning(value: object) -> Tuning:
    """Parse a mapping from names to values, into the order of ids. Raises ValueError with the accepted form.

    Raises ConfigError if the package of a setting cannot be used.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a tuning; expected {FORM}")
    for name in value:
        if name not in TUNINGS.names:
            meant = _MEANT.get(str(name))
            hint = f"unknown tuning '{name}', did you mean '{meant}'?"
            raise ValueError(hint if meant else unknown("tuning", str(name), names()))
    settings = []
    for name in sorted(value, key=_place):
        try:
            settings.append((name, _find(name).parse(value[name])))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return Tuning(tuple(settings))


def read_tunings(value: object) -> tuple[Tuning, ...]:
    """Parse a mapping or a list of mappings, without duplicates. Raises ValueError."""
    each = [value] if isinstance(value, Mapping) else value
    if not isinstance(each, list | tuple) or not each:
        raise ValueError(f"{value!r} is not a tuning; expected {FORM}")
    return tuple(dict.fromkeys(read_tuning(one) for one in each))


def together(tuning: Tuning, more: Tuning) -> Tuning:
    """Merge two tunings. If both have a setting, the value of ``more`` counts."""
    settings = {**dict(tuning.settings), **dict(more.settings)}
    return Tuning(tuple((name, settings[name]) for name in sorted(settings, key=_place)))


def parse_key(text: str) -> Tuning:
    """Parse ``rps=all+mtu=9000`` of the command line; ``none`` changes no setting. Raises ValueError."""
    if text in ("", UNTUNED):
        return Tuning()
    given: dict[str, object] = {}
    for part in text.split("+"):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not a tuning; expected settings such as 'rps=all+mtu=9000', or {UNTUNED!r}")
        given[name] = value
    return read_tuning(given)


def boot_part(tuning: Tuning) -> Tuning:
    """Return the settings that need a boot."""
    return tuning.only([name for name, _ in tuning.settings if takes_boot(name)])


def running_part(tuning: Tuning) -> Tuning:
    """Return the settings that need no boot."""
    return tuning.only([name for name, _ in tuning.settings if not takes_boot(name)])


def in_order(names: Iterable[str]) -> list[Setting]:
    """Return settings in the order of application. Disruptive settings come first: they may create queues again."""
    return sorted((setting(name) for name in names), key=lambda one: not one.disruptive)


def who_gets(name: str) -> str:
    """Describe where a setting is applied."""
    return "at a boot of the device under test" if takes_boot(name) else f"on {setting(name).where.value}"
