"""Tests that use labgrid's own pytest plugin work beside ours."""

from __future__ import annotations

import pytest

# pytest loads pinet first with -p. Without, the order depends on the file system.
PLUGINS = ("-p", "pinet", "-p", "no:hypothesispytest", "-p", "no:allure_pytest", "-p", "no:cacheprovider")


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n1")], ids=["alone", "with a worker"])
def test_the_environment_of_labgrid_reaches_its_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    for name in ("LG_ENV", "PINET_LAB", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    (pytester.path / "env.yaml").write_text("targets:\n  main:\n    resources: {}\n")
    pytester.makepyfile("""
        import pytest

        @pytest.mark.lg_feature("camera")
        def test_feature(env):
            raise AssertionError("the environment has no camera")

        def test_environment(env, target):
            assert env.config_file.endswith("env.yaml")
            assert target.name == "main"
    """)
    result = pytester.runpytest_subprocess(*PLUGINS, *workers, "--lg-env=env.yaml", timeout=60)
    result.assert_outcomes(passed=1, skipped=1)
