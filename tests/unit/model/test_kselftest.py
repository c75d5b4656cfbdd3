"""The name and the settings of a selftest of the kernel."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.traffic import Kselftest


def test_its_id_has_no_character_that_separates_parts() -> None:
    job = Kselftest("drivers/net/hw:csum.py", "linux")
    assert (job.collection, job.key) == ("drivers/net/hw", "kselftest-drivers-net-hw-csum.py")


@pytest.mark.parametrize("test", ["ping.py", "drivers/net", "../x:y", "a:b; reboot", "a: b", ""])
def test_other_names_are_refused(test: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a selftest such as 'drivers/net:ping.py', got"):
        Kselftest(test, "linux")


@pytest.mark.parametrize("line", [("a b", "1"), ("X", "a # b"), ("X", "'quoted'"), ("X", "a\nNETIF=b"), ("X", "")])
def test_lines_that_the_selftests_read_otherwise_are_refused(line: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"expected a line of net.config such as DISRUPTIVE=no, got"):
        Kselftest("drivers/net:ping.py", "linux", environment=dict([line]))
