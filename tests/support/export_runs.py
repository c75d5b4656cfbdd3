"""One run of each kind for the exporters: single builds, two builds alternately, and an exact gate."""

from __future__ import annotations

from pytest_pinet.history.points import Point
from pytest_pinet.history.records import points_of
from pytest_pinet.model.record.result import RunRecord
from tests.support.change_records import broken, change_run, compared
from tests.support.exact_records import records, run_of
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, direction, result, run_record

HOSTILE = '# [FAIL] FAIL: SKIP: "x"\n::error::%0A ok 1 # SKIP'
PLAIN = run_record(
    [
        *NIGHT,
        result(
            "pi4b:onboard/incast:2/rps=all+mtu=9000",
            {"rx": direction(9e8, 1e9, "fail", reason=HOSTILE)},
        ),
        NIGHT[3],
    ],
    NIGHT_SKIPPED,
)
ALTERNATED = change_run(
    [
        compared("pi4b:onboard/pair", "tx", -0.021, "slower"),
        compared("pi4b:onboard/pair", "rx", 0.0, "same"),
        compared("pi5:onboard/pair", "rx", 0.03, "faster"),
        compared("cm4:onboard/pair", "tx", -0.008, "inconclusive"),
        broken("pi3b:onboard/pair", "panic"),
    ]
)
EXACT = run_of(records("slow"), "slow")
RUNS = {"plain": PLAIN, "alternated": ALTERNATED, "exact": EXACT}


def points(run: RunRecord) -> list[Point]:
    """Return the values as ``pinet export`` reads them."""
    return points_of(run, alternated=True)[1]
