"""The installed plugin costs nothing and prints nothing if it is not used."""

import re

import pytest

EMPTY = "import pytest\n\n@pytest.mark.parametrize('n', range(50))\ndef test_empty(n):\n    pass\n"


def without_times(lines: list[str]) -> list[str]:
    return [re.sub(r"in [0-9.]+s", "in Xs", line) for line in lines if not line.startswith("plugins:")]


def test_output_is_the_same_as_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EMPTY)
    with_plugin = pytester.runpytest_subprocess("-p", "no:labgrid", "-p", "no:cacheprovider")
    without = pytester.runpytest_subprocess("-p", "no:labgrid", "-p", "no:pinet", "-p", "no:cacheprovider")
    assert with_plugin.ret == without.ret == 0
    assert without_times(with_plugin.outlines) == without_times(without.outlines)
    assert not (pytester.path / ".pinet").exists()


def test_nothing_heavy_is_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EMPTY)
    # test_labgrid_plugin.py tests labgrid's own pytest plugin.
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            heavy = {"labgrid", "grpc", "yaml", "pydantic", "click", "allure"}
            ours = {m for m in sys.modules if m.startswith("pytest_pinet")}
            print("HEAVY", sorted(heavy & set(sys.modules)), "OURS", sorted(ours))
        """
    )
    plugins = ["-p", "no:labgrid", "-p", "no:allure_pytest"]
    result = pytester.runpytest_subprocess(*plugins, "-s")
    session = ("fixtures", "option_table", "settings")
    modules = ("", ".errors", ".hookspecs", ".plugin", ".session", *(f".session.{name}" for name in session))
    ours = ", ".join(f"'pytest_pinet{module}'" for module in modules)
    result.stdout.fnmatch_lines([f"HEAVY [[][]] OURS [[]{ours}[]]"])


def test_disabled_plugin_leaves_marked_tests_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain():\n    pass\n")
    assert pytester.runpytest_subprocess("-p", "no:pinet").ret == 0


def test_options_and_marker_are_documented(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("-p", "no:labgrid", "--help")
    result.stdout.fnmatch_lines(["network throughput of boards in a labgrid lab (pytest-pinet):", "*--pinet-lab=FILE*"])
    markers = pytester.runpytest_inprocess("-p", "no:labgrid", "--markers")
    markers.stdout.fnmatch_lines(["@pytest.mark.pinet(board='[*]', nic='[*]'*"])
    fixtures = pytester.runpytest_inprocess("-p", "no:labgrid", "--fixtures")
    for name in ("link", "gate", "tune", "exact_gate"):
        fixtures.stdout.fnmatch_lines([f"{name} -- *"])
