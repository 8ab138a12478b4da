"""The report in a real browser: usable, legible in light and dark, on a phone and a screen, and asking for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from scipy import ndimage

from contrasts import CONTRASTS
from example_report import HISTORY, camera, verdict, write

PHONE, SCREEN = 390, 1600


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    noisy, denoised, clean = camera()
    path = "/data/a folder/" + 12 * "no_place_to_break_a_line_" + ".tif"
    settings = {
        "input": path,
        "command": f"noise2same denoise '{path}' -o x.tif",
        "torch": "2.13.0",
        "lambda_inv": 0.51,
    }
    training = {"steps": 480, "seconds": 24.0, "terms": {"reconstruction": 0.2}, "history": HISTORY}
    folder = tmp_path_factory.mktemp("report")
    return write(folder / "report.html", noisy, denoised, truth=clean, settings=settings, training=training)


@pytest.fixture
def show(browser: Browser, report: Path) -> Iterator[Callable[..., Page]]:
    """Open a report at some width; at the end, nothing may have been requested or complained about."""
    pages, requests, complaints = [], [], []

    def opened(
        width: int = SCREEN, scheme: str = "light", path: Path = report, touch: bool = False, unfold: bool = False
    ) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch)
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        if unfold:
            page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        pages.append((page, path))
        return page

    yield opened
    for page, _ in pages:
        page.close()
    assert not complaints
    own = [path.as_uri() for _, path in pages]
    assert [url for url in requests if not url.startswith("data:")] == own


def roughness(page: Page) -> list[float]:
    """How noisy the comparison looks, in each tenth of its width."""
    picture = imageio.imread(page.locator("#compare").screenshot())[..., :3].mean(-1)
    rough = picture - ndimage.gaussian_filter(picture, 2)
    inner = np.array_split(rough[: len(rough) // 4], 10, axis=1)  # the sky: no detail, no tag, not the round handle
    return [float(np.median(np.abs(part))) for part in inner]


def test_the_picture_comes_first_then_the_verdict_then_the_checks(show: Callable[..., Page], tmp_path: Path) -> None:
    headlines = set()
    for word in ("trust", "check", "do not trust"):
        source = {"image": "/data/cells <1>.tif"}
        path = write(tmp_path / f"{word}.html", *camera()[:2], verdict=verdict(word, "This is why."), source=source)
        page = show(path=path)
        assert page.title() == f"cells <1>.tif – {word}" and page.locator("h1").inner_text() == "cells <1>.tif"
        places = [page.locator(part).first.bounding_box()["y"] for part in ("h1", "#compare", ".verdict h2", "summary")]
        assert places == sorted(places) and places[1] < 120 and places[2] < 900  # the window is 900 high
        assert page.locator(".reason").inner_text() == "This is why."
        assert page.locator(".advice").count() == (word != "trust")
        assert not page.locator(".checks").is_visible()
        page.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator(".checks").is_visible() and page.locator(".checks li").count() == 3
        headline = page.locator(".verdict h2").inner_text()[1:].lower()
        headlines.add(headline.removesuffix(" this result").removesuffix(" before you use it"))
    assert headlines == {"trust", "check this result", "do not trust"}


def test_dragging_shows_more_or_less_of_the_noisy_image(show: Callable[..., Page]) -> None:
    page = show()
    box = page.locator("#compare").bounding_box()
    assert box is not None

    def at(share: float) -> tuple[float, float]:
        return box["x"] + share * box["width"], box["y"] + box["height"] / 2

    middle = roughness(page)
    assert min(middle[:4]) > 2 * max(middle[6:])
    page.mouse.move(*at(0.5))
    page.mouse.down()
    page.mouse.move(*at(0.9), steps=5)
    right = roughness(page)
    assert min(right[:8]) > 2 * max(middle[6:])
    page.mouse.move(*at(0.05), steps=5)
    page.mouse.up()
    left = roughness(page)
    assert 2 * max(left[1:]) < min(middle[:4])
    page.mouse.move(*at(0.9))
    assert roughness(page) == left  # the button is up


def test_the_slider_follows_keys_and_fingers(show: Callable[..., Page]) -> None:
    page = show(PHONE, touch=True)
    middle = roughness(page)
    page.locator("#split").focus()
    page.keyboard.press("Home")
    denoised = roughness(page)
    assert 2 * max(denoised[1:]) < min(middle[:4])
    page.keyboard.press("End")
    assert min(roughness(page)[:9]) > 2 * max(denoised[1:])
    box = page.locator("#compare").bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + 0.2 * box["width"], box["y"] + 10)
    assert float(page.locator("#split").input_value()) == pytest.approx(20, abs=1)
    assert 2 * max(roughness(page)[3:]) < min(middle[:4])


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_nothing_is_wider_than_the_window(width: int, show: Callable[..., Page]) -> None:
    page = show(width, unfold=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        "w => [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > w + 1)"
        ".map(e => e.tagName)",
        width,
    )
    assert outside == []
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height))"
    )
    assert smallest > 9


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_light_and_dark(scheme: str, show: Callable[..., Page]) -> None:
    page = show(scheme=scheme, unfold=True)
    back = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (min(back) > 200) if scheme == "light" else (max(back) < 60)
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 60
    assert [found for found in contrasts if found[1] < 4.5] == []


def test_pictures_are_there_and_have_words(show: Callable[..., Page]) -> None:
    page = show()
    images = page.evaluate("[...document.images].map(image => [image.alt, image.complete && image.naturalWidth])")
    assert len(images) >= 12
    assert all(alt and width for alt, width in images)
    assert len({alt for alt, _ in images}) == len(images)
    charts = page.locator("svg").evaluate_all("charts => charts.map(chart => chart.getAttribute('aria-label'))")
    assert len(charts) == 5 and all(charts)
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(heading => Number(heading.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
