"""A headless Chromium that tests drive by its own DevTools protocol, over two pipes: no driver, no package, no port."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-extensions", "--disable-background-networking", "--disable-sync", "--remote-debugging-pipe"),
    *("--force-color-profile=srgb", "--disable-component-update", "--disable-background-timer-throttling"),
)
PATIENCE_S = 20.0
_NAVIGATED = re.compile("navigated or closed|context was destroyed|Cannot find (default execution )?context")


class Navigated(RuntimeError):
    """The page that was asked has made way for another one, or for itself once more."""


class Chromium:
    """The browser's process; requests go one after the other."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, of: int) -> None:
        self._process = process
        self._to, self._of = to, os.fdopen(of, "rb", buffering=0)
        self._read = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Return what one method answers; what else comes meanwhile is kept in `events`."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._next()
            if answer.get("id") != self._last:
                self.events.append(answer)
            elif "error" in answer:
                problem = f"{method}: {answer['error']}"
                raise Navigated(problem) if _NAVIGATED.search(problem) else RuntimeError(problem)
            else:
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            data = self._of.read(1 << 20)
            if not data:
                raise ConnectionError(f"chromium has ended with {self._process.wait()}")
            self._read += data
        message, _, self._read = self._read.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def page(self, url: str, *, width: int = 1360, height: int = 900, is_dark: bool = False) -> Page:
        """Open a page in a tab of its own, with a storage of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, context)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        page.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        page.set_dark(is_dark)
        page.call("Page.navigate", url=url)
        return page


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, session: str, context: str) -> None:
        self._browser, self._session, self._context = browser, session, context

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the tab."""
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def set_dark(self, is_dark: bool) -> None:
        """Say what the system's colours are."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def run(self, script: str) -> Any:
        """Return the value of an expression, of a promise what it gives."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait_for(self, script: str, patience_s: float = PATIENCE_S) -> Any:
        """Return the value of an expression as soon as that is true."""
        deadline = time.monotonic() + patience_s
        while True:
            with suppress(Navigated):  # it is asked again in the next page
                if value := self.run(script):
                    return value
                self.run("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 20)))")
            if time.monotonic() > deadline:
                shown = self.run("document.body ? document.body.innerText.slice(0, 3000) : ''")
                raise AssertionError(
                    f"not true after {patience_s} s: {script}\nthe page shows:\n{shown}\n{self.errors()}"
                )

    def text(self, selector: str) -> str:
        """Return the text of an element as one sees it."""
        found = self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")
        assert found is not None, f"no {selector} on the page"
        return str(found)

    def click(self, selector: str) -> None:
        """Click an element."""
        assert self.run(f"(document.querySelector({json.dumps(selector)})?.click(), !!document.querySelector('body'))")

    def press(self, key: str, code: int = 0) -> None:
        """Press a key, such as ``"Tab"`` (9) or ``"Enter"`` (13)."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def errors(self) -> list[str]:
        """Return what the browser complained about: exceptions, missing files, violated policies."""
        self.run("0")
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                entry = event["params"]["entry"]
                found.append(f"{entry['text']} {entry.get('url', '')}")
        return found

    def accessible(self) -> list[tuple[str, str]]:
        """Return (role, name) of all that a screen reader is told."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
        ]

    def screenshot(self, path: Path, *, is_whole: bool = True, scale: float = 1.0, height: int | None = None) -> Path:
        """Write a picture of the page, or of what the window shows of it: PNG, or WebP by the name.

        `height` cuts it, `scale` makes it smaller.
        """
        metrics = self.call("Page.getLayoutMetrics")
        size = metrics["cssContentSize"] if is_whole else metrics["cssLayoutViewport"]
        wide, high = (size[name] if is_whole else size[f"client{name.title()}"] for name in ("width", "height"))
        clip = {"x": 0, "y": 0, "width": wide, "height": min(high, height or high), "scale": scale}
        kind = {"format": "webp", "quality": 82} if path.suffix == ".webp" else {"format": "png"}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=is_whole, **kind)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def close(self) -> None:
        """Close the tab, and forget all it stored."""
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start one; nothing of it is left afterwards."""
    if PROGRAM is None:
        raise FileNotFoundError("there is no chromium here; on Debian: apt-get install chromium")
    requests, to = os.pipe()
    of, answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as home:
        command = f'exec "$@" 3<&{requests} 4>&{answers}'  # the protocol's numbers
        process = subprocess.Popen(
            ["bash", "-c", command, "bash", PROGRAM, *_OPTIONS, f"--user-data-dir={home}", "about:blank"],
            pass_fds=(requests, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(requests)
        os.close(answers)
        browser = Chromium(process, to, of)
        try:
            yield browser
            browser.call("Browser.close")
        finally:
            os.close(to)
            browser._of.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
