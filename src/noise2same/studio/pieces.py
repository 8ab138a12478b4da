"""Pieces of HTML that the page shows: the image before and after, what was found, how far a run is, the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from noise2same.quality.checks import Verdict
from noise2same.quality.report.page import HEADLINES, SIGNS
from noise2same.quality.report.pictures import around_zero, data_uri, fitted, picture
from noise2same.quality.report.views import Array, grey_range

SMALL_SIDE = 256
"""Longest side in pixels of a picture of one reading of the axes."""
CONTROLS = """<div class="n2s-controls">
<label class="n2s-split"><span>Noisy</span><input type="range" id="n2s-split" min="0" max="100" step="0.5" value="50"
aria-label="Part that shows the noisy image"><span>Denoised</span></label>
<div class="n2s-buttons" role="group" aria-label="Zoom">
<button type="button" data-n2s="out" aria-label="Zoom out">−</button>
<button type="button" data-n2s="in" aria-label="Zoom in">+</button>
<button type="button" data-n2s="fit">Fit</button>
<button type="button" data-n2s="pixels" title="One pixel of the image is one of the screen">1:1</button>
<button type="button" data-n2s="removed" aria-pressed="false">What was removed</button>
</div></div>"""
"""Below the image. They stay while the image changes, so that a new one is seen as the last one was."""
EMPTY = '<div class="n2s-stage n2s-empty"><p>Your image appears here, before and after.</p></div>'


def compare(noisy: Array, clean: Array | None, colours: Sequence[str], *, label: str) -> str:
    """The noisy and the denoised plane (Y, X, C), one over the other, with the same contrast.

    The script of the page moves the border between them, zooms, and blends them by the strength.
    """
    grey = grey_range(noisy if clean is None else clean)
    height, width = noisy.shape[:2]
    before = _layer(data_uri(picture(noisy, grey, colours), lossless=True), f"{label}, noisy")
    if clean is None:
        layers = f'<div class="n2s-layer">{before}</div>'
    else:
        after = _layer(data_uri(picture(clean, grey, colours), lossless=True), f"{label}, denoised", "n2s-clean")
        difference = noisy - clean
        removed = _layer(data_uri(picture(difference, around_zero(difference))), f"{label}, what was removed")
        layers = (
            f'<div class="n2s-layer">{before}{after}</div><div class="n2s-layer n2s-before">{before}</div>'
            f'<div class="n2s-layer n2s-removed">{removed}</div><span class="n2s-line"></span>'
        )
    return f'<div class="n2s-stage" style="--ratio: {width / height:.4f}" data-width="{width}">{layers}</div>'


def readings(planes: Mapping[str, Array]) -> str:
    """What an image would show, by its possible axes."""
    figures = "".join(
        f'<figure><img src="{data_uri(picture(fitted(plane, SMALL_SIDE), grey_range(plane)))}" '
        f'alt="Read as {axes}"><figcaption>{axes}</figcaption></figure>'
        for axes, plane in planes.items()
    )
    return f'<div class="n2s-readings">{figures}</div>'


def _layer(uri: str, alt: str, classes: str = "") -> str:
    return f'<img src="{uri}" alt="{escape(alt)}" class="{classes}" draggable="false">'


def facts(lines: Sequence[str]) -> str:
    """Sentences about the image and what will be done with it."""
    return f'<div class="n2s-facts">{"".join(f"<p>{escape(line)}</p>" for line in lines)}</div>' if lines else ""


def progress(text: str, share: float | None) -> str:
    """How far a run is; no share for work of unknown length."""
    value = "" if share is None else f' value="{share:.3f}"'
    bar = f'<progress max="1"{value} aria-label="Progress"></progress>'
    return f'<div class="n2s-progress">{bar}<p>{escape(text)}</p></div>'


def problem(text: str) -> str:
    """What went wrong, and what to do."""
    return f'<div class="n2s-problem" role="alert"><p>{escape(text)}</p></div>'


def verdict(found: Verdict) -> str:
    """Whether to trust the result, why, and what to do next."""
    psnr = ""
    if found.psnr is not None:
        value, low, high = found.psnr
        psnr = f"<p>Estimated PSNR {value:.1f} dB, between {low:.1f} and {high:.1f} dB.</p>"
    advice = f"<p><b>What to do next.</b> {escape(found.advice)}</p>" if found.advice else ""
    return (
        f'<div class="n2s-verdict n2s-{found.word.replace(" ", "-")}">'
        f"<h3>{SIGNS[found.word]} {HEADLINES[found.word]}</h3>"
        f"<p>{escape(found.reason)}</p>{psnr}{advice}</div>"
    )
