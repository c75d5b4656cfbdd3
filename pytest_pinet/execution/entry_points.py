"""Extensions from other packages, found by entry points. The parts of this package are registered in the same way.

Entry points are read at the first look-up of a name in any group, and once for each value of ``sys.path``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.names import unknown

_PREFIX = "pytest_pinet."


@dataclass(frozen=True)
class Extension:
    """One kind of extension. ``name`` is the entry-point group, ``kind`` the word for it in messages (``tuning``)."""

    name: str
    kind: str

    @property
    def names(self) -> set[str]:
        """The names that installed packages register; reading them imports nothing."""
        return set(self._points)

    @property
    def _points(self) -> Mapping[str, list[EntryPoint]]:
        return _registered(tuple(sys.path)).get(self.name, {})

    def load(self, name: str) -> tuple[object, str]:
        """Return the object that an entry point names, and its name for messages (``tuning 'x' of package y 1.0``).

        Raises ConfigError if no package registers the name, if two packages register it, or if the import fails.
        """
        found = {(point.value, _package(point)): point for point in self._points.get(name, ())}
        if not found:
            raise ConfigError(unknown(self.kind, name, self.names))
        if len(found) > 1:
            packages = " and in ".join(sorted(package for _, package in found))
            raise ConfigError(f"{self.kind} '{name}' is in {packages}: uninstall all but one")
        ((_, package), point), *_ = found.items()
        what = f"{self.kind} '{name}' of {package}"
        try:
            return point.load(), what
        except Exception as error:
            raise ConfigError(f"{what} cannot be imported: {type(error).__name__}: {error}") from error

    def make(self, name: str, *arguments: object, takes: str = "nothing") -> tuple[object, str]:
        """Call the loaded object with these arguments. Return its result, and its name for messages.

        Without arguments, the entry point may also name an object that is not callable; that object is returned.
        ``takes`` describes the arguments in messages. Raises ConfigError as ``load`` does, and if the call fails.
        PinetErrors of the call are passed on.
        """
        found, what = self.load(name)
        if not callable(found) and not arguments:
            return found, what
        if not callable(found):
            wanted = f"expected a callable that takes {takes} and returns a {self.kind}"
            raise ConfigError(f"{what} is not callable; {wanted}")
        try:
            return found(*arguments), what
        except PinetError:
            raise
        except Exception as error:
            raise ConfigError(f"{what} cannot be made: {type(error).__name__}: {error}") from error

    def require(self, made: object, what: str, protocol: type) -> None:
        """Raise ConfigError, with the names of the missing methods, if an object lacks members of its protocol."""
        if lacks := missing(made, protocol):
            named = ", ".join(repr(one) for one in lacks)
            raise ConfigError(f"{what} is not a {self.kind}: {type(made).__name__} has no method {named}")


# A factory, called with the `Lab`; returns a `traffic.tool.TrafficTool`.
TRAFFIC_TOOLS = Extension(f"{_PREFIX}traffic_tools", "traffic tool")
# A `tuning.setting.Setting`, a `tuning.boot_settings.BootSetting`, or a factory of one.
TUNINGS = Extension(f"{_PREFIX}tunings", "tuning")
# A factory, called with a `Switch` and its settings; returns a `lab.switch.switchport.SwitchBackend`.
SWITCH_BACKENDS = Extension(f"{_PREFIX}switch_backends", "switch backend")
# A factory of a `lab.launcher.Launcher`.
LAUNCHERS = Extension(f"{_PREFIX}launchers", "launcher")
# An `evidence.sources.EvidenceSource`, or a factory of one.
EVIDENCE_SOURCES = Extension(f"{_PREFIX}evidence_sources", "evidence source")
# A function, called with the `history.points.Point`s of a run; returns text.
EXPORTERS = Extension(f"{_PREFIX}exporters", "exporter")
# A function, called with the `RunRecord` of a results.json and the settings of `--set`; returns text.
RUN_EXPORTERS = Extension(f"{_PREFIX}run_exporters", "exporter")


def missing(made: object, protocol: type) -> list[str]:
    """Return the members of a protocol that an object lacks. Properties are not evaluated: one might query a device."""
    absent = object()
    members = {name for base in protocol.__mro__ for name in vars(base) if not name.startswith("_")}
    return sorted(name for name in members if inspect.getattr_static(made, name, absent) is absent)


@cache
def _registered(_: tuple[str, ...]) -> Mapping[str, Mapping[str, list[EntryPoint]]]:
    """Return our entry points by group and name. ``_`` is the ``sys.path`` that is searched: the cache key."""
    found: dict[str, dict[str, list[EntryPoint]]] = {}
    every = entry_points()
    for group in every.groups:
        if group.startswith(_PREFIX):
            for point in every.select(group=group):
                found.setdefault(group, {}).setdefault(point.name, []).append(point)
    return found


def _package(point: EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else f"package {point.dist.name} {point.dist.version}"
