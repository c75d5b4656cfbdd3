"""``link``, ``gate``, ``tune``: they give way to fixtures of the user, who can build on them."""

from __future__ import annotations

from pathlib import Path

import pytest

LAB = Path(__file__).parents[3] / "lab" / "virtual.yaml"
PLAN = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:allure_pytest",
    # The runs are in this process, which imports our modules and labgrid's plugin once.
    "-p",
    "no:labgrid",
    "-Wignore:Module already imported",
    "--pinet-history=off",
    "--pinet-dry-run",
    f"--pinet-lab={LAB}",
    "-rs",
)
MARK = 'import pytest\n\n@pytest.mark.pinet(board="pi3b", nic="onboard")\n'
OWN = """
import pytest

@pytest.fixture(params=["red", "blue"])
def link(request):
    return request.param

@pytest.fixture
def gate():
    return "my gate"

@pytest.fixture
def tune():
    return "my tune"
"""
ASKS_OWN = (
    "def test_own(link, gate, tune):\n    assert link in ('red', 'blue') and (gate, tune) == ('my gate', 'my tune')\n"
)
OWN_NODES = ["test_it.py::test_own[[]red[]] PASSED*", "test_it.py::test_own[[]blue[]] PASSED*"]


def test_the_fixtures_give_a_test_one_parameter(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=f"{MARK}def test_it(link, gate, tune):\n    with tune(link, mtu=4000):\n        gate.tcp(link)\n"
    )
    done = pytester.runpytest_inprocess(*PLAN, "-v")
    assert done.parseoutcomes() == {"planned": 1}
    done.stdout.fnmatch_lines(["test_it.py::test_it[[]pi3b:onboard/pair[]] PLANNED (dry run)*", "*iperf3 -c *"])


@pytest.mark.parametrize("mark", ["", MARK])
def test_fixtures_of_a_conftest_win_and_are_left_alone(pytester: pytest.Pytester, mark: str) -> None:
    """Also in a test with our marker, by mistake or for other tests of its class."""
    pytester.makeconftest(OWN)
    pytester.makepyfile(test_it=mark + ASKS_OWN)
    done = pytester.runpytest_inprocess(*PLAN, "-v", "--pinet-board=pi5")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(OWN_NODES)
    assert not (pytester.path / ".pinet").exists()


def test_fixtures_of_a_plugin_that_is_loaded_later_win(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(other_plugin=OWN, test_it=ASKS_OWN)
    pytester.makeconftest("pytest_plugins = ['other_plugin']")
    done = pytester.runpytest_inprocess(*PLAN, "-v")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(OWN_NODES)


def test_a_fixture_that_builds_on_ours_gets_the_combinations(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n\n@pytest.fixture\ndef link(link):\n    assert link.id == 'pi3b:onboard/pair'\n"
        "    return link\n"
        "\n@pytest.fixture\ndef cable(link):\n    return link\n"
    )
    pytester.makepyfile(
        test_it=f"{MARK}def test_same_name(link, gate):\n    gate.tcp(link)\n\n{MARK}def test_own_name(cable, gate):\n"
        "    gate.tcp(cable)\n"
    )
    done = pytester.runpytest_inprocess(*PLAN, "-v")
    assert done.parseoutcomes() == {"planned": 2}
    done.stdout.fnmatch_lines(
        ["*test_same_name[[]pi3b:onboard/pair[]] PLANNED (dry run)*", "*test_own_name[[]pi3b:onboard/pair[]] PLANNED*"]
    )


def test_without_the_marker_a_link_says_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(link):\n    pass\n")
    done = pytester.runpytest_inprocess(*PLAN)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*test_it: a test that uses the fixture 'link' needs @pytest.mark.pinet(board=*"])
