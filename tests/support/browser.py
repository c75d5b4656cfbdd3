"""Headless Chromium without a network. Tests can see requests that would leave the machine."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_CHROMIUM, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
_READY_S = 120.0


class Browser:
    """A browser with one page."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def open(self, path: Path, anchor: str = "", query: str = "") -> None:
        """Open a file. ``query`` is what a search page searches for."""
        self._driver.get(f"file://{path.absolute()}{f'?q={query}' if query else ''}{f'#{anchor}' if anchor else ''}")

    @property
    def text(self) -> str:
        text: str = self._driver.find_element("tag name", "body").text
        return text

    def await_text(self, what: str) -> None:
        """Wait for a text. Allure draws its pages after they are loaded."""
        self.until(lambda: what in self.text, what)

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + _READY_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"after {_READY_S:g} s there is no {what!r} in: {self.text[:3000]}\nconsole: {self.complaints()}"
                )
            time.sleep(0.1)

    def click(self, text: str) -> None:
        """Click the first element with this text."""
        found: list[Any] = []

        def there() -> bool:
            found[:] = self._driver.find_elements(
                "xpath", f"//*[contains(text(), {json.dumps(text, ensure_ascii=False)})]"
            )
            return bool(found)

        self.until(there, text)
        found[0].click()

    def run(self, script: str) -> Any:
        return self._driver.execute_script(script)

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self._driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": key})

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page in pixels. A narrow page is that of a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def colours(self, dark: bool) -> None:
        """Set the colours that the user prefers, and no motion."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, path: Path, selector: str = "") -> None:
        """Store a picture of the window, or of one element."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if selector:
            self._driver.find_element("css selector", selector).screenshot(str(path))
        else:
            self._driver.save_screenshot(str(path))

    def left_the_machine(self) -> list[str]:
        """Return the addresses of all requests so far, except for the file itself and data within it."""
        messages = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        assert asked, "the log of requests is empty"
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self._driver.get_log("browser") if entry["level"] == "SEVERE"]

    @property
    def overflows(self) -> bool:
        """Return whether the page is wider than the window."""
        return bool(self.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@contextmanager
def browser(width: int = 1600, height: int = 1000, dark: bool = False) -> Iterator[Browser]:
    """Open a browser. Skip the test without Chromium and its driver (Debian: chromium chromium-driver) or selenium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if _CHROMIUM is None or _DRIVER is None:
        pytest.skip("no chromium with chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = _CHROMIUM
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size=1600,{height}",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    from selenium.webdriver.chrome.service import Service

    driver = webdriver.Chrome(options=options, service=Service(_DRIVER))
    try:
        page = Browser(driver)
        page.resize(width, height)
        page.colours(dark)
        yield page
    finally:
        driver.quit()
