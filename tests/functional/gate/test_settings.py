"""Settings of a run with xdist."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_workers_have_the_values_of_the_controller(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npinet_error_rate = 5%\npinet_tolerance = 4%\n")
    pytester.makeconftest(
        """
        from pytest_pinet.session.settings import settings

        def pytest_collection_finish(session):
            if hasattr(session.config, "workerinput"):
                found = settings(session.config)
                with open("seen", "w") as file:
                    print(found["error-rate"], found["tolerance"], found["min"], found["require"], file=file)
                    print(found.origin("tolerance"), session.config.getoption("--pinet-min"), file=file)
        """
    )
    pytester.makepyfile("def test_nothing(): pass")
    done = pytester.runpytest_subprocess("-n1", "--pinet-min=90%", "--pinet-acquire-timeout=2min")
    assert done.ret == 0, done.stdout.str()
    seen = Path(pytester.path, "seen").read_text().splitlines()
    assert seen == ["0.05 ['4%'] ['90%'] 0", "tox.ini:3: pinet_tolerance ['90%']"]
