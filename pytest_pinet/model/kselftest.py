"""A selftest of the kernel to run on a link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import quoted

_TEST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*:[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
# runner.sh of the selftests; a file `settings` of a collection can set another one.
USUAL_TIMEOUT_S = 45.0


@dataclass(frozen=True)
class Kselftest:
    """A selftest as ``run_kselftest.sh -t`` names it, ``drivers/net:ping.py``.

    ``source`` is a kernel tree, or installed selftests (a folder, or an archive of one). ``environment`` are further
    lines of ``net.config``.
    """

    test: str
    source: str
    timeout_s: float = USUAL_TIMEOUT_S
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _TEST.fullmatch(self.test) or ".." in self.test:
            raise ConfigError(f"expected a selftest such as 'drivers/net:ping.py', got {quoted(self.test)}")
        for name, value in self.environment.items():
            # The selftests take quotes literally, and cut each line at '#'.
            if not _NAME.fullmatch(name) or not re.fullmatch(r"[^#'\"\s][^#'\"\n]*", value):
                line = f"{name}={value}"
                raise ConfigError(f"expected a line of net.config such as DISRUPTIVE=no, got {quoted(line)}")

    @property
    def collection(self) -> str:
        """The folder below tools/testing/selftests."""
        return self.test.partition(":")[0]

    @property
    def key(self) -> str:
        """The part of an id, without characters that separate its parts."""
        return "kselftest-" + re.sub(r"[/:]", "-", self.test)
