"""labgrid's own pytest plugin is imported only where labgrid or pinet is used; its users notice no difference."""

from __future__ import annotations

import pytest

# pytest loads pinet first with -p. Without, the order depends on the file system.
PLUGINS = ("-p", "pinet", "-p", "no:hypothesispytest", "-p", "no:allure_pytest", "-p", "no:cacheprovider")
REPORT = """
import sys

def pytest_unconfigure(config):
    real = config.pluginmanager.has_plugin("labgrid") and "labgrid.pytestplugin" in sys.modules
    heavy = sorted({"labgrid", "grpc", "yaml"} & set(sys.modules))
    print("REAL" if real else "STAND-IN", heavy)
"""
# The lines of a project that uses labgrid.
USES = """
import pytest

@pytest.mark.lg_feature("camera")
def test_feature(env):
    raise AssertionError("the environment has no camera")

def test_environment(env, target):
    assert env.config_file.endswith("env.yaml")
    assert target.name == "main"
"""
NEEDS_NONE = """
import pytest

@pytest.mark.lg_feature("camera")
def test_marked():
    pass

def test_environment(env):
    raise AssertionError("never reached")

def test_strategy(strategy):
    raise AssertionError("never reached")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("LG_ENV", "PINET_LAB", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest(REPORT)
    (pytester.path / "env.yaml").write_text("targets:\n  main:\n    resources: {}\n")
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess(*PLUGINS, *options, timeout=60)


def test_a_run_that_uses_neither_imports_neither(project: pytest.Pytester) -> None:
    project.makepyfile(NEEDS_NONE)
    result = run(project, "--strict-markers", "-rs")
    result.assert_outcomes(passed=1, skipped=2)
    # As labgrid's plugin does without an environment. Its own fixture strategy ends with an AttributeError there.
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] *missing environment config (use --lg-env)"] * 2)
    result.stdout.fnmatch_lines(["STAND-IN [[][]]"])


@pytest.mark.parametrize(
    "how",
    [
        "option",
        pytest.param("addopts", marks=pytest.mark.slow),
        "environment",
        "conftest",
        pytest.param("hook", marks=pytest.mark.slow),
    ],
)
def test_an_environment_works_however_it_is_set(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    project.makepyfile(USES)
    options: tuple[str, ...] = ()
    if how == "option":
        options = ("--lg-env", "env.yaml")
    elif how == "addopts":
        project.makeini("[pytest]\naddopts = --lg-env=env.yaml\n")
    elif how == "environment":
        monkeypatch.setenv("LG_ENV", "env.yaml")
    elif how == "conftest":
        project.makeconftest(f"import os\nos.environ['LG_ENV'] = 'env.yaml'\n{REPORT}")
    else:
        hook = "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_configure(config):\n"
        project.makeconftest(f"{hook}    config.option.lg_env = 'env.yaml'\n{REPORT}")
    result = run(project, *options)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["REAL *labgrid*"])


@pytest.mark.slow
def test_workers_take_the_environment_of_the_controller(project: pytest.Pytester) -> None:
    project.makepyfile(USES)
    run(project, "-p", "xdist", "-n1", "--lg-env=env.yaml").assert_outcomes(passed=1, skipped=1)


def test_the_help_lists_the_options_of_labgrid(project: pytest.Pytester) -> None:
    result = run(project, "--help")
    result.stdout.fnmatch_lines(["*--lg-env=LG_ENV*", "*--lg-initial-state=STATE_NAME*", "REAL *"])


def test_a_disabled_or_earlier_plugin_stays_as_it_is(project: pytest.Pytester) -> None:
    project.makepyfile("def test_environment(env):\n    pass\n")
    disabled = run(project, "-p", "no:labgrid")
    disabled.assert_outcomes(errors=1)
    disabled.stdout.fnmatch_lines(["*fixture 'env' not found*", "STAND-IN [[][]]"])
    earlier = project.runpytest_subprocess("-p", "labgrid", *PLUGINS, timeout=60)
    earlier.assert_outcomes(skipped=1)
    earlier.stdout.fnmatch_lines(["REAL *labgrid*"])


@pytest.mark.slow
def test_without_automatic_loading_nothing_takes_its_place(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile("def test_environment(env):\n    pass\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = project.runpytest_subprocess("-p", "pinet", timeout=60)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'env' not found*"])
