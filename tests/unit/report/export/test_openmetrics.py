import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_pinet.report.export.openmetrics import openmetrics, prometheus
from tests.support.export_runs import PLAIN, RUNS, points


@pytest.mark.parametrize("kind", RUNS)
def test_prometheus_parser_reads_it(kind: str) -> None:
    text = prometheus(points(RUNS[kind]))
    families = [*text_string_to_metric_families(text)]
    assert {family.type for family in families} == {"gauge"}
    assert all(sample.timestamp is None for family in families for sample in family.samples)


def test_the_samples_are_those_of_openmetrics() -> None:
    texts = [form(points(PLAIN)).splitlines() for form in (prometheus, openmetrics)]
    found, other = ([line for line in text if line[0] != "#"] for text in texts)
    assert found == other


def test_no_type_and_line_that_the_pushgateway_refuses() -> None:
    text = prometheus(points(PLAIN))
    assert "# TYPE pinet_build_info gauge\n" in text
    assert not [word for word in ("stateset", "# UNIT", "# EOF") if word in text]
