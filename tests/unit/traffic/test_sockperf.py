"""Reads output of sockperf 3.7, recorded on the loopback device of this machine on 2026-11-30."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.traffic.sockperf import transactions, trips

DATA = Path(__file__).parents[2] / "data" / "sockperf"
UNDER_LOAD = (DATA / "under-load.txt").read_text()


def test_each_round_trip_is_read_from_the_full_log() -> None:
    found = trips(UNDER_LOAD)
    assert (found.seconds, found.sent) == (0.4, 5)
    assert found.rtts == pytest.approx([132.842e-6, 125.631e-6, 165.690e-6, 115.626e-6, 152.821e-6])


def test_a_message_that_the_log_lacks_is_no_error_but_a_log_that_was_cut_off_is() -> None:
    begin, line = (
        UNDER_LOAD.replace("Messages=5;", "Messages=200;").replace("Messages=5\n", "Messages=200\n"),
        "0, 1, 2, 9.5",
    )
    many = begin.replace("0, 2.501260661, 2.501393503, 132.842", "\n".join([line] * 195))
    assert len(trips(many).rtts) == 199
    with pytest.raises(ValueError, match="it has 5 round trips, but 200 messages were received"):
        trips(begin)


def test_transactions_are_the_answers_of_the_time_that_counts() -> None:
    assert transactions((DATA / "ping-pong.txt").read_text()) == pytest.approx(44413 / 0.550)


def test_output_without_an_answer_says_what_sockperf_said() -> None:
    with pytest.raises(ValueError, match="No messages were received from the server"):
        transactions("sockperf: No messages were received from the server. Is the server down?\n")
