"""Formats results as flat properties of a test for JUnit XML (``item.user_properties``).

Does not use ``record_property``, which warns under the default ``xunit2``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import worst
from pytest_pinet.report.exact_text import MOST_FUNCTIONS, function_rows

Property = tuple[str, object]


def junit_properties(results: Sequence[ResultRecord]) -> list[Property]:
    """Return the properties of one test from all its results. What was not measured has no property.

    ``pinet.verdict`` is the worst verdict. The properties of a direction are named ``pinet.tx.goodput_bps`` and so on,
    or ``pinet.tcp-P10.tx.goodput_bps`` if the test has several kinds of traffic. A repeated direction is
    numbered, as in ``pinet.tx#2.goodput_bps``; pings, flows and ladders are not, so their names may occur twice.
    Values beside goodput have ``pinet.p90.value``, ``.unit`` and so on.

    Several flows at once have ``pinet.flow.NAME.goodput_bps``, ``pinet.least_share`` and ``pinet.fairness`` (Jain's
    index). ``pinet.tuning`` is the requested tuning. A setting without effect has its outcome, as in
    ``pinet.tuning.xps``. ``pinet.scale`` exists if links ran below their rate. In an A/B comparison each direction has
    ``a_bps``, ``b_bps`` and ``change``. Instead of rates, an exact gate has ``instructions_a``, ``instructions_b`` (for
    each packet), ``packets_per_second_a`` and ``_b`` in virtual time, and ``functions`` that changed most.
    ``pinet.finding`` is the failure of a build that could not be measured.

    Rates are whole bit/s. ``cpu_percent_dut`` and ``cpu_percent_peer`` are relative to one core.
    """
    if not results:
        return []
    first = results[0]
    several = len({result.combination.traffic for result in results} - {""}) > 1
    properties: list[Property] = [
        ("pinet.verdict", worst([result.verdict for result in results]).value),
        ("pinet.combination", first.combination.id),
        ("pinet.dut", first.combination.dut),
        ("pinet.peer", first.combination.peer),
    ]
    if tuning := first.combination.tuning:
        properties.append(("pinet.tuning", tuning))
    outcomes = {one.name: one.outcome for result in results for one in (result.tunings or ())}
    properties += [(f"pinet.tuning.{name}", o) for name, o in outcomes.items() if not o.holds]
    properties += [(f"pinet.build.{key}", value) for key, value in first.build.items() if value is not None]
    if first.link is not None:
        properties.append(("pinet.link", first.link))
    if first.change is not None:
        properties += [("pinet.build_a", first.change.a), ("pinet.build_b", first.change.b)]
    properties += [("pinet.finding", result.finding) for result in results if result.finding is not None]
    if first.scale is not None:
        properties.append(("pinet.scale", first.scale))
    seen: dict[str, int] = {}
    for result in results:
        cpu = [(f"cpu_percent_{end}", round(percent, 1)) for end, percent in result.cpu_percent.items()]
        for name, direction in result.directions.items():
            prefix = f"pinet.{result.combination.traffic}.{name}" if several else f"pinet.{name}"
            seen[prefix] = seen.get(prefix, 0) + 1
            figures = [*_figures(direction), *_changed(result, name), *cpu]
            if result.exact is not None:
                rates = ("a_bps", "b_bps")
                changed = [one for one in _changed(result, name) if one[0] not in rates]
                figures = [("verdict", direction.verdict.value), *changed, *_exact(result)]
            numbered = prefix if seen[prefix] == 1 else f"{prefix}#{seen[prefix]}"
            properties += [(f"{numbered}.{key}", value) for key, value in figures if value is not None]
        prefix = f"pinet.{result.combination.traffic}" if several else "pinet"
        if result.http is not None:
            properties.append((f"{prefix}.requests_per_s", round(result.http.requests_per_s, 1)))
        if result.ladder is not None and result.ladder.knee_bps is not None:
            properties.append((f"{prefix}.knee_bps", round(result.ladder.knee_bps)))
        for name, one in (result.figures or {}).items():
            if one.value is not None:
                limit = None if one.limit is None else one.limit.number
                own = (("value", one.value), ("unit", one.unit), ("limit", limit), ("verdict", one.verdict.value))
                properties += [(f"{prefix}.{name}.{key}", value) for key, value in own if value is not None]
        if result.evenness is not None:
            properties += [(f"{prefix}.flow.{f.name}.goodput_bps", round(f.goodput_bps)) for f in result.flows]
            properties.append((f"{prefix}.least_share", round(result.evenness.least_share, 4)))
            properties.append((f"{prefix}.fairness", round(result.evenness.jain, 4)))
    return properties


def _changed(result: ResultRecord, way: str) -> list[Property]:
    """Return the values of an A/B comparison. ``change`` is B over A minus one."""
    if result.change is None:
        return []
    one = result.change.directions[way]
    change = None if one.change is None else round(one.change, 5)
    return [("a_bps", round(one.a_bps)), ("b_bps", round(one.b_bps)), ("change", change)]


def _exact(result: ResultRecord) -> list[Property]:
    """Return packets per second and instructions of an exact gate, and the functions that changed."""
    exact = result.exact
    if exact is None:
        return []
    rows = function_rows([result])[:MOST_FUNCTIONS]
    texts = [f"{row.record.function} {row.record.a:.2f} -> {row.record.b:.2f}" for row in rows]
    sides = (("a", exact.a), ("b", exact.b))
    return [
        *((f"packets_per_second_{side}", round(one.packets_per_second, 2)) for side, one in sides),
        *((f"instructions_{side}", one.instructions and round(one.instructions, 2)) for side, one in sides),
        ("functions", "; ".join(texts) or None),
    ]


def _figures(direction: DirectionRecord) -> list[Property]:
    limit = direction.limit_bps
    return [
        ("verdict", direction.verdict.value),
        ("goodput_bps", round(direction.goodput_bps)),
        ("limit_bps", None if limit is None else round(limit)),
        ("rule", direction.limit_text),
        # An exact board has no physical limit.
        ("oracle_bps", round(direction.oracle_bps) or None),
        ("attempts", len(direction.connections)),
        ("state", direction.state or None),
        ("retransmits", direction.retransmits),
        ("lost_packets", direction.lost_packets),
        ("packets", direction.packets),
        ("jitter_ms", direction.jitter_ms),
    ]
