"""The turns of one amount of traffic become one window."""

from pytest_pinet.exact.traffic import joined_turns
from pytest_pinet.model.exact import ExactWindow, Function
from pytest_pinet.model.traffic import Direction

SEND = Function("", "tcp_sendmsg")


def window(traffic: str, octets: int, ns: int, count: int | None = None) -> ExactWindow:
    functions = {} if count is None else {SEND: count}
    return ExactWindow(traffic, Direction.TX, octets, 100, ns, count, functions, count)


def test_of_frames_the_turn_with_the_middle_time_counts() -> None:
    turns = [window("pktgen", 60, ns, count) for ns, count in ((700, 7), (300, 3), (600, 6))]
    other = window("pktgen", 1514, 100, 1)
    assert joined_turns([*turns, other]) == (turns[2], other)


def test_connections_are_added_up() -> None:
    first, second = window("tcp", 1000, 600, 60), window("tcp", 1000, 500, 50)
    (found,) = joined_turns([first, second])
    assert (found.octets, found.packets, found.virtual_ns) == (2000, 200, 1100)
    assert (found.instructions, found.pmu_instructions, dict(found.functions)) == (110, 110, {SEND: 110})
    assert found.goodput_bps == 2000 * 8e9 / 1100


def test_a_request_keeps_its_size() -> None:
    (found,) = joined_turns([window("request", 128, 600), window("request", 128, 400)])
    assert (found.octets, found.packets, found.virtual_ns, found.instructions) == (128, 200, 1000, None)
