"""The common part of settings whose knobs are files in /proc and /sys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.tuning.files import read_files, write_files
from pytest_pinet.tuning.setting import DeviceSetting, SettingPlace, SettingReading
from pytest_pinet.tuning.values import text

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
