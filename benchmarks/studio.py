"""Studio in a real browser: how long until something is seen, and what memory ten images in a row leave behind."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import record
import tifffile
from playwright.sync_api import Page, sync_playwright
from skimage import data

from noise2same.noise.synthetic import gaussian

PATIENCE = 300_000
"""Milliseconds after which something is wrong."""
IN_A_ROW = 10


def files(folder: Path) -> dict[str, Path]:
    """A picture of 512² and 8 bits, and one of 2048² and 16 bits."""
    noisy = gaussian(data.camera(), 25, np.random.default_rng(0))
    small, large = folder / "small.tif", folder / "large.tif"
    tifffile.imwrite(small, noisy.clip(0, 255).astype(np.uint8))
    tifffile.imwrite(large, np.tile(100 * (noisy + 150), (4, 4)).clip(0, 65535).astype(np.uint16))
    return {"512², 8 bits": small, "2048², 16 bits": large}


def copied(path: Path, name: str) -> Path:
    """The same file by another name, by which the page is known to show it."""
    return Path(shutil.copy(path, path.with_stem(name)))


def server() -> tuple[subprocess.Popen[str], str, float]:
    """A server, its address, and the seconds until it was printed."""
    start = time.monotonic()
    command = [sys.executable, "-m", "noise2same", "studio", "--no-browser"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    return process, line.split()[3], time.monotonic() - start


def preview(page: Page, path: Path) -> float:
    """Seconds from the drop of a file to its preview."""
    clear = page.locator("#drop button[aria-label*='lear']")
    if clear.count():
        clear.first.click()
    page.wait_for_selector("#drop input[type=file]", state="attached")
    start = time.monotonic()
    page.set_input_files("#drop input[type=file]", path)
    page.wait_for_selector(f"img[alt='{path.name}, denoised']", state="attached")
    return time.monotonic() - start


def result(page: Page, effort: str) -> float:
    """Seconds from Denoise to the verdict."""
    page.click(f"#effort label:has-text('{effort}')")
    start = time.monotonic()
    page.click("#denoise")
    page.wait_for_selector("text=Starting", state="attached")
    page.wait_for_selector(".n2s-verdict")
    return time.monotonic() - start


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    process, address, printed = server()
    used = psutil.Process(process.pid)
    rows: list[dict[str, Any]] = [{"what": "the command prints its address", "s": round(printed, 1)}]
    try:
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            paths = files(Path(folder))
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(PATIENCE)
            start = time.monotonic()
            page.goto(address)
            page.wait_for_selector("#denoise")
            rows.append({"what": "the page is there", "s": round(time.monotonic() - start, 1)})
            for name, path in paths.items():
                rows.append({"what": f"preview of {name}", "s": round(preview(page, path), 1)})
            preview(page, copied(paths["512², 8 bits"], "quick"))
            rows.append({"what": "Quick, 512²", "s": round(result(page, "Quick"), 1)})
            before = used.memory_info().rss
            for number in range(IN_A_ROW):
                preview(page, copied(paths["512², 8 bits"], f"image{number}"))
                result(page, "Instant")
            growth = (used.memory_info().rss - before) / 2**20
            rows.append({"what": f"MB more after {IN_A_ROW} images in a row", "s": round(growth)})
            browser.close()
    finally:
        process.terminate()
        process.wait(30)
    text = f"# Studio\n\nSeconds in Chromium on {os.cpu_count()} cores, and memory of the server in MB."
    record.write("studio", [{"what": row["what"], "value": row["s"]} for row in rows], text)


if __name__ == "__main__":
    main()
