"""A table of two sides in columns: a label, figures and a last word, as wide as what stands in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.report.fit import plain, rate, shorten

_GAP = "  "
_LABEL_MIN = 12


class Columns:
    """Lines of at most ``width`` columns: labels are shortened, and told apart all the same."""

    def __init__(self, header: Sequence[str], names: Iterable[str], cells: Sequence[Sequence[str]], width: int) -> None:
        self._header = header
        self._widths = [max(map(len, column)) for column in zip(header[1:], *cells, strict=True)]
        room = max(width - sum(self._widths) - len(_GAP) * len(self._widths), _LABEL_MIN)
        self._labels = shorten(map(plain, names), room)
        self._widest = max(len(label) for label in (header[0], *self._labels.values()))

    def head(self) -> str:
        """The names of the columns."""
        return self._line(self._header[0], self._header[1:], None)

    def line(self, name: str, cells: Sequence[str], color: str | None = None) -> str:
        """One row; ``color`` is that of its last word (ECMA-48, such as "1;31")."""
        return self._line(self._labels[plain(name)], cells, color)

    def _line(self, label: str, cells: Sequence[str], color: str | None) -> str:
        *figures, word = cells
        parts = [figure.rjust(width) for figure, width in zip(figures, self._widths[:-1], strict=True)]
        parts.append(word if color is None else f"\x1b[{color}m{word}\x1b[0m")
        return _GAP.join([f"{label:{self._widest}}", *parts])


def side_cells(a_bps: float | None, b_bps: float | None, change: float | None) -> tuple[str, str, str]:
    """A, B, and B over A minus one; None is what is not known."""
    a, b = ("-" if bps is None else rate(bps) for bps in (a_bps, b_bps))
    return a, b, "-" if change is None else f"{change * 100:+.1f}%"
