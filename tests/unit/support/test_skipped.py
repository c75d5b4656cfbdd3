"""In CI, a test that is skipped fails, except for listed reasons."""

from __future__ import annotations

import pytest

from tests.conftest import MAY_BE_MISSING, SKIPPED

TESTS = """
import pytest

def test_called():
    pytest.importorskip("no_such_module")

@pytest.mark.skipif(True, reason="no such program")
def test_marked():
    pass

@pytest.fixture
def server():
    pytest.skip("no server here")

def test_fixture(server):
    pass

def test_listed():
    pytest.skip({allowed!r} + " on this machine")

@pytest.mark.xfail(strict=True)
def test_expected():
    assert False
"""


@pytest.mark.parametrize(
    ("value", "counts"),
    [("", {"skipped": 5}), ("fails", {"failed": 1, "errors": 3, "skipped": 1})],
)
def test_a_skipped_test_fails_only_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str, counts: dict[str, int]
) -> None:
    monkeypatch.setenv(SKIPPED, value)
    pytester.makeconftest("from tests.conftest import pytest_make_collect_report, pytest_runtest_makereport")
    whole = "import pytest\npytest.importorskip('no_such_module')\n"
    pytester.makepyfile(TESTS.format(allowed=MAY_BE_MISSING[0]), test_whole=whole)

    done = pytester.runpytest_inprocess("-p", "no:labgrid", "-p", "no:cacheprovider", "--continue-on-collection-errors")

    done.assert_outcomes(**counts, xfailed=1)
    if value:
        done.stdout.fnmatch_lines(["*=fails, and this test was skipped: no server here"])
