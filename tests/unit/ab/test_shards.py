"""Each shard of a gate takes its share of the error rate."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_pinet.ab.build_run import AlternatingMeasuring


def test_values_of_all_shards_count() -> None:
    plain = SimpleNamespace(shards=4, is_measuring=None)
    measuring = AlternatingMeasuring(SimpleNamespace(), plain)  # type: ignore[arg-type]
    measuring.rounds = SimpleNamespace(values=3)  # type: ignore[assignment]
    assert measuring._values() == 12
