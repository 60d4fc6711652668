"""Pages in headless Chromium, measured by a script in the page."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

PROBE = Path(__file__).with_name("page_probe.js")
WIDTHS, THEMES = (400, 800, 1280), ("light", "dark")


def chromium() -> str:
    """The browser; a test that needs it is skipped where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium; install it: apt-get install chromium")
    return found


def measured(pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Reports of the probe on every page, width and theme; the browser starts once.

    Returns:
        For each page, width and theme: ``texts``, how many were measured, and ``faults``, a list of sentences.
    """
    data = json.dumps({"pages": pages, "widths": WIDTHS, "themes": THEMES}).replace("</", "<\\/")
    text = f'<meta charset="utf-8"><body><script>const request = {data};\n{PROBE.read_text(encoding="utf-8")}</script>'
    with tempfile.TemporaryDirectory(prefix="mirage-pages-") as folder:
        Path(folder, "probe.html").write_text(text, encoding="utf-8")
        dumped = _browse(folder, "--virtual-time-budget=60000", "--dump-dom")
    found = re.search(r'<pre id="found">(.*?)</pre>', dumped, re.DOTALL)
    assert found is not None, f"the probe did not finish: {dumped[-2000:]}"
    answer: list[dict[str, Any]] = json.loads(html.unescape(found[1]))
    return answer


def photographed(page: str, width: int, height: int, theme: str, path: Path) -> None:
    """Saves a picture of a page of an exact width.

    A window of Chromium has at least 500 pixels, so a narrower page is in a frame.
    """
    shown = html.escape(page.replace('<html lang="en"', f'<html lang="en" data-theme="{theme}"', 1), quote=True)
    frame = f'<iframe srcdoc="{shown}" style="border:0;width:{width}px;height:{height}px"></iframe>'
    with tempfile.TemporaryDirectory(prefix="mirage-pages-") as folder:
        Path(folder, "probe.html").write_text(f'<meta charset="utf-8"><body style="margin:0">{frame}', encoding="utf-8")
        _browse(folder, f"--window-size={max(width, 500)},{height}", f"--screenshot={path}", "--hide-scrollbars")


def _browse(folder: str, *options: str) -> str:
    command = [
        chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder}/profile", *options, f"file://{folder}/probe.html",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
