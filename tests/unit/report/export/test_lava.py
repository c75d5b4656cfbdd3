from pytest_pinet.report.export.cases import lava
from tests.support.export_runs import ALTERNATED, RUNS


def test_each_metric_is_a_signal() -> None:
    assert lava(ALTERNATED, {}).splitlines() == [
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi4b.onboard.pair.tcp-P1-tx RESULT=fail UNITS=Gbit/s MEASUREMENT=0.921239>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi4b.onboard.pair.tcp-P1-rx RESULT=pass UNITS=Gbit/s MEASUREMENT=0.941000>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi5.onboard.pair.tcp-P1-rx RESULT=pass UNITS=Gbit/s MEASUREMENT=0.969230>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=cm4.onboard.pair.tcp-P1-tx RESULT=unknown UNITS=Gbit/s "
        "MEASUREMENT=0.933472>",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi3b.onboard.pair.measurement RESULT=fail>",
    ]


def test_each_word_has_one_equals_sign() -> None:
    for run in RUNS.values():
        for line in lava(run, {}).splitlines():
            words = line.removesuffix(">").split()[1:]
            assert all(word.count("=") == 1 for word in words)
