"""What users of labgrid keep if its plugin is loaded only after our stand-in.

The names of these tests lack the word labgrid: the path of a test is an option, and that word loads the plugin.
"""

from __future__ import annotations

import pytest

OPTIONS = ("-p", "pinet", "-p", "no:cacheprovider", "-p", "no:allure_pytest", "-p", "no:hypothesispytest")
TEST = """
def test_steps_of_labgrid_are_logged(request):
    handler = request.config.pluginmanager.getplugin("logging-plugin").log_cli_handler
    assert type(handler.formatter).__name__ == "StepFormatter"
"""


@pytest.mark.parametrize(
    "conftest",
    [
        pytest.param("import os\nos.environ['LG_ENV'] = 'env.yaml'\n", id="environment"),
        pytest.param("from labgrid import Environment\n", id="import"),
    ],
)
def test_a_conftest_gets_the_whole_plugin(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, conftest: str
) -> None:
    for name in ("LG_ENV", "PINET_LAB", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    (pytester.path / "env.yaml").write_text("targets:\n  main:\n    resources: {}\n")
    pytester.makeconftest(conftest)
    pytester.makepyfile(TEST)
    pytester.runpytest_subprocess(*OPTIONS, timeout=60).assert_outcomes(passed=1)
