"""``port:`` values are corrected in place; comments, quotes and all other text stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config import lab_text
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, OutputError
from pytest_pinet.model.lab import PortRef
from tests.support.doctor_lab import LAB_FILE, lab


def test_exactly_these_scalars_change(tmp_path: Path) -> None:
    first, second, third, _ = lab(tmp_path).interfaces()
    swapped = {first: PortRef("s", "p2"), second: PortRef("s", "p9"), third: PortRef("s", "p1")}
    text = lab_text.with_ports(LAB_FILE, "lab.yaml", swapped)
    expected = LAB_FILE.replace("s/p2", "s/p9").replace("{port: s/p1}", "{port: s/p2}").replace("'s/p3'", "'s/p1'")
    assert text == expected


def test_the_file_is_replaced_as_a_whole_and_keeps_its_kind(tmp_path: Path) -> None:
    lab(tmp_path)
    file, link = tmp_path / "lab.yaml", tmp_path / "link.yaml"
    crlf = "\ufeff" + LAB_FILE.replace("\n", "\r\n")
    file.write_bytes(crlf.encode())
    file.chmod(0o640)
    link.symlink_to(file)
    interface = load(link).interfaces()[0]
    lab_text.replace(
        str(link), lab_text.with_ports(lab_text.read(str(link)), str(link), {interface: PortRef("s", "p7")})
    )
    assert file.read_bytes() == crlf.replace("s/p1", "s/p7").encode()
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.yaml", "link.yaml"]


def test_a_lab_file_on_a_full_disk_is_one_sentence() -> None:
    with pytest.raises(OutputError, match=r"^cannot write /dev/full: No space left on device$"):
        lab_text.replace("/dev/full", LAB_FILE)


def test_an_invalid_lab_file_is_not_written(tmp_path: Path) -> None:
    interface = lab(tmp_path).interfaces()[0]
    file = str(tmp_path / "lab.yaml")
    text = lab_text.with_ports(LAB_FILE, file, {interface: PortRef("s", "p2")})
    with pytest.raises(ConfigError, match=r"file not changed, these ports are wrong: .*both cabled to port s/p2"):
        lab_text.replace(file, text)
    assert Path(file).read_text() == LAB_FILE
    assert [path.name for path in tmp_path.iterdir()] == ["lab.yaml"]


def test_a_port_that_aliases_share_is_left_to_a_person(tmp_path: Path) -> None:
    text = LAB_FILE.replace("s/p1}", "&port s/p1}").replace("# The lab of the doctor's tests.", "")
    text += "x-more: [*port]\n"
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    interface = load(file).interfaces()[0]
    with pytest.raises(ConfigError, match=r"lab.yaml:9: the port of one:onboard comes from an anchor"):
        lab_text.with_ports(text, str(file), {interface: PortRef("s", "p2")})


def test_a_port_whose_name_needs_quotes_gets_them(tmp_path: Path) -> None:
    interface = lab(tmp_path).interfaces()[0]
    text = lab_text.with_ports(LAB_FILE, "lab.yaml", {interface: PortRef("s", "Port: 1, left's")})
    assert "{port: 's/Port: 1, left''s'}" in text
