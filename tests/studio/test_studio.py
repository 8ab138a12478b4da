"""Studio in a real browser, against a real server: what a person does there, and what must never happen."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir

import imageio.v3 as imageio
import numpy as np
import pytest
import tifffile
from playwright.sync_api import Browser, Page
from skimage import data

from contrasts import CONTRASTS
from noise2same import io
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

CLEAN = data.camera()[100:356, 120:376].astype(np.float32)
NOISY = gaussian(CLEAN, 25, np.random.default_rng(0))
SHOTS = os.environ.get("NOISE2SAME_SCREENSHOTS")
"""Folder for the pictures of the docs."""
PATIENCE = 60_000
"""Milliseconds that a busy machine may take for anything."""


def as_16_bits(image: np.ndarray) -> np.ndarray:
    return (100 * (image + 150)).clip(0, 65535).astype(np.uint16)


@pytest.fixture(scope="module")
def noisy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "cells 1.tif"
    tifffile.imwrite(path, as_16_bits(NOISY), imagej=True, resolution=(10, 10), metadata={"unit": "um"})
    return path


def started(*options: str) -> tuple[subprocess.Popen[str], str]:
    """A server, and the address that it printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "noise2same", "studio", "--no-browser", "--port", port, *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    line = server.stderr.readline()
    assert "Studio is at http://" in line
    return server, line.split()[3]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    before = set(Path(gettempdir()).glob("noise2same-studio-*"))
    server, address = started()
    yield address
    server.terminate()
    assert server.wait(30) == 0
    assert set(Path(gettempdir()).glob("noise2same-studio-*")) <= before


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Open the page; at the end, nothing may have been asked of another machine."""
    pages: list[Page] = []
    requests: list[str] = []

    def opened(width: int = 1280, scheme: str = "light", at: str = address) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True)
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(at)
        page.wait_for_selector("#denoise")
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []


def drop(page: Page, path: Path) -> None:
    page.set_input_files("#drop input[type=file]", path)


def previewed(page: Page) -> None:
    page.wait_for_function("document.querySelector('#status')?.innerText.includes('This is a preview')")


def denoise(page: Page, minutes: str) -> None:
    page.click("text=Advanced")
    page.fill("#minutes input", minutes)
    page.click("#denoise")


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.wait_for_timeout(500)
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def taken(page: Page, button: str, folder: Path) -> Path:
    with page.expect_download() as download:
        page.click(button)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_from_a_dropped_file_to_a_clean_one(visit: Callable[..., Page], noisy_file: Path, tmp_path: Path) -> None:
    page = visit()
    drop(page, noisy_file)
    previewed(page)
    assert "gaussian" in page.inner_text("#about") and "Method: sure" in page.inner_text("#about")
    denoise(page, "0.12")
    page.wait_for_selector("text=Learning: step")
    shares = []
    while page.locator(".n2s-verdict").count() == 0:
        shares += page.evaluate("[...document.querySelectorAll('#status progress[value]')].map(bar => bar.value)")
        page.wait_for_timeout(200)
    assert len(set(shares)) > 1  # it moved
    assert "result" in page.inner_text(".n2s-verdict")
    clean = taken(page, "#get-image", tmp_path)
    image = io.read(clean)
    assert clean.name == "cells 1_denoised.tif" and image.dtype == np.uint16 and image.shape == NOISY.shape
    assert image.pixel_size["X"] == pytest.approx(0.1)
    before, after = (psnr(as_16_bits(CLEAN), pixels) for pixels in (as_16_bits(NOISY), image.data[...]))
    assert after > before + 5
    assert taken(page, "#get-model", tmp_path).suffix == ".safetensors"
    assert "<html" in taken(page, "#get-report", tmp_path).read_text()

    page.locator("#n2s-split").focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.documentElement.style.getPropertyValue('--n2s-split')") == "60%"
    page.click("[data-n2s=in]")
    assert float(page.evaluate("document.documentElement.style.getPropertyValue('--n2s-zoom')")) == 1.5
    shot(page, "studio")

    dial = page.locator("#strength input[type=range]")
    dial.fill("0.5")
    dial.dispatch_event("pointerup")
    assert page.evaluate("getComputedStyle(document.querySelector('.n2s-clean')).opacity") == "0.5"
    page.wait_for_function("document.querySelector('#get-image')?.closest('a, div')?.innerHTML.length > 0")
    page.wait_for_timeout(2000)
    half = io.read(taken(page, "#get-image", tmp_path / "half")).data[...].astype(float)
    middle = (as_16_bits(NOISY).astype(float) + image.data[...]) / 2
    np.testing.assert_allclose(half, middle, atol=1)


def test_stop_here_keeps_what_there_is_and_a_second_tab_waits_its_turn(
    visit: Callable[..., Page], noisy_file: Path
) -> None:
    first, second = visit(), visit()
    for page in (first, second):
        drop(page, noisy_file)
        previewed(page)
    denoise(first, "5")
    first.wait_for_selector("text=Learning: step")
    denoise(second, "0.05")
    second.wait_for_selector("text=/queue/i")
    first.click("#stop")
    first.wait_for_selector(".n2s-verdict")
    second.wait_for_selector(".n2s-verdict")


def test_a_closed_tab_ends_its_training_and_leaves_no_files(visit: Callable[..., Page], noisy_file: Path) -> None:
    def folders() -> set[Path]:
        return {path for root in Path(gettempdir()).glob("noise2same-studio-*") for path in root.glob("tmp*")}

    page = visit()
    before = folders()
    drop(page, noisy_file)
    previewed(page)
    denoise(page, "10")
    page.wait_for_selector("text=Learning: step")
    assert len(folders() - before) == 1
    page.close()
    other = visit()
    drop(other, noisy_file)
    previewed(other)
    denoise(other, "0.05")
    other.wait_for_selector(".n2s-verdict")  # which waits for the closed one to end
    assert len(folders() - before) == 1


def test_a_file_that_is_no_image_gets_its_sentence_and_the_session_goes_on(
    visit: Callable[..., Page], noisy_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.tif").write_bytes(b"this is no image")
    page = visit()
    drop(page, tmp_path / "broken.tif")
    page.wait_for_selector("[role=alert]")
    said = page.inner_text("[role=alert]")
    assert said.startswith("broken.tif") and "Traceback" not in said
    page.click("#drop [aria-label='Clear']") if page.locator("#drop [aria-label='Clear']").count() else page.reload()
    page.wait_for_selector("#drop input[type=file]", state="attached")
    drop(page, noisy_file)
    previewed(page)


def test_axes_that_are_not_known_are_asked_for_with_pictures(visit: Callable[..., Page], tmp_path: Path) -> None:
    np.save(tmp_path / "stack.npy", np.stack([NOISY[:128, :128]] * 4))
    page = visit()
    drop(page, tmp_path / "stack.npy")
    page.wait_for_selector(".n2s-readings img")
    assert page.locator(".n2s-readings figcaption").all_inner_texts() == ["ZYX", "TYX", "CYX"]
    page.click("#reading label:has-text('TYX')")
    previewed(page)
    assert "(T Y X)" in page.inner_text("#about") and page.locator("#frame").is_visible()


def test_a_folder_on_this_machine_with_a_model(visit: Callable[..., Page], tmp_path: Path, trained: Path) -> None:
    for name in "ab":
        imageio.imwrite(tmp_path / f"{name}.png", NOISY.clip(0, 255).astype(np.uint8))
    page = visit()
    page.click("text=Advanced")
    page.set_input_files("#model input[type=file]", trained)
    page.wait_for_selector("text=will be used as it is")
    page.click("text=A file or folder on this machine")
    page.fill("#path textarea, #path input", str(tmp_path))
    page.click("#open-path")
    previewed(page)
    page.click("#denoise")
    page.wait_for_selector("text=All results are in")
    assert sorted(path.name for path in (tmp_path / "denoised").glob("*.png")) == ["a_denoised.png", "b_denoised.png"]


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_it_is_legible_at_all_widths_in_light_and_dark(visit: Callable[..., Page], width: int, scheme: str) -> None:
    page = visit(width, scheme)
    page.click("button:has-text('Photograph')")
    previewed(page)
    shot(page, f"studio-{width}-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.wait_for_timeout(300)
    poor = [(text, ratio) for text, ratio in page.evaluate(CONTRASTS) if ratio < 4.5 and text not in ("Stop here", "↔")]
    assert poor == []
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input')].filter(one => one.getClientRects().length && !(one.innerText"
        " || one.ariaLabel || one.title || one.labels?.length || one.getAttribute('aria-label')))"
        ".map(one => one.outerHTML.slice(0, 200))"
    )
    assert unnamed == []


def test_others_need_a_password(run: Callable[..., tuple[int, str, str]], browser: Browser) -> None:
    code, _, said = run("studio", "--host", "0.0.0.0", "--no-browser")
    assert code == 2 and "set a --password" in said
    server, address = started("--host", "0.0.0.0", "--password", "open sesame")
    try:
        page = browser.new_page()
        page.goto(address.replace("0.0.0.0", "127.0.0.1"))
        page.wait_for_selector("input[type=password]")
        assert page.locator("#denoise").count() == 0
        page.close()
    finally:
        server.terminate()
        server.wait(30)
    time.sleep(0.1)
