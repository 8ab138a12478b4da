"""A report of a real picture, and what is in it, for the tests of reports."""

from __future__ import annotations

from base64 import b64decode
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from skimage import data, restoration

from noise2same import io
from noise2same.noise.diagnose import Diagnosis
from noise2same.noise.synthetic import gaussian
from noise2same.quality.assess import Assessment
from noise2same.quality.checks import Check, Verdict
from noise2same.quality.report import write_report

SIGMA = 25.0
FIELDS = ("diagnosis", "verdict", "frames", "frame", "source", "channels", "input_share")
"""Of an assessment, which `write` takes."""
HISTORY = [
    {"step": step, "seconds": step / 20, "error": None if step < 100 else 0.1 - step / 1e4, "reconstruction": 1 / step}
    for step in range(20, 500, 20)
]


def diagnosis(axes: str = "YX", **changes: Any) -> Diagnosis:
    spatial = [letter for letter in axes if letter in "ZYX"]
    facts: dict[str, Any] = {
        "kind": "gaussian",
        "sigma": SIGMA,
        "sigma_normalized": 0.35,
        "a": 0.0,
        "b": SIGMA**2,
        "correlated": False,
        "correlation": {letter: (0.01, -0.01, 0.0) for letter in spatial},
        "extent": dict.fromkeys(spatial, 0),
        "confidence": 0.93,
        "evidence": {"error": 0.01},
        "steady": True,
        "advice": "Nothing to do: this is the noise that Noise2Same assumes.",
    }
    return Diagnosis(**(facts | changes))


def verdict(
    word: Any = "check", reason: str = "Some structure was removed with the noise.", advice: str = "Look at it."
) -> Verdict:
    checks = (
        Check("noise removed", "trust", "Little of the noise is left (at most 4% in flat areas).", "", 0.04, 0.18),
        Check("detail kept", "check", "Image structure was removed with the noise.", "Look at it.", 1.2, 1.05),
        Check("no tile borders", "do not trust", "A line crosses the result.", "Denoise it in one piece.", 9.0, 0.5),
    )
    return Verdict(word, reason, (28.4, 27.9, 28.8), checks, advice="" if word == "trust" else advice)


@cache
def camera() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy, denoised and clean photograph, 512²."""
    clean = data.camera().astype(np.float32)
    noisy = gaussian(clean, SIGMA, np.random.default_rng(0))
    return noisy, 255 * restoration.denoise_tv_chambolle(noisy / 255, 0.12), clean


def write(path: Path, noisy: np.ndarray, clean: np.ndarray, axes: str = "YX", **others: Any) -> Path:
    known = {"diagnosis": diagnosis(axes), "verdict": verdict()}
    known |= {name: others.pop(name) for name in [*others] if name in FIELDS}
    truth = others.pop("truth", None)
    others = {"settings": {"version": "0.1"}} | others
    assessment = Assessment(noisy, clean, axes, sizes=dict(zip(axes, noisy.shape, strict=True)), **known)
    return write_report(path, assessment, truth=None if truth is None else io.wrap(truth, axes), **others)


class Pictures(HTMLParser):
    """The pictures of a page as arrays, by their alternative text, and their formats."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.arrays: dict[str, np.ndarray] = {}
        self.formats: dict[str, str] = {}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "img":
            alt, source = found["alt"] or "", found["src"] or ""
            kind, encoded = source.split(";base64,")
            self.arrays[alt] = imageio.imread(b64decode(encoded))
            self.formats[alt] = kind.removeprefix("data:image/")
