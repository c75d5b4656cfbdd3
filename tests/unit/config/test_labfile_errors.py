"""Every mistake in a lab file gives one sentence with file, line, the bad value and the accepted form."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_pinet.config.labfile import load
from pytest_pinet.config.yaml_lines import parse
from pytest_pinet.errors import ConfigError, sentence
from pytest_pinet.model.lab import Lab

GOOD = """\
targets:
  a: {}
  b: {}
pinet:
  switches:
    sw:
      backend: fixed
      ports: [p1, p2, p3, p4]
  nodes:
    a:
      board: pi4b
      interfaces:
        onboard: {port: sw/p1}
        usb:
          nic: ax88179
          port: sw/p2
    b:
      board: pi3b
      interfaces:
        onboard: {port: sw/p3}
  limits:
    - {min: 90%}
    - board: pi4b
      nic: ax88179
      min: 690 Mbit/s
"""
ORIGIN = "; `pinet init` writes one for your boards, and `pinet demo` needs none"
EXPECTED = "expected a lab file (a labgrid environment with a 'pinet' key)"


MISTAKES = yaml.safe_load(Path(__file__).with_name("labfile_mistakes.yaml").read_text(encoding="utf-8"))


def refused(text: str | bytes, directory: Path) -> str:
    """Return the error message for a lab file of this content, loaded by its relative path."""
    (directory / "lab.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    before = Path.cwd()
    os.chdir(directory)
    try:
        with pytest.raises(ConfigError) as caught:
            load("lab.yaml")
    finally:
        os.chdir(before)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # one sentence, no chain of tracebacks
    return str(caught.value)


def test_the_good_file_is_good(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(GOOD, encoding="utf-8")
    assert list(load(tmp_path / "lab.yaml").nodes) == ["a", "b"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["mistake"])
def test_a_mistake_is_one_sentence(mistake: dict[str, str], tmp_path: Path) -> None:
    old = mistake["old"] or GOOD[GOOD.index("pinet:") :]
    assert GOOD.count(old) == 1
    assert refused(GOOD.replace(old, mistake["new"]), tmp_path) == f"lab.yaml:{mistake['says']}"


def test_the_first_mistake_of_the_file_is_reported(tmp_path: Path) -> None:
    text = GOOD.replace("min: 90%", "min: 90").replace("board: pi3b", "bord: pi3b")
    assert refused(text, tmp_path).startswith("lab.yaml:17: pinet.nodes.b lacks the key 'board'")


def test_no_nodes(tmp_path: Path) -> None:
    start, end = GOOD.index("  nodes:"), GOOD.index("  limits:")
    assert (
        refused(GOOD[:start] + "  nodes: {}\n", tmp_path) == "lab.yaml:9: this lab has no nodes; expected at least one"
    )
    assert refused(GOOD[:start] + GOOD[end:], tmp_path) == "lab.yaml:4: pinet lacks the key 'nodes'"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", f"lab.yaml: the file is empty; {EXPECTED}"),
        ("# nothing yet\n", f"lab.yaml: the file is empty; {EXPECTED}"),
        ("just words\n", f"lab.yaml:1: {EXPECTED}, got 'just words'"),
        ("[1, 2]\n", f"lab.yaml:1: {EXPECTED}, got a list"),
        ("targets: {}\n", f"lab.yaml: the key 'pinet' is missing; {EXPECTED}"),
        (b"targets: {}\n\xff\xfe\n", f"lab.yaml:2: byte 0xff is not UTF-8 text; {EXPECTED}"),
        ("targets: {}\nx: \x00\n", "lab.yaml:2: this is not YAML: control characters are not allowed: \\x00"),
        ("a: [1, 2\n", "lab.yaml:2: this is not YAML: while parsing a flow sequence from line 1 on, did not find"),
        ("x" * 10_000_000, "lab.yaml: 10.0 MB is too large for a lab file (a labgrid environment with a 'pinet' key)"),
        ("x-a: " + "[" * 500_000, "lab.yaml:1: this is nested more than 40 levels deep"),
    ],
    ids=["empty", "comment", "text", "list", "no-pinet", "bytes", "nul", "not-yaml", "10MB", "deep"],
)
def test_other_texts_are_refused_as_lab_file(content: str | bytes, message: str, tmp_path: Path) -> None:
    assert refused(content, tmp_path).startswith(message)


@pytest.mark.parametrize(("character", "shown"), [("\x01", "\\x01"), ("\x7f", "\\x7f"), ("\x9b", "\\x9b")])
def test_a_control_character_has_its_line(character: str, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f'a: "\u00e9"\nb: 2\nc: "{character}"\n', "y.yaml")
    message = str(caught.value)
    assert message.startswith("y.yaml:3: this is not YAML: ")
    assert message.endswith(f": {shown}")


@pytest.mark.parametrize("text", ["0x10", "010", "1_000", "10:20:30:40:50:10", "+5", "0b1"])
def test_a_number_that_is_not_written_as_its_digits_stays_as_it_is(text: str) -> None:
    assert parse(f"a: {text}\n", "y.yaml").data == {"a": text}
    assert parse("a: 10\nb: -5\nc: true\n", "y.yaml").data == {"a": 10, "b": -5, "c": True}


def test_aliases_that_expand_without_end(tmp_path: Path) -> None:
    levels = ["x-0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    levels += [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    message = refused("\n".join(levels) + "\n" + GOOD, tmp_path)
    assert message == "lab.yaml:5: an entry has more than 100000 values after aliases are expanded"


def test_a_missing_file_names_its_nearest_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "virtual.yaml").touch()
    with pytest.raises(ConfigError) as caught:
        load("labs/virtul.yaml")
    assert str(caught.value) == "labs/virtul.yaml: this file does not exist, did you mean 'labs/virtual.yaml'?"
    with pytest.raises(ConfigError) as caught:
        load("labs/other")
    assert str(caught.value) == f"labs/other: this file does not exist; {EXPECTED}{ORIGIN}"
    with pytest.raises(ConfigError) as caught:
        load("lubs/virtual.yaml")
    assert (
        str(caught.value) == f"lubs/virtual.yaml: neither this file nor its directory 'lubs' exists; {EXPECTED}{ORIGIN}"
    )


def test_paths_that_are_not_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for path, message in [
        ("directory", f"directory: this is a directory; {EXPECTED}"),
        ("fifo", f"fifo: this is not a regular file; {EXPECTED}"),
        ("/dev/zero", f"/dev/zero: this is not a regular file; {EXPECTED}"),
        ("a\0b", f"a\\x00b: this cannot be read (not a valid path); {EXPECTED}"),
        ("x" * 5000, sentence(f"{'x' * 5000}: this cannot be read (File name too long); {EXPECTED}")),
    ]:
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert str(caught.value) == message


VIRTUAL = (Path(__file__).parents[3] / "lab" / "virtual.yaml").read_text(encoding="utf-8")
FRAGMENTS = [
    *("{", "}", "[", "]", ":", ": ", "\n", "  ", "- ", "'", '"', "&a ", "*a", "*drivers", "!template ", "!!int ", "? "),
    *("|", ">", "%", "#", "<<: ", "~", "null", ".nan", "-1", "0", "1e400", "9" * 40, "0b_", "yes", "2001-01-01", "@"),
    *("p1-p16", "sw1/p1", "pi4b", "onboard", "rtl8125", "\t", "\x00", "\ufeff", "\u2028", "ü", "---\n", "...\n", "0x"),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return the virtual lab's file after some cuts, copies and insertions."""
    text = VIRTUAL
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5), st.just(text[start:end] * 2)))
        text = text[:start] + piece + text[end:]
    return text


# `make fuzz` has more.
@settings(max_examples=150, deadline=None)
@given(mutated())
@example(VIRTUAL.replace("\n", "\r\n"))
@example("\ufeff" + VIRTUAL)
def test_any_mangled_file_is_a_lab_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "mangled.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcome: Lab | ConfigError
    try:
        outcome = load(path)
    except ConfigError as error:
        outcome = error
    if isinstance(outcome, ConfigError):
        assert outcome.message.isprintable()
    else:
        assert outcome.nodes


def test_a_directory_that_may_not_be_listed_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # Root may list every directory.
    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(ConfigError, match="this file does not exist; expected"):
        load(str(tmp_path / "lab.yaml"))
