import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_pinet.history.text import ASCII_HEIGHTS, BLOCK_HEIGHTS, heights_for
from pytest_pinet.report.progress import Progress

pytest_plugins = ["pytester"]


class Screen:
    """Replaces pytest's terminal reporter, whose own capture would hide the output."""

    def __init__(self, tty: bool | None = True) -> None:
        self.tty = tty
        self.log: list[str] = []
        self.captured = False
        self.broken: Exception | None = None

    @property
    def isatty(self) -> object:
        return (lambda: self.tty and not self.captured) if self.tty is not None else False

    def rewrite(self, line: str, **markup: bool) -> None:
        self._write(f"rewrite{' erase' if markup.get('erase') else ''}|{line}")

    def write_line(self, line: str, **markup: bool) -> None:
        self._write(f"line|{line}")

    def ensure_newline(self) -> None:
        self._write("newline|")

    def flush(self) -> None:
        self._write("flush|")

    def _write(self, entry: str) -> None:
        if self.broken is not None:
            raise self.broken
        assert not self.captured, "written while pytest captures: the user does not see it"
        self.log.append(entry)

    @property
    def lines(self) -> list[str]:
        return [entry for entry in self.log if not entry.startswith(("newline", "flush"))]


class Capturing:
    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        screen.captured = True

    @contextmanager
    def global_and_fixture_disabled(self) -> Iterator[None]:
        self.screen.captured = False
        try:
            yield
        finally:
            self.screen.captured = True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_on_a_terminal_one_line_is_rewritten_and_at_last_erased() -> None:
    screen = Screen()

    with Progress(screen, Capturing(screen)) as progress:
        progress.update("pi4b:ax88179/pair", 0.2, 5, {"tx": None})
        progress.update("pi4b:ax88179/pair", 3, 5, {"tx": 734e6})

    assert screen.log == [
        "newline|",
        "rewrite erase|  pi4b:ax88179/pair  0/5 s  tx            -",
        "flush|",
        "rewrite erase|  pi4b:ax88179/pair  3/5 s  tx 734.0 Mbit/s  [=]",
        "flush|",
        "rewrite erase|",
        "rewrite|",
        "flush|",
    ]


def test_both_directions_are_shown() -> None:
    screen = Screen()

    Progress(screen).update("pi5:onboard/pair", 12, 60, {"tx": 538e6, "rx": 1.2e9})

    assert screen.lines == ["rewrite erase|  pi5:onboard/pair  12/60 s  tx 538.0 Mbit/s  rx  1.20 Gbit/s  [=]"]


def test_retransmits_and_the_course_of_the_latest_rates_are_shown() -> None:
    screen = Screen()
    progress = Progress(screen, heights=BLOCK_HEIGHTS)

    for half, mbps in enumerate((100, 200, 900, 940, 941, 940, 500, 940, 941, 940)):
        progress.update("pi5:onboard/pair", half / 2, 60, {"tx": mbps * 1e6}, half)
    begin, course = screen.lines[-1].split("[")
    assert begin == "rewrite erase|  pi5:onboard/pair   4/60 s  tx 940.0 Mbit/s  retr 9  "
    assert course == f"{BLOCK_HEIGHTS[-1] * 4}{BLOCK_HEIGHTS[0]}{BLOCK_HEIGHTS[-1] * 3}]"

    # The next connection begins without a course. Its rates and retransmits are not known yet.
    progress.update("pi5:onboard/pair #2", 0.5, 60, {"tx": None}, None)
    assert screen.lines[-1] == "rewrite erase|  pi5:onboard/pair #2   0/60 s  tx            -"


def test_the_course_shows_moments_and_the_rate_is_that_of_the_whole_connection() -> None:
    screen = Screen()
    progress = Progress(screen, heights=BLOCK_HEIGHTS)
    for second, now in enumerate((100e6, 50e6)):
        progress.update("pi5:onboard/pair", second, 60, {"tx": 94e6}, 0, now)
    assert screen.lines[-1].endswith(f"tx  94.0 Mbit/s  retr 0  [{BLOCK_HEIGHTS[-1]}{BLOCK_HEIGHTS[0]}]")


@pytest.mark.parametrize(
    ("encoding", "term", "heights"),
    [
        ("utf-8", "xterm", BLOCK_HEIGHTS),
        ("cp437", "xterm", ASCII_HEIGHTS),
        ("ascii", "xterm", ASCII_HEIGHTS),
        ("ISO-8859-15", "xterm", ASCII_HEIGHTS),
        (None, "xterm", ASCII_HEIGHTS),
        ("utf-8", "dumb", ASCII_HEIGHTS),
        ("utf-8", "linux", ASCII_HEIGHTS),
        ("no-such-encoding", "xterm", ASCII_HEIGHTS),
    ],
)
def test_block_characters_only_where_the_terminal_can(
    encoding: str | None, term: str, heights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    assert heights_for(encoding) == heights


def test_a_long_label_is_shortened_so_that_the_values_fit() -> None:
    screen = Screen()

    progress = Progress(screen)
    for second in range(4, 13):
        progress.update("cm4:rtl8125b-on-riser/direct-crossover", second, 120, {"tx": 538e6, "rx": 1.2e9}, 18)

    line = screen.lines[-1]
    assert line == "rewrite erase|  cm4:r..over   12/120 s  tx 538.0 Mbit/s  rx  1.20 Gbit/s  retr 18  [========]"
    assert len(line.removeprefix("rewrite erase|")) <= 79


def test_seconds_are_counted_when_they_are_over() -> None:
    screen = Screen()
    progress = Progress(screen)

    for half in range(1, 8):
        progress.update("a", half / 2, 3.5, {"tx": 9e8})

    assert [line.split()[-6] for line in screen.lines] == ["0/4", "1/4", "1/4", "2/4", "2/4", "3/4", "3/4"]


def test_without_a_terminal_a_line_comes_every_ten_seconds() -> None:
    screen, clock = Screen(tty=False), Clock()
    progress = Progress(screen, Capturing(screen), clock=clock)

    for second in range(1, 26):
        clock.now = 100.0 + second
        progress.update("pi5:onboard/pair", second, 60, {"tx": 9e8})
    progress.close()

    assert screen.lines == [
        "line|  pi5:onboard/pair  10/60 s  tx 900.0 Mbit/s  [========]",
        "line|  pi5:onboard/pair  20/60 s  tx 900.0 Mbit/s  [========]",
    ]


def test_short_measurements_in_a_row_show_life_all_the_same() -> None:
    screen, clock = Screen(tty=False), Clock()
    progress = Progress(screen, clock=clock)

    for combination in range(3):
        for second in range(1, 6):
            clock.now += 1
            progress.update(f"c{combination}", second, 5, {"tx": 9e8})
        progress.close()

    assert screen.lines == ["line|  c1  5/5 s  tx 900.0 Mbit/s  [=====]"]


def test_isatty_may_be_a_plain_bool_as_in_pytest_8() -> None:
    screen = Screen(tty=None)

    Progress(screen).show("waiting")

    assert screen.log == ["flush|"]


def test_waiting_is_shown_too() -> None:
    screen = Screen()

    Progress(screen).show("waiting for place pi5-a: held by ci@runner3\x1b[2J")

    assert screen.lines == [r"rewrite erase|  waiting for place pi5-a: held by ci@runner3\x1b[2J"]


def test_quiet_means_nothing() -> None:
    screen = Screen()

    with Progress(screen, verbosity=-1) as progress:
        progress.update("a", 1, 5, {"tx": 9e8})

    assert screen.log == []


def test_no_terminal_reporter_means_nothing() -> None:
    with Progress(None) as progress:
        progress.update("a", 1, 5, {"tx": 9e8})


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_a_closed_output_never_reaches_the_test(error: Exception) -> None:
    screen = Screen()
    with Progress(screen, Capturing(screen)) as progress:
        progress.show("before")
        screen.broken = error
        progress.show("now")
        screen.broken = None
        progress.show("after")

    assert screen.lines == ["rewrite erase|  before"]
    assert screen.captured


def test_the_percentage_of_pytest_fits_the_line_after_a_progress(pytester: pytest.Pytester) -> None:
    """The progress is drawn by pytest's own reporter. The line of the verdict has 79 columns, as without progress."""
    pytester.makeconftest(
        """
        from pytest_pinet.report.progress import Progress

        def pytest_runtest_call(item):
            reporter = item.config.pluginmanager.get_plugin("terminalreporter")
            reporter.isatty = lambda: True
            with Progress(reporter, item.config.pluginmanager.get_plugin("capturemanager")) as progress:
                progress.update("pi5:onboard/pair", 1.0, 3.0, {"tx": 9.4e8})
        """
    )
    pytester.makepyfile("def test_nothing(): pass")
    output = pytester.runpytest_subprocess("-p", "no:cacheprovider").stdout.str()
    (line,) = (piece for piece in re.split(r"[\r\n]", output) if "[100%]" in piece)
    assert line.startswith(".")
    assert len(line) == 79


def test_an_unused_progress_erases_nothing() -> None:
    screen = Screen()

    Progress(screen).close()

    assert screen.log == []


def test_the_line_never_reaches_the_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    rates = {"tx": 1e300, "rx": 1e300}

    progress = Progress(screen)
    for _ in range(8):
        progress.update("b" * 90, 1e5, 1e5, rates)
    monkeypatch.setenv("COLUMNS", "40")
    progress.update("b" * 90, 1e5, 1e5, rates)

    assert [len(line) - len("rewrite erase|") for line in screen.lines[-2:]] == [79, 39]


def test_the_real_reporter_and_capture_of_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pytest_pinet.report import progress
        progress.QUIET_INTERVAL_S = 0

        def test_it(request):
            plugins = request.config.pluginmanager
            terminal, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
            with progress.Progress(terminal, capture, request.config.get_verbosity()) as live:
                live.update("pi5:onboard/pair", 3, 5, {"tx": 9e8})
                print("swallowed")
        """
    )

    ended = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    assert "  pi5:onboard/pair  3/5 s  tx 900.0 Mbit/s  [=]" in ended.outlines
    ended.stdout.no_fnmatch_line("*swallowed*")
    ended.assert_outcomes(passed=1)
