"""The acknowledged losses beside the baselines: read with file and line, always written in the same form."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pytest_pinet.config.baselines import Acknowledgement, acknowledged_text, read_acknowledged
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.model.quantities import Bitrate

METRIC = "pi4b:onboard/pair/tcp-P1-tx"
GOOD = """\
acknowledged:
  - id: "pi4b:onboard/pair/tcp-P1-tx"
    owner: Ann Example
    until: 2026-12-31
    link: https://lore.kernel.org/r/20261127
    value: 895.0 Mbit/s
    date: 2026-11-27
"""
ONE = Acknowledgement(
    METRIC,
    "Ann Example",
    date(2026, 12, 31),
    "https://lore.kernel.org/r/20261127",
    Bitrate.mbps(895),
    date(2026, 11, 27),
    Where("acknowledged.yaml", 2),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("acknowledged.yaml")


def test_an_entry_is_read_with_its_place(file: Path) -> None:
    file.write_text(GOOD)
    (found,) = read_acknowledged(file).values()
    assert found == ONE
    assert str(found.where) == "acknowledged.yaml:2"


def test_without_the_file_no_loss_is_acknowledged(file: Path) -> None:
    assert read_acknowledged(file) == {}


def test_what_is_written_is_read_again(file: Path) -> None:
    text = acknowledged_text([ONE])
    file.write_text(text)
    assert read_acknowledged(file) == {METRIC: ONE}
    assert acknowledged_text(read_acknowledged(file).values()) == text
    assert text.startswith("# Losses that are known: ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("owner: Ann Example", "onwer: Ann", "2: acknowledged[0] lacks the key 'owner'; did you mean 'onwer'?"),
        (
            "2026-12-31",
            "soon",
            "4: acknowledged[0].until: expected a date such as '2026-11-21', got 'soon'",
        ),
        (
            "2026-12-31",
            "2026-11-26",
            "4: until 2026-11-26 lies before the acknowledgement of 2026-11-27; expected a later day",
        ),
        (
            "https://lore.kernel.org/r/20261127",
            "our tracker",
            "5: acknowledged[0].link: expected a URL such as 'https://lore.kernel.org/r/MESSAGE-ID', got 'our tracker'",
        ),
        (
            "895.0 Mbit/s",
            "0 Mbit/s",
            "6: acknowledged[0].value: a value cannot be compared with a baseline of 0 bit/s; expected more than 0",
        ),
        ("acknowledged:", "baselines:", " this file lacks the key 'acknowledged'"),
        (
            GOOD,
            GOOD + GOOD.partition("\n")[2],
            f"8: '{METRIC}' is a duplicate; the first one is in acknowledged.yaml:2",
        ),
    ],
)
def test_a_mistake_is_one_sentence(file: Path, old: str, new: str, message: str) -> None:
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read_acknowledged(file)
    assert str(caught.value) == f"acknowledged.yaml:{message}"
