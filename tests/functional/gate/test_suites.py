"""The suites of published systems, as a user runs them, on labs with and without the required parts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.gate_project import LAB_FILE, PINET, GateLab, NewProject, Project, lab_text, lab_up

SUITES = "pytest_pinet.suites"
PART = "not 200K and not -5] and not -rx]"
# Other programs run meanwhile: links carry less than they could, but never more.
# tests/soak/test_accuracy.py has the 3 % of the table.
LEAST_PERCENT, MOST_PERCENT = -50, 4
# Of what a link can carry. The published value of Wi-Fi is 31 % of that.
LEAST = "15%"


def percent(row: str) -> float:
    """Return the difference between the published value and the value of the run. The row must have both."""
    match = re.search(r"([+-]\d+\.\d) %  (ok|off)$", row)
    assert match is not None, row
    return float(match[1])


@pytest.fixture(scope="module")
def published_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    file = tmp_path_factory.mktemp("published-lab") / "published.yaml"
    with lab_up(file, lab_text(LAB_FILE.with_name(file.name))) as lab:
        yield lab


def test_a_lab_that_lacks_a_part_skips_with_the_reason(new_project: NewProject) -> None:
    project = new_project({})
    result = project.pytest("--strict-markers", "-ra", "--pyargs", SUITES, "-m", "usb_gigabit", "-k", "Wifi or OnUsb2")
    assert result.ret == 0
    assert result.parseoutcomes()["skipped"] == 4
    text = " ".join(result.stdout.str().split())
    assert "no board 'pi3b+' in lab virtual (nearest is 'pi3b'" in text
    assert "no NIC 'usb-802.11n' on board 'pi3b' in lab virtual" in text


@pytest.mark.smoke
def test_published_figures_come_out_of_their_suites(
    tmp_path_factory: pytest.TempPathFactory, published_lab: GateLab
) -> None:
    project = Project(tmp_path_factory.mktemp("suites"), published_lab)
    chosen = [
        f"{SUITES}.test_usb_gigabit::TestWifiAdapter",
        f"{SUITES}.test_usb3_adapters::TestAx88179At2GHz::test_one_way",
        f"{SUITES}.test_switch_under_test",
        f"{SUITES}.test_ten_gig::TestLargePayload",
        f"{SUITES}.test_cluster::test_disjoint_pairs",
        f"{SUITES}.test_further_figures::TestPi5With5G",
    ]
    result = project.pytest(
        "--strict-markers", "-ra", "--pyargs", *chosen, "-k", PART, f"--pinet-min={LEAST}", timeout_s=570
    )
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["xfailed"]) == (6, 1)
    assert "failed" not in outcomes
    wifi = project.results["results"][0]
    assert wifi["rerun"].startswith(f"pytest --pyargs '{SUITES}.test_usb_gigabit::TestWifiAdapter::test_one_way[")
    argv = [PINET, "compare", "published", "-o", "page.md"]
    table = subprocess.run(argv, cwd=project.path, capture_output=True, text=True, timeout=30, check=False)
    found = {line.split()[0]: line for line in table.stdout.splitlines() if line.strip()}
    # The strict form, each value within 3 %, is a statement of soak.
    off = [row for row in found.values() if row.endswith("  off")]
    assert table.returncode == bool(off), table.stdout + table.stderr
    for id_ in ("s0-wifi-pi3", "s1-ax-2000-oneway-tx", "s2-1", "s3-asus-mps", "s4-best", "p-pi5-rtl8126-15"):
        assert LEAST_PERCENT < percent(found[id_]) < MOST_PERCENT, found[id_]
    assert "invalid [" in found["s2-3"]
    assert "mss=8960 bytes was requested" in table.stdout
    assert "not measured" in found["s3-asus-jumbo"]
    assert "emulated" in (project.path / "page.md").read_text()
