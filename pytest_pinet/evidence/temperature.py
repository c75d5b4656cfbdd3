"""Reads the clock, temperature and throttling of an end. The firmware of a Raspberry Pi reports them best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.evidence.sources import EvidenceSource, Texts
from pytest_pinet.model.evidence import EndEvidence, Heat, Throttling

# ``scaling_cur_freq`` is only the clock that the kernel requested. The firmware may set a lower one.
FILES = (
    "/sys/class/thermal/thermal_zone0/temp",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq",
    "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq",
    "/sys/devices/platform/soc*/*/get_throttled",
)
FIRMWARE = "if command -v vcgencmd >/dev/null; then vcgencmd measure_clock arm; vcgencmd get_throttled; fi"
COMMAND = f"{{ {FIRMWARE}; grep -H '' {' '.join(FILES)}; }} 2>/dev/null; :"


class Thermals(EvidenceSource):
    """The readings before and after traffic.

    The same command reads in mid-traffic, because the clock changes with load.
    """

    name = "heat"

    def files(self, device: str) -> Sequence[str]:
        return FILES

    def command(self, device: str) -> str:
        return FIRMWARE

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        return replace(evidence, before=parse_temperature(texts.before), after=parse_temperature(texts.after))


def parse_temperature(text: str) -> Heat | None:
    """Parse the output of COMMAND; None if it has no values."""
    measured: float | None = None
    asked: list[float | None] = []
    most: list[float | None] = []
    temperature: float | None = None
    throttling: Throttling | None = None
    for line in text.splitlines():
        if line.startswith("frequency("):
            # frequency(48)=1500345728, in Hz
            measured = _number(line.partition("=")[2], 1e6)
        elif line.startswith("throttled="):
            throttling = parse_throttled(line.partition("=")[2])
        else:
            path, _, value = line.rpartition(":")
            match path.rpartition("/")[2]:
                case "temp":
                    temperature = _number(value, 1e3)
                case "scaling_cur_freq":
                    asked.append(_number(value, 1e3))
                case "cpuinfo_max_freq":
                    most.append(_number(value, 1e3))
                case "get_throttled":
                    throttling = parse_throttled(value)
    found = Heat(measured or _fastest(asked), _fastest(most), temperature, throttling)
    return None if found == Heat() else found


def _fastest(clocks: list[float | None]) -> float | None:
    return max((clock for clock in clocks if clock is not None), default=None)


def _number(text: str, unit: float) -> float | None:
    try:
        return float(text) / unit
    except ValueError:
        return None


def parse_throttled(text: str) -> Throttling | None:
    """Parse what vcgencmd ("0x50005") or sysfs ("50005") prints; None for other text."""
    try:
        return Throttling(int(text, 16))
    except ValueError:
        return None
