"""In CI, a smoke test that is skipped fails, except for what CI cannot install."""

from __future__ import annotations

import pytest

from tests.conftest import MAY_BE_MISSING, SKIPPED_SMOKE

TESTS = """
import pytest

@pytest.mark.smoke
def test_called():
    pytest.importorskip("no_such_module")

@pytest.mark.smoke
@pytest.mark.skipif(True, reason="no such program")
def test_marked():
    pass

@pytest.fixture
def server():
    pytest.skip("no server here")

@pytest.mark.smoke
def test_fixture(server):
    pass

@pytest.mark.smoke
def test_index():
    pytest.skip({allowed!r} + "6.1.0-50-arm64 are not here")

@pytest.mark.smoke
@pytest.mark.xfail(strict=True)
def test_expected():
    assert False

def test_other():
    pytest.skip("a slow test")
"""


@pytest.mark.parametrize(
    ("value", "counts"),
    [("", {"skipped": 5}), ("fails", {"failed": 1, "errors": 2, "skipped": 2})],
)
def test_a_skipped_smoke_test_fails_only_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str, counts: dict[str, int]
) -> None:
    monkeypatch.setenv(SKIPPED_SMOKE, value)
    pytester.makeconftest("from tests.conftest import pytest_runtest_makereport")
    pytester.makepyfile(TESTS.format(allowed=MAY_BE_MISSING[0]))

    done = pytester.runpytest_inprocess("-p", "no:labgrid", "-p", "no:cacheprovider")

    done.assert_outcomes(**counts, xfailed=1)
    if value:
        done.stdout.fnmatch_lines(["*=fails, and this smoke test was skipped: no server here"])
