"""A user's ``conftest.py`` that acts on the lab in mid-traffic, and records how each phase of a test ended."""

from __future__ import annotations

import json
from typing import Any

from tests.support.gate_project import Project

# `pinet` runs `pinet lab COMMAND`. A phase that did not pass is timed from the act, or from the end of the test before.
CONFTEST = """
import json, os, subprocess, threading, time
import pytest

ACTED = pytest.StashKey()

def pinet(command, *words):
    argv = [os.environ["PINET"], "lab", command, "--lab", os.environ["LAB"], *words]
    subprocess.run(argv, check=True, timeout=30, stdout=subprocess.DEVNULL)

@pytest.fixture
def amid_traffic(link, request):
    '''Call with a function that is to run when 200 kB have gone over the interface of the DUT.'''
    threads = []
    counter = f"/sys/class/net/{link.dut.device}/statistics/{{}}_bytes"
    seen = f"$(($(cat {counter.format('tx')}) + $(cat {counter.format('rx')})))"
    wait = f"b={seen}; until [ $(({seen} - b)) -gt 200000 ]; do sleep 0.02; done"

    def act(what):
        pinet("exec", link.dut.endpoint.node.name, "--", wait)
        request.config.stash[ACTED] = time.time()
        what()

    def start(what):
        threads.append(threading.Thread(target=act, args=[what]))
        threads[0].start()

    yield start
    threads[0].join(30)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    with open("reports.jsonl", "a") as file:
        since = item.config.stash.get(ACTED, call.start)
        ended = {"test": item.name, "outcome": report.outcome, "seconds": call.stop - since}
        file.write(json.dumps(ended) + "\\n")
    if call.when == "teardown":
        item.config.stash[ACTED] = time.time()
    return report
"""


def seconds_to_failure(project: Project, test: str) -> float:
    """Return the seconds from the act in the middle of this test's traffic to the report of the test's failure."""
    reports: list[dict[str, Any]] = [
        json.loads(line) for line in (project.path / "reports.jsonl").read_text().splitlines()
    ]
    broken = (r for r in reports if r["test"].startswith(f"{test}[") and r["outcome"] == "failed")
    return float(next(broken)["seconds"])
