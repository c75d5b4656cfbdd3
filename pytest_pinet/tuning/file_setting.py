"""Settings whose knobs are files of one line in /proc and /sys: read, written, and their common class."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pytest_pinet.execution.shell import reason
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import text

_MARKS = {"=": True, "!": False}


def read_files(place: SettingPlace, patterns: Sequence[str]) -> dict[str, str]:
    """Return the content of every matching file, by path. Raises NoKnob if none matches or one cannot be read.

    A file that exists can be unreadable, such as the XPS mask of a NIC with one queue.
    """
    found, refused = look_into(place, patterns)
    if refused:
        path, why = next(iter(refused.items()))
        raise NoKnob(f"{path.removeprefix(place.root)} cannot be read: {why}")
    if not found:
        raise NoKnob(f"there is no {patterns[0].removeprefix(place.root)}")
    return found


def look_into(place: SettingPlace, patterns: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the contents of the readable files, and the errors of the other files, both by path."""
    files = " ".join(patterns)
    done = place.ask(
        f'for f in {files}; do [ -e "$f" ] || continue;'
        ' if v=$(cat "$f" 2>/dev/null); then echo "= $f $(echo $v)";'
        ' else echo "! $f $(cat "$f" 2>&1 >/dev/null | tail -n 1)"; fi; done'
    )
    readable: dict[str, str] = {}
    refused: dict[str, str] = {}
    for line in done.stdout.splitlines():
        mark, _, rest = line.partition(" ")
        path, _, content = rest.partition(" ")
        if mark in _MARKS:
            (readable if _MARKS[mark] else refused)[path] = content if _MARKS[mark] else reason(content)
    return readable, refused


def write_files(contents: Mapping[str, str]) -> str:
    """Return the command that writes these files. It uses ``tee``: a shell's echo reports any error as "I/O error"."""
    return " && ".join(
        f"printf %s {shlex.quote(content)} | tee {shlex.quote(path)} >/dev/null" for path, content in contents.items()
    )


ONLINE = "/sys/devices/system/cpu/online"


class FileSetting(DeviceSetting):
    """A setting that writes one or more files. ``read`` returns the content of each file by its path.

    ``files`` are the paths, with wildcards. A path without a slash at its begin is in the device's folder of sysfs. The
    value is a word, unless ``parse`` accepts others.
    """

    name: str
    form: str
    files: Sequence[str] = ()

    def parse(self, value: object) -> str:
        return text(value, self.form)

    def patterns(self, place: SettingPlace) -> Sequence[str]:
        """Return the full paths of the files, with wildcards."""
        return [f"{place.root}{file}" if file.startswith("/") else f"{place.sysfs}/{file}" for file in self.files]

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        """Return the content that each file must have: by default ``requested``. ``now`` names the files that exist."""
        return dict.fromkeys(now.values, requested)

    def same(self, wanted: str, found: str) -> bool:
        """Return whether the content ``found`` means the same as ``wanted``."""
        return wanted == found

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = read_files(place, self.patterns(place))
        return SettingReading(found, ", ".join(dict.fromkeys(found.values())))

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        # Files with the right content are not written, so that the undo stays as small as possible.
        wanted = self.wanted(requested, before)
        return write_files({p: v for p, v in wanted.items() if not self.same(v, before.values[p])})

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        return write_files(
            {p: v for p, v in before.values.items() if after is None or not self.same(v, after.values.get(p, ""))}
        )

    def holds(self, requested: str, now: SettingReading) -> bool:
        return all(self.same(v, now.values[p]) for p, v in self.wanted(requested, now).items())
