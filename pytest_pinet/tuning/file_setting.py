"""What settings share whose knobs are files in /proc and /sys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pytest_pinet.tuning.files import read_files, write_files
from pytest_pinet.tuning.setting import Place, Reading, Where

ONLINE = "/sys/devices/system/cpu/online"


class FileSetting(ABC):
    """A setting that writes one file or several; ``read`` keeps the content of each by its path."""

    name: str
    form: str
    where: Where
    disruptive = False

    @abstractmethod
    def parse(self, value: object) -> str: ...

    @abstractmethod
    def patterns(self, place: Place) -> Sequence[str]:
        """The files, with wildcards."""

    @abstractmethod
    def wanted(self, asked: str, now: Reading) -> Mapping[str, str]:
        """What each file must hold; a Reading of now tells which there are."""

    def same(self, wanted: str, found: str) -> bool:
        """Whether a content is what was written."""
        return wanted == found

    def read(self, place: Place, asked: str) -> Reading:
        found = read_files(place, self.patterns(place))
        return Reading(found, ", ".join(dict.fromkeys(found.values())))

    def change(self, place: Place, asked: str, before: Reading) -> str:
        # Files that hold it already are left alone, so that the undo has no more to do than must be.
        wanted = self.wanted(asked, before)
        return write_files({p: v for p, v in wanted.items() if not self.same(v, before.values[p])})

    def restore(self, place: Place, before: Reading, after: Reading | None) -> str:
        return write_files(
            {p: v for p, v in before.values.items() if after is None or not self.same(v, after.values.get(p, ""))}
        )

    def holds(self, asked: str, now: Reading) -> bool:
        return all(self.same(v, now.values[p]) for p, v in self.wanted(asked, now).items())

    def effect(self, place: Place, asked: str) -> str:
        return ""
