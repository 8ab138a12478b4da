"""The page of a table or figure: what it shows, the figures, the picture, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noise2same.files import replacing
from noise2same.paper.reproduce.store import Result

TITLES = {
    "table1": "Table 1: how strictly J-invariant, by replacement of masked pixels",
    "table2": "Table 2: how strictly J-invariant, by data set",
    "table3": "Table 3: every method on every data set",
    "efficiency": "Training efficiency",
    "sigma": "The effect of σ in the loss",
    "visual": "Results to look at",
    "bound": "The theorems' bounds in training",
}
CAPTIONS = {
    "table1": """\
D(f) (eq. 5) on two test images, and mean PSNR of the 68 test images of BSD68, σ = 25.
The network is trained to predict masked pixels (eq. 3).
They are replaced by Gaussian noise in normalised units, or by a random pixel of their neighborhood (UPS).
The last row is a blind-spot network (Laine et al.).""",
    "table2": """\
D(f) and PSNR as in Table 1, with masked pixels replaced by Gaussian noise of σ = 0.5, on three data sets.
PSNR of HanZi and ImageNet is the min-max one.""",
    "table3": """\
*Noise2Same* is the paper's loss, eq. 6, with λ = 2σ̂ (Theorem 2).
*projected* and *auto* are ours.
*auto* is the default of the package: the plan chooses the loss, which is named in brackets.

Figures are means over the test images, each noisy once and denoised without test-time augmentation.
The first score is the one that the paper reports; for w2s and FMD, which it does not have, it is the affine-fit PSNR.
*Gap closed* is the share of the way from the noisy images (0) to Noise2True (100 %).
Min-max PSNR stretches each prediction to the full range first.
The noise of HanZi and ImageNet is clipped to the range and therefore biased.
Plain PSNR penalises this bias in every method that never sees a clean image.
Minutes are of training on the cores that a job had.
Bold: the best among the methods that are given neither clean images, nor a second noisy image, nor the noise level.""",
    "efficiency": """\
Score of validation images in the course of training on ImageNet.
The learning rate falls to zero at the end of each run.
Laine's network costs about five times as much a step, and has a quarter of the steps.""",
    "sigma": """\
PSNR of Noise2Same (eq. 6) on HanZi with Gaussian noise, with λ = 2σ for different σ, in the units of the images.
By Theorem 2 the best σ of the loss is that of the noise.""",
    "visual": """\
The same test images by every method, with zoomed insets where images are large enough.
Volumes are shown as their maximum along Z.
For comparison, results are fitted to the clean image by a gain and an offset.""",
    "bound": """\
Both sides of Theorems 1 and 2 in the course of training with the loss of Theorem 2.
They are measured on a crop of a validation image of BSD68 with 32 draws of the noise.
The unit is the variance of the noisy images.""",
}


def write_page(what: str, out: Path, text: str, found: Sequence[Result]) -> Path:
    """Write WHAT.md, and return its path."""
    page = out / f"{what}.md"
    with replacing(page) as path:
        path.write_text(f"# {TITLES[what]}\n\n{CAPTIONS[what]}\n\n{text}\n\n{origin(found)}\n", encoding="utf-8")
    return page


def origin(found: Sequence[Result]) -> str:
    """Where the figures come from: commits, dates and machines; the commands are kept with the cells."""
    sources = [one["provenance"] for one in found]
    if not sources:
        return "No cell has been run yet."

    def each(name: str) -> str:
        return ", ".join(dict.fromkeys(str(source[name]) for source in sources if source[name]))

    dates = sorted(source["date"] for source in sources)
    return (
        f"Commits {each('commit')}; {dates[0]} to {dates[-1]}; {each('machine')}; threads per cell: {each('threads')}."
    )
