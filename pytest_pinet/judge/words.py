"""The words of a judgement. A value that is better low has words of its own, and the judges get its inverse."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.judge.statistics import percent
from pytest_pinet.model.figures import Better, Figure


@dataclass(frozen=True)
class Words:
    """What sentences say of a value that is ``worse`` or ``better`` than another one, and ``less`` or ``more``.

    ``difference`` has the size of the difference between the builds (percent), its side, and its interval (percent).
    ``inverse``: the value is better low, and the judges get its inverse.
    """

    worse: str = "slower"
    better: str = "faster"
    less: str = "below"
    more: str = "above"
    difference: str = "B is {:.2f} % {} A ({:+.2f} to {:+.2f} %)"
    inverse: bool = False

    def change(self, of_level: float) -> float:
        """Return the relative change of the value for that of its level."""
        return 1 / (1 + of_level) - 1 if self.inverse else of_level

    def place(self, ratio: float) -> str:
        """Return where the value with this level over that of its limit is: ``3.1 % above the limit``."""
        change = self.change(ratio - 1)
        return f"{percent(change)} {'above' if change >= 0 else 'below'} the limit"

    @property
    def missed(self) -> str:
        """The side of a limit on which it is missed."""
        return self.more if self.inverse else self.less

    @property
    def ends(self) -> tuple[str, str]:
        """The words for the worse and the better of two levels."""
        return ("higher", "lower") if self.inverse else ("lower", "higher")


GOODPUT = Words()
_BETTER_LOW = Words("worse", "better", inverse=True)


def words_of(figure: Figure) -> Words:
    """Return the words for this kind of value."""
    return GOODPUT if figure.better is Better.UP else _BETTER_LOW
