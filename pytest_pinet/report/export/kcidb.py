"""Exports a run as a report to KCIDB, the database of KernelCI, in version 5.3 of its format.

The dashboard of KernelCI stores numbers and does not show them, so the goodput is also in ``log_excerpt`` and ``misc``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.results_file import moment
from pytest_pinet.model.build import BuildSource
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.export.cases import Case, cases_of, plain_name, required, settings_of

VERSION = {"major": 5, "minor": 3}
_SETTINGS = ("origin", "git_commit", "git_url", "git_branch", "tree", "build", "architecture", "config", "link")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ORIGIN = re.compile(r"[a-z0-9_]+")
_STATUS = {
    Verdict.PASS: "PASS",
    Verdict.MARGINAL: "PASS",
    Verdict.IMPROVED: "PASS",
    Verdict.FAIL: "FAIL",
    Verdict.INCONCLUSIVE: "ERROR",
    Verdict.INVALID: "ERROR",
    Verdict.ERROR: "MISS",
    Verdict.SKIPPED: "SKIP",
}
# The names of boards in the hardware view of KernelCI's dashboard.
_PLATFORMS = {
    "pi3b": ("bcm2837-rpi-3-b", "raspberrypi,3-model-b"),
    "pi3b+": ("bcm2837-rpi-3-b-plus", "raspberrypi,3-model-b-plus"),
    "pi4b": ("bcm2711-rpi-4-b", "raspberrypi,4-model-b"),
    "cm4": ("bcm2711-rpi-cm4", "raspberrypi,4-compute-module"),
    "pi5": ("bcm2712-rpi-5-b", "raspberrypi,5-model-b"),
}


def kcidb(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return the JSON of one checkout, one build, and one test for each metric.

    The commit is that of the build under test, if its folder has it; else ``--set git_commit=SHA``. ``origin`` is the
    name that KernelCI gave to the lab (default: pinet). ``build`` is the id of a build that KernelCI knows: then no
    checkout and no build is reported, and no commit is needed.
    """
    given = settings_of("kcidb", settings, *_SETTINGS)
    origin = given["origin"] or "pinet"
    if not _ORIGIN.fullmatch(origin):
        raise ConfigError(f"--set origin: {origin!r} has other characters than a-z, 0-9 and _; expected pinet")
    found: dict[str, object] = {"version": VERSION}
    build_id = given["build"]
    if build_id and not re.fullmatch(r"[a-z0-9_]+:.*", build_id):
        raise ConfigError(f"--set build: {build_id!r} is no id of a build; expected ORIGIN:ID, such as maestro:1f2e")
    if not build_id:
        checkout, build = _source(run, given, origin)
        build_id = str(build["id"])
        found |= {"checkouts": [checkout], "builds": [build]}
    tests = [_test(run, case, number, origin, build_id, given) for number, case in enumerate(cases_of(run), 1)]
    return json.dumps(found | {"tests": tests}, indent=1, allow_nan=False) + "\n"


def _source(run: RunRecord, given: Mapping[str, str], origin: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the checkout and the build."""
    tested = run.change.b if run.change is not None else None
    given = _with_source(given, BuildSource() if tested is None else tested.known_source)
    commit = required("kcidb", given, "git_commit", "0e44d9fed54654d05b4c841b78fb077dac90c249")
    if not _COMMIT.fullmatch(commit):
        raise ConfigError(f"--set git_commit: {commit!r} is no whole hash; expected 40 hexadecimal digits")
    url = given["git_url"]
    if url and not url.startswith("https://"):
        raise ConfigError(f"--set git_url: {url!r} is no https URL; KCIDB accepts no other")
    key = tested.key if tested is not None and tested.key else run.run
    checkout = {
        "id": f"{origin}:{commit}",
        "origin": origin,
        "tree_name": given["tree"],
        "git_repository_url": url,
        "git_repository_branch": given["git_branch"],
        "git_commit_hash": commit,
        "git_commit_name": given["git_describe"],
        "patchset_hash": "",
        "valid": True,
    }
    build = {
        "id": f"{origin}:{commit}-{key}",
        "origin": origin,
        "checkout_id": f"{origin}:{commit}",
        "architecture": given["architecture"] or "arm64",
        "config_name": given["config"],
        "compiler": given["compiler"],
        "comment": tested.name if tested is not None else "",
        "status": "PASS",
    }
    return _known(checkout), _known(build)


def _with_source(given: Mapping[str, str], source: BuildSource) -> dict[str, str]:
    """Fill the settings that were not given from what TuxMake or KernelCI recorded about the build."""
    # KCIDB accepts https URLs only. A tree of another kind is left out, unless the user names it.
    tree = source.tree if source.tree.startswith("https://") else ""
    filled = {"git_commit": source.commit, "git_url": tree, "git_branch": source.branch}
    more = {"git_describe": source.describe, "compiler": source.compiler}
    return {**given, **more, **{name: given[name] or value for name, value in filled.items()}}


def _known(values: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is not known. An empty patch set means that no patch was applied."""
    return {name: value for name, value in values.items() if value != "" or name == "patchset_hash"}


def _test(
    run: RunRecord, case: Case, number: int, origin: str, build_id: str, given: Mapping[str, str]
) -> dict[str, object]:
    result, direction = case.result, case.direction
    path = f"pinet.{case.group}" if not (result.directions or result.has_no_rate) else f"pinet.{case.name}"
    head = ", ".join(filter(None, [f"{case.figure}: {case.verdict}", case.value_text]))
    found: dict[str, object] = {
        "id": f"{origin}:{run.session or plain_name(run.run)}.{number}",
        "origin": origin,
        "build_id": build_id,
        "path": path,
        "status": _status(run, case),
        "start_time": moment(result.started or run.started).isoformat(),
        "duration": round(result.seconds, 3),
        "environment": _environment(run, case),
        "log_excerpt": "\n".join(filter(None, [head, case.text])).replace("\0", "")[:16384],
        "misc": _misc(run, case),
    }
    if given["link"]:
        found["log_url"] = given["link"]
    if case.instructions is not None:
        found["number"] = {"value": case.instructions, "unit": "instructions", "prefix": "metric"}
    elif direction is not None and result.exact is None and math.isfinite(direction.goodput_bps):
        found["number"] = {"value": direction.goodput_bps, "unit": "bit/s", "prefix": "metric"}
    return found


def _status(run: RunRecord, case: Case) -> str:
    """Return the status. A value without a limit is DONE: it was measured, and nothing judges it."""
    direction = case.direction
    unlimited = run.change is None and direction is not None and direction.limit_bps is None
    return "DONE" if unlimited and case.verdict is Verdict.PASS else _STATUS[case.verdict]


def _environment(run: RunRecord, case: Case) -> dict[str, object]:
    combination = case.result.combination
    platform, compatible = _PLATFORMS.get(combination.board, ("", ""))
    misc = {"platform": platform, "nic": combination.nic, "lab": run.lab}
    found: dict[str, object] = {"misc": _known(misc)}
    return found | ({"compatible": [compatible]} if compatible else {})


def _misc(run: RunRecord, case: Case) -> dict[str, object]:
    """Return what KCIDB has no field for. A reader of emulated values must know that they are emulated."""
    result, direction = case.result, case.direction
    found: dict[str, object] = {
        "metric": case.figure,
        "verdict": str(case.verdict),
        "figures": run.figures,
        "runtime": f"pytest-pinet {run.pinet}".strip(),
        "build": {name: value for name, value in result.build.items() if value},
    }
    if direction is not None and result.exact is None:
        found |= {"goodput_bps": direction.goodput_bps, "limit_bps": direction.limit_bps}
    if result.exact is not None:
        sides = {"a": result.exact.a, "b": result.exact.b}
        found["instructions_per_packet"] = {name: side.instructions for name, side in sides.items()}
        found["packets_per_second"] = {name: side.packets_per_second for name, side in sides.items()}
    elif result.change is not None and direction is not None:
        found["goodput_of_a_bps"] = [one.a_bps for one in result.change.directions.values()]
    return found
