"""The page of a table or figure: what it shows, the figures, the picture, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noise2same.files import replacing
from noise2same.paper.reproduce.cells import Result

TITLES = {
    "table1": "Table 1: how strictly J-invariant, by what replaces the masked pixels",
    "table2": "Table 2: how strictly J-invariant, by data set",
    "table3": "Table 3: every method on every data set",
    "efficiency": "Training efficiency",
    "sigma": "The effect of σ in the loss",
    "visual": "Results to look at",
    "bound": "The theorems' bounds in training",
}
CAPTIONS = {
    "table1": "D(f) (eq. 5, on two test images) and mean PSNR of the 68 test images of BSD68, σ = 25, of a network "
    "that was trained to predict masked pixels (eq. 3), which were replaced by Gaussian noise in "
    "normalised units or by a pixel of their neighbourhood; in the last row of a network with a blind "
    "spot (Laine et al.).",
    "table2": "The same with masked pixels replaced by Gaussian noise of σ = 0.5, on three data sets; min-max PSNR "
    "for HanZi and ImageNet.",
    "table3": "Mean over the test images, noisy once, denoised in one orientation. The first score is the paper's "
    "(for w2s and FMD, which it does not have, affine-fit). *Gap closed* is how much of the way from the "
    "noisy images to Noise2True a method goes by a score. The min-max score stretches each prediction to "
    "the full range. The noise of HanZi and ImageNet is cut to the range and so has a mean, for which "
    "plain PSNR punishes every method that never sees a clean image. Minutes are of training on the cores "
    "that a job had. Bold: best of the methods that are told nothing but the noisy images.",
    "efficiency": "Score of validation images in the course of training on ImageNet, with the learning rate falling to "
    "zero at the end of their steps; Laine's network, which costs about five times as much a step, has a "
    "quarter of the steps.",
    "sigma": "HanZi with Gaussian noise alone: PSNR of Noise2Same with λ = 2 σ of the loss (Theorem 2, in the "
    "units of the images). By the theorem, the best σ of the loss should be that of the noise.",
    "visual": "The same test images by every method, with zoomed insets where images are large enough. Volumes are "
    "shown as their maximum along Z. Results are fitted to the clean image (a gain and an offset) so that "
    "they can be compared.",
    "bound": "Both sides of Theorems 1 and 2 on a crop of a validation image of BSD68, 32 draws of the noise, in "
    "the course of a training run by Theorem 2's loss. In units of the variance of the noisy images.",
}


def write_page(what: str, out: Path, text: str, found: Sequence[Result]) -> Path:
    """Write WHAT.md, and return its path."""
    page = out / f"{what}.md"
    with replacing(page) as path:
        path.write_text(f"# {TITLES[what]}\n\n{CAPTIONS[what]}\n\n{text}\n\n{origin(found)}\n", encoding="utf-8")
    return page


def origin(found: Sequence[Result]) -> str:
    """Where the figures come from, in a line."""
    sources = [one["provenance"] for one in found]
    if not sources:
        return "No cell has been run yet."

    def each(name: str) -> str:
        return ", ".join(dict.fromkeys(str(source[name]) for source in sources if source[name]))

    dates = sorted(source["date"] for source in sources)
    commands = ", ".join(f"`{command}`" for command in dict.fromkeys(source["command"] for source in sources))
    return (
        f"From {commands}; commit {each('commit')}; {dates[0]} to {dates[-1]}; {each('machine')}; threads a cell: "
        f"{each('threads')}."
    )
