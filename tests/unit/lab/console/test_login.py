"""Telling the output of a booting board from answers to our own newlines."""

from __future__ import annotations

from pytest_pinet.lab.console.drivers import EchoedAnswers


def test_a_prompt_that_we_do_not_know_is_no_sign_of_a_boot() -> None:
    answers, output = EchoedAnswers(), b""
    for _ in range(5):
        answers.expect()
        before, output = output, output + b"\r\npi@pi1:~ $ "
        assert answers.explain(output, before)


def test_the_echo_of_a_newline_is_no_sign_of_a_boot() -> None:
    answers = EchoedAnswers()
    assert answers.explain(b"\r\n\r\n", b"\r\n")


def test_lines_of_a_boot_are_no_answers() -> None:
    answers = EchoedAnswers()
    # The first line after a newline may be an answer.
    answers.expect()
    assert answers.explain(b"[ OK ] one\r\n", b"")
    answers.expect()
    assert not answers.explain(b"[ OK ] one\r\n[ OK ] two\r\n", b"[ OK ] one\r\n")
    # Without a newline of ours, no output is an answer.
    assert not EchoedAnswers().explain(b"[ OK ] one\r\n", b"")
