"""Faults of a virtual interface, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Faults:
    """Faults seen from the node (tx: the node sends). Rates are factors of the link model, losses are probabilities."""

    tx_rate: float = 1.0
    rx_rate: float = 1.0
    tx_loss: float = 0.0
    rx_loss: float = 0.0
    down: bool = False

    def degraded(self, rate: float | None, loss: float | None, down: bool, direction: str | None) -> Faults:
        """Return the faults with more faults added. ``direction`` is ``tx``, ``rx`` or None for both."""
        changes: dict[str, float] = {}
        for way in ("tx", "rx") if direction is None else (direction,):
            if rate is not None:
                changes[f"{way}_rate"] = rate
            if loss is not None:
                changes[f"{way}_loss"] = loss
        return replace(self, down=self.down or down, **changes)

    def words(self) -> list[str]:
        """Describe each fault in a few words. Empty if there is none."""
        found = []
        for what, tx, rx, good in (("rate", self.tx_rate, self.rx_rate, 1.0), ("loss", self.tx_loss, self.rx_loss, 0)):
            if tx == rx and tx != good:
                found.append(f"{what} {tx * 100:g}%")
            else:
                found += [f"{way} {what} {v * 100:g}%" for way, v in (("tx", tx), ("rx", rx)) if v != good]
        if self.down:
            found.append("cable pulled")
        return found
