"""The report on a film in a real browser: frames that move, traces and a kymograph, on one page of a few megabytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from scipy import ndimage

from contrasts import CONTRASTS
from noise2same import io
from noise2same.noise.synthetic import gaussian
from noise2same.quality.assess import assess
from noise2same.quality.report import write_report


def report_on(path: Path, length: int = 60, axes: str = "TYX") -> Path:
    """A spot that wanders over a dark field from left to right."""
    y, x = np.mgrid[:96, :160]
    spots = [np.exp(-((y - 48) ** 2 + (x - 10 - 140 * t / length) ** 2) / 50) for t in range(length)]
    clean = 50 + 200 * np.stack(spots)
    noisy = gaussian(clean, 20.0, np.random.default_rng(0))
    denoised = ndimage.gaussian_filter(noisy, (0, 1.5, 1.5))
    noisy, denoised = (film if axes == "TYX" else np.stack([film] * 2, 1) for film in (noisy, denoised))
    return write_report(path, assess(io.wrap(noisy, axes), denoised))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_on(tmp_path_factory.mktemp("film") / "film.html")


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 390, "height": 900})
    said: list[str] = []
    page.on("request", lambda request: said.append(request.url[:100]))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(report.as_uri())
    yield page
    page.close()
    assert [line for line in said if not line.startswith("data:")] == [report.as_uri()]


def spot(page: Page) -> float:
    """How far to the right the brightest place of the denoised frame is, 0 to 1."""
    picture = imageio.imread(page.locator("#frames").screenshot())[..., :3].mean(-1)
    right = ndimage.gaussian_filter(picture[:, picture.shape[1] // 2 :], 4)
    right = right[: int(0.8 * len(right))]  # above the tag
    return float(right.max(0).argmax() / right.shape[1])


def test_the_slider_moves_through_time(page: Page) -> None:
    assert page.locator("#number").inner_text() == "frame 1 of 60"
    assert page.locator("#frames img:visible").count() == 1
    page.evaluate("document.querySelectorAll('.place').forEach(mark => mark.remove())")
    places = [spot(page)]
    page.locator("#frame").fill("16")
    places.append(spot(page))
    page.locator("#frame").press("End")
    places.append(spot(page))
    assert page.locator("#number").inner_text() == "frame 60 of 60"
    assert places[0] < 0.2 < places[1] < 0.8 < places[2]


def test_it_plays_and_stops(page: Page) -> None:
    page.locator("#play").click()
    assert page.locator("#play").inner_text() == "Pause"
    expect(page.locator("#number")).not_to_have_text("frame 1 of 60")
    page.locator("#play").click()
    at = page.locator("#frame").input_value()
    page.wait_for_timeout(300)
    assert page.locator("#frame").input_value() == at and page.locator("#play").inner_text() == "Play"


def test_traces_and_kymograph_are_there_and_nothing_is_called_a_slice(page: Page, report: Path) -> None:
    words = page.locator("main").inner_text()
    assert "Kymograph" in words and "Brightness over time" in words and "slice" not in words
    assert page.locator("section svg[aria-label*='over time']").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth && image.alt)")
    assert report.stat().st_size < 5e6


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_are_legible(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    assert [found for found in page.evaluate(CONTRASTS) if found[1] < 4.5] == []


def test_a_large_film_of_two_channels_stays_small(tmp_path: Path) -> None:
    y = np.random.default_rng(0).normal(100, 20, (20, 2, 400, 900)).astype(np.float32)
    path = write_report(tmp_path / "large.html", assess(io.wrap(y, "TCYX"), ndimage.gaussian_filter(y, (0, 0, 2, 2))))
    assert path.stat().st_size < 5e6
    assert "the middle 400 × 647 pixels" in path.read_text()


def test_a_picture_has_no_such_section(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(100, 20, (96, 96)).astype(np.float32)
    path = write_report(tmp_path / "picture.html", assess(io.wrap(x, "YX"), ndimage.gaussian_filter(x, 2)))
    assert "Over time" not in path.read_text()
