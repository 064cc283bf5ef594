"""A headless Chromium, driven over its own pipe (Chrome DevTools Protocol): no driver and no package other than Python.

    with Browser() as browser:
        page = browser.open(Path("report.html"))
        page.run("document.title")
        page.key("ArrowRight"); page.click(300, 200); page.screenshot()
        page.problems          # what the console complained about
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any


def chromium() -> str | None:
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    def __init__(self, width: int = 1280, height: int = 800) -> None:
        self.size = (width, height)
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        path = chromium()
        assert path, "no chromium"
        # The browser reads commands on 3 and writes answers on 4.
        moved = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", moved, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio", "--no-first-run", "--disable-extensions",
             "--disable-dev-shm-usage", "--force-device-scale-factor=1", f"--window-size={width},{height}", f"--user-data-dir={self._folder.name}",
             "--remote-debugging-pipe", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(to_read, to_write))
        os.close(to_read)
        os.close(to_write)
        self._number, self._buffer, self.events = 0, b"", []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
        except (OSError, TimeoutError, RuntimeError):
            self._process.kill()
        self._process.wait(20)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._folder.name, ignore_errors=True)
        self._folder._finalizer.detach()  # type: ignore[attr-defined]

    def _message(self, timeout: float) -> dict[str, Any]:
        import select

        end = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._read, 1 << 20)
            if not more:
                raise OSError("the browser is gone")
            self._buffer += more
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method: str, session: str | None = None, timeout: float = 60, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data):]
        while True:
            answer = self._message(timeout)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path, *, dark: bool = False, width: int | None = None, height: int | None = None) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width or self.size[0], height=height or self.size[1], deviceScaleFactor=1,
                  mobile=bool(width and width < 700))
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.call("Page.navigate", url=path.resolve().as_uri())
        page.wait("document.readyState === 'complete' && (document.documentElement.dataset.timeline || !document.getElementById('pack')?.textContent.trim())")
        return page


class Page:
    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", str(answer["exceptionDetails"])))
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {condition}; {self.problems}")
            time.sleep(0.02)

    def frame(self) -> None:
        """Lets everything that is due be drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, key: str) -> None:
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.frame()

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)
        self.frame()

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.frame()

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """x, y, width and height of an element in view."""
        script = f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }})()"
        return tuple(self.run(script))

    def screenshot(self, path: Path | None = None) -> bytes:
        self.frame()
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path:
            path.write_bytes(png)
        return png

    @property
    def problems(self) -> list[str]:
        """Exceptions, errors of the console and refused requests."""
        self.run("0")
        out = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            p = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                out.append(p["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif event["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert"):
                out.append(str(p["args"]))
            elif event["method"] == "Log.entryAdded" and p["entry"]["level"] == "error":
                out.append(p["entry"]["text"])
        return out


def grey_blocks(png: bytes, columns: int = 32, rows: int = 24) -> list[list[int]]:
    """Mean brightness of the blocks of a picture: what stays the same when fonts differ a little."""
    at, width, height, colour, data = 8, 0, 0, 0, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            data += body
        at += 12 + size
    channels = {2: 3, 6: 4, 0: 1}[colour]
    raw, stride = zlib.decompress(data), width * channels
    before = bytearray(stride)
    sums, counts = [[0] * columns for _ in range(rows)], [[0] * columns for _ in range(rows)]
    for y in range(height):
        start = y * (stride + 1)
        line, how = bytearray(raw[start + 1:start + 1 + stride]), raw[start]
        for i in range(stride) if how else ():
            left, up = line[i - channels] if i >= channels else 0, before[i]
            corner = before[i - channels] if i >= channels else 0
            if how == 1:
                add = left
            elif how == 2:
                add = up
            elif how == 3:
                add = (left + up) // 2
            else:
                guess = left + up - corner
                add = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[i] = line[i] + add & 255
        before = line
        if y % 4:
            continue
        for x in range(0, width, 4):
            i, row, column = x * channels, y * rows // height, x * columns // width
            sums[row][column] += line[i] + (line[i + 1] + line[i + 2] if channels > 2 else 2 * line[i])
            counts[row][column] += 3
    return [[s // max(1, c) for s, c in zip(a, b)] for a, b in zip(sums, counts)]
