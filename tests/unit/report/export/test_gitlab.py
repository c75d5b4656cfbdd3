import shlex

import pytest

from pytest_pinet.report.export.gitlab import gitlab, rounded
from tests.support.export_runs import ALTERNATED, EXACT, RUNS, points


@pytest.mark.parametrize("kind", RUNS)
def test_gitlabs_parser_reads_each_line(kind: str) -> None:
    """Its parser (lib/gitlab/ci/parsers/metrics) cuts at ``#``, splits as a shell does, and takes two words."""
    for line in gitlab(points(RUNS[kind])).splitlines():
        name, value = shlex.split(line.partition("#")[0])
        assert name.partition("{lab=")[0] in (
            "pinet_goodput_gbit", "pinet_instructions_per_packet", "pinet_packets_per_second"
        )  # fmt: skip
        assert float(value) >= 0


def test_values() -> None:
    assert gitlab(points(ALTERNATED)).splitlines()[0] == (
        'pinet_goodput_gbit{lab="virtual",metric="pi4b.onboard.pair.tcp-P1-tx"} 0.920'
    )
    for name, value in (("instructions_per_packet", "2334.00"), ("packets_per_second", "13690.00")):
        line = f'pinet_{name}{{lab="exact",metric="exact.macb.pair.qemu-7-2-22.frame-60-tx"}} {value}'
        assert line in gitlab(points(EXACT)).splitlines()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9413, "0.940"),
        (0.9421, "0.940"),
        (2.353, "2.36"),
        (0.0941, "0.0940"),
        (9.414, "9.40"),
        (120.0, "120"),
        (0, "0"),
    ],
)
def test_noise_does_not_change_a_rounded_value(value: float, text: str) -> None:
    assert rounded(value) == text
