"""Compares output of runs with golden files in tests/data/golden/. Values that differ between runs are masked."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "golden"
# If set to ``rewrite``, the tests write the files instead of comparing.
VARIABLE = "PINET_GOLDEN"
HOW_TO_REWRITE = (
    f"{VARIABLE}=rewrite .venv/bin/pytest tests/unit/cli/test_golden_help.py tests/functional/gate/test_golden.py"
)

# Masked keys of results.json, by the word that replaces their values.
MASKED_KEYS = {
    "time": ("started", "finished"),
    "duration": ("started_s", "traffic_seconds", "at_s", "boot_s", "boot_age_s"),
    "id": ("run", "session", "bus_info", "boot", "link_up"),
    # The host's kernel is that of every board in the virtual lab.
    "version": ("pinet", "uname", "driver_version", "version", "build_id"),
    "counter": ("node", "switch"),
    "skew": ("start_skew_s", "start_skew_within_s", "skew_s", "skew_within_s"),
}
# A value "seconds" next to a start time comes from a clock and is masked. All others come from the recording.
BESIDE_A_START = {"started": ("seconds",), "started_s": ("seconds",)}
# Lists reduced to the keys of their first entry, because their length and values are counters.
MASKED_LISTS = ("evidence",)
# Keys that depend on the machine: whether it has control groups with a quota.
OF_THE_MACHINE = {"throttled"}
# Patterns masked in all texts. The paths of a run are masked first; see ``Masks``.
MASKED_TEXTS = (
    (r"\b\d{8}-\d{6}(-\d+)?\b", "<run>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?([+]\d\d:\d\d|Z)?", "<time>"),
    # The estimate of the header comes from the times of earlier runs.
    (r"(?<=; about )\d+ (s|min|h)( \d+ min)?", "<duration>"),
    (r"(?<= UTC, )\d+ (s|min|h)( \d+ (s|min))?", "<duration>"),
    (r"(?<= in )\d+\.\d\ds( \(\d+:\d\d:\d\d\))?", "<duration>"),
    (r'(?<= time=")[\d.]+', "<duration>"),
    (r'(?<= hostname=")[^"]+', "<host>"),
    (r"Python \d[\w.]*, pytest-[\w.]+, pluggy-[\w.]+", "Python <version>, pytest-<version>, pluggy-<version>"),
    (r"(?m)^plugins: .*$", "plugins: <versions>"),
    (r"Linux \d[^;,\"\n]*", "Linux <version>"),
    (r"(?<=pluggy-<version>) -- \S+", ""),
    (r"(?<![\w.])\d{1,3}(\.\d{1,3}){3}(?![\w.])", "<address>"),
    # pytest fills these lines up to the width of the terminal.
    (r"(?m)^([=-])\1+ (.*<.*>.*?) \1+$", r"\1\1\1 \2 \1\1\1"),
)
# Up to this width, a list or mapping without inner mappings is on one line, because there are many samples.
WIDTH = 160
DIGITS = 9


class Masks:
    """The masks of one run. ``paths`` are its folders by their replacement."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        # Longest first, because one folder may be inside another.
        self._paths = sorted(((str(path), f"<{word}>") for word, path in paths.items()), key=lambda p: -len(p[0]))

    def text(self, text: str) -> str:
        """Return the masked text without trailing spaces."""
        for path, word in self._paths:
            text = text.replace(path, word)
        for pattern, word in MASKED_TEXTS:
            text = re.sub(pattern, word, text)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())

    def data(self, value: Any) -> Any:
        """Return the masked content of a JSON file. Key names stay, and None stays None."""
        if isinstance(value, dict):
            clock = {one for key in value for one in BESIDE_A_START.get(key, ())}
            return {key: "<duration>" if key in clock else self._entry(key, one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.data(one) for one in value]
        if isinstance(value, str):
            return self.text(value).removesuffix("\n")
        # Smaller differences from zero are floating-point noise.
        return round(float(f"{value:.{DIGITS}g}"), DIGITS) if isinstance(value, float) else value

    def _entry(self, key: str, value: Any) -> Any:
        if key in MASKED_LISTS and isinstance(value, list):
            return sorted(set(value[0]) - OF_THE_MACHINE) if value else []
        if key == "settings" and isinstance(value, dict):
            # Boards of the virtual lab have the settings of its host.
            return {role: {"end": own["end"]} for role, own in value.items()}
        for word, keys in MASKED_KEYS.items():
            if key in keys and isinstance(value, dict):
                return {name: f"<{word}>" if one is not None else None for name, one in value.items()}
            if key in keys and isinstance(value, str | int | float):
                return f"<{word}>"
        return self.data(value)

    def json(self, value: Any) -> str:
        """Return the text of a golden JSON file."""
        text = "\n".join(_lines(self.data(value), "")) + "\n"
        for pattern, word in MASKED_TEXTS:
            text = re.sub(pattern, word, text)
        return text


def _lines(value: Any, indent: str) -> list[str]:
    """Return lines of JSON with short lists and mappings on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or (
        len(line) <= WIDTH - len(indent) and not any(isinstance(one, dict) for one in value)
    ):
        return [line]
    inner = f"{indent}  "
    if isinstance(value, dict):
        entries = [(f"{json.dumps(key)}: ", one) for key, one in value.items()]
    else:
        entries = [("", one) for one in value]
    found = ["{" if isinstance(value, dict) else "["]
    for number, (key, one) in enumerate(entries):
        first, *rest = _lines(one, inner)
        found += [f"{inner}{key}{first}", *rest]
        found[-1] += "," if number < len(entries) - 1 else ""
    return [*found, indent + ("}" if isinstance(value, dict) else "]")]


def check(name: str, text: str) -> None:
    """Compare with the golden file of this name, or rewrite it if the variable says so."""
    file = FOLDER / name
    if os.environ.get(VARIABLE) == "rewrite":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    golden = file.read_text(encoding="utf-8") if file.exists() else ""
    if text == golden:
        return
    shown = difflib.unified_diff(golden.splitlines(), text.splitlines(), f"golden/{name}", "this run", lineterm="")
    message = "\n".join([f"{name} is not as it was frozen:", *shown, "", f"If that is on purpose: {HOW_TO_REWRITE}"])
    raise AssertionError(message)


def check_all(found: Mapping[str, str]) -> None:
    """Compare several files and report every difference."""
    differences: list[str] = []
    for name, text in found.items():
        try:
            check(name, text)
        except AssertionError as error:
            differences.append(str(error))
    assert not differences, "\n\n".join(differences)


def codes(found: Sequence[tuple[str, int, str]]) -> str:
    """Return the commands with their exit codes and the first line of their error message."""
    return "".join(f"{code:3}  {command}\n" + (f"     {error}\n" if error else "") for command, code, error in found)
