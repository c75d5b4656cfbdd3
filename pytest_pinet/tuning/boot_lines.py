"""The lines that boot settings add to the boot files of a Raspberry Pi. The files themselves are never edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class BootLines:
    """Lines to add to config.txt and words to add to the kernel's command line, for one trial boot."""

    config: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()

    def with_config(self, *lines: str) -> BootLines:
        """Return these lines with ``lines`` after them. Of two lines for one setting, the firmware takes the last."""
        return replace(self, config=(*self.config, *lines))

    def with_parameters(self, parameters: Sequence[str]) -> BootLines:
        """Return these lines and words for the kernel's command line, each once."""
        return replace(self, cmdline=tuple(dict.fromkeys((*self.cmdline, *parameters))))


NO_LINES = BootLines()
