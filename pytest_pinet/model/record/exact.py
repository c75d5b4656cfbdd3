"""The JSON form of an exact boot, for the cache and for results: functions by module and name."""

from __future__ import annotations

from pytest_pinet.model.exact import ExactBoot, ExactIdentity, ExactWindow, Function
from pytest_pinet.model.record.base import Record
from pytest_pinet.model.traffic import Direction

# A change of the JSON form makes all cached boots invalid.
VERSION = 2


class ExactWindowRecord(Record):
    """One fixed amount of traffic. ``functions`` are instructions by module (empty: the kernel image) and name."""

    traffic: str
    direction: Direction
    octets: int
    packets: int
    virtual_ns: int
    instructions: int | None
    pmu_instructions: int | None
    functions: dict[str, dict[str, int]]


class ExactBootRecord(Record):
    """One boot of an exact board."""

    version: int
    identity: ExactIdentity
    windows: tuple[ExactWindowRecord, ...]

    @classmethod
    def of_boot(cls, boot: ExactBoot) -> ExactBootRecord:
        windows = [ExactWindowRecord.of(window, functions=_by_module(window)) for window in boot.windows]
        return cls(version=VERSION, identity=boot.identity, windows=tuple(windows))

    def boot(self) -> ExactBoot:
        return ExactBoot(self.identity, tuple(_window(window) for window in self.windows))


def _by_module(window: ExactWindow) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for function, count in sorted(window.functions.items()):
        found.setdefault(function.module, {})[function.name] = count
    return found


def _window(record: ExactWindowRecord) -> ExactWindow:
    functions = {
        Function(module, name): count for module, own in record.functions.items() for name, count in own.items()
    }
    return ExactWindow(**{**dict(record), "functions": functions})


def dumps(boot: ExactBoot) -> str:
    """Return a boot as JSON text."""
    return ExactBootRecord.of_boot(boot).model_dump_json(indent=1) + "\n"


def loads(text: str | bytes) -> ExactBoot:
    """Return the boot of a JSON text. Raises ValueError if the text is not of this version."""
    record = ExactBootRecord.model_validate_json(text)
    if record.version != VERSION:
        raise ValueError(f"the exact boot has version {record.version}, expected {VERSION}")
    return record.boot()
