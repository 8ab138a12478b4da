"""Is a result ever worse than its input? Pictures, channels and volumes of known truth, with little noise or training.

Truth is shrunk or smoothed, because pictures and volumes have noise of their own. What is blended with the input, and
by how much, was chosen on odd pictures of Kodak24 and other planes of the volumes; these are others.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import record
import tifffile
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from noise2same import Config, Denoiser
from noise2same.data import axes as ax
from noise2same.noise.synthetic import gaussian, poisson_gaussian

LIMIT = -0.05
"""dB below the input from which on a result counts as worse."""
SIDE, SHRUNK = 160, 3
"""Pixels of a picture, and by how much it is shrunk."""
WARM: tuple[dict[str, Any], ...] = ({"minutes": 0}, {"steps": 30}, {"steps": 5}, {"steps": 60})
SCRATCH: tuple[dict[str, Any], ...] = ({"steps": 5}, {"steps": 60}, {"steps": 200})
BOTH = (*WARM, *({"from_scratch": True} | budget for budget in SCRATCH))

TEXT = f"""# Never worse than the input

Channels of results by how much closer they are to the truth than the input, in dB.
*Network alone* is the same network without the blend.
Noise is Gaussian of σ = 1 to 75 of 255, or of 1 to 500 photons for white; budgets go from none and 5 to 200 steps.
*Worse* is more than {-LIMIT} dB below the input."""


class Case(NamedTuple):
    """One image to denoise: where it is from, which noise it gets, and how long to train."""

    kind: str
    name: str
    axes: str
    noise: float
    """σ; or, if negative, the number of photons for white."""
    budget: dict[str, Any]


def picture(name: str, mode: str) -> NDArray[np.float32]:
    """The middle of a picture at a third of its size."""
    with Image.open(record.DATA / name) as file:
        small = file.convert(mode).resize((file.width // SHRUNK, file.height // SHRUNK), Image.Resampling.LANCZOS)
    image = np.asarray(small, np.float32)
    top, left = (max(0, length - SIDE) // 2 for length in image.shape[:2])
    return image[top : top + SIDE, left : left + SIDE]


def volume(name: str) -> NDArray[np.float32]:
    """Ten planes of the upper half of a volume, smoothed, in 0 to 255."""
    planes = ndimage.gaussian_filter(tifffile.imread(record.DATA / name).astype(np.float32), (0.7, 1.5, 1.5))
    start = max(0, len(planes) // 4 - 5)
    part = planes[start : start + 10, -144:-16, -144:-16]
    return 255 * (part - part.min()) / np.ptp(part)


def truth(case: Case) -> NDArray[np.float32]:
    if case.kind == "volumes":
        return volume(case.name)
    if case.kind == "unlike channels":
        first, second = (picture(name, "L") for name in case.name.split(" "))
        side = min(*first.shape, *second.shape)
        return np.stack([first[:side, :side], second[:side, :side].T / 8])
    return picture(case.name, "RGB" if case.axes == "YXC" else "L")


def cases() -> Iterator[Case]:
    """About 300 channels of images that nothing was chosen on."""
    kodak = [f"color/Kodak24/kodim{number:02}.png" for number in range(2, 25, 2)]
    bsd = sorted(f"bsd/BSD68/{path.name}" for path in (record.DATA / "bsd/BSD68").glob("*.png"))[::8]
    budgets = cycle(BOTH)
    for name in kodak:
        for noise in (1, 3, 10, 25, 75, -1, -10, -100, -500):
            yield Case("gray pictures", name, "YX", noise, next(budgets))
    for name in bsd:
        for noise in (2, 5, 50, -4, -50):
            yield Case("gray pictures", name, "YX", noise, next(budgets))
    budgets = cycle(WARM[:3])
    for name in kodak[::2]:
        for noise in (1, 10, 50, -10, -500):
            yield Case("color pictures", name, "YXC", noise, next(budgets))
    for first, second in zip(kodak[::3], kodak[1::3], strict=True):
        for noise in (3, -100):
            yield Case("unlike channels", f"{first} {second}", "CYX", noise, {"steps": 30})
    for name in ("neuron_25pct", "pollen", "gt_5"):
        for noise in (1, 5, 25, -10, -500):
            for budget in SCRATCH:
                yield Case("volumes", f"real3d/{name}.tif", "ZYX", noise, budget)


def measure(case: Case) -> list[dict[str, Any]]:
    """Gain of each channel, in dB, with and without the blend."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    clean, rng = truth(case), np.random.default_rng([ord(letter) for letter in case.name])
    if case.noise > 0:
        noisy = gaussian(clean, case.noise, rng)
    else:
        noisy = poisson_gaussian(clean, gain=-255 / case.noise, sigma=1.0, rng=rng)
    model = Denoiser(Config(**case.budget))
    if case.budget.get("minutes") == 0:
        model.use_pretrained(noisy, case.axes)
    else:
        model.fit(noisy, case.axes, progress=False)
    details = model.denoise_in_detail(noisy, case.axes)
    alone = without_blend(model).denoise(noisy, case.axes)
    every = (ax.to_network(image, case.axes)[0] for image in (clean, noisy, details.result, alone))
    return [
        case._asdict()
        | {
            "channel": channel,
            "gain": gain(*images[:3]),
            "alone": gain(images[0], images[1], images[3]),
            "input": round(details.input_share[channel], 3),
        }
        for channel, images in enumerate(zip(*every, strict=True))
    ]


def without_blend(model: Denoiser) -> Denoiser:
    """The same denoiser, whose results are what the network makes of its input."""
    if model.plan is None:
        model.config = model.config.model_copy(update={"blend": False})
    else:
        decision = type(model.plan.blend)(False, "to compare")
        model.plan = model.plan.model_copy(update={"blend": decision})
    return model


def gain(clean: NDArray[Any], noisy: NDArray[Any], result: NDArray[Any]) -> float:
    """By how many dB a result is closer to the truth than the noisy image."""
    errors = [float(np.mean((one.astype(np.float64) - clean) ** 2)) for one in (noisy, result)]
    return round(10 * float(np.log10(errors[0] / errors[1])), 3)


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each kind of image, and one for all; single cases are kept in the JSON file."""
    groups = {kind: [row for row in rows if row["kind"] == kind] for kind in dict.fromkeys(row["kind"] for row in rows)}
    return [line(name, group) for name, group in ({"all": rows} | groups).items()]


def line(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    gains, alone = (np.array([row[key] for row in rows]) for key in ("gain", "alone"))
    well = alone > 1
    return {
        "images": name,
        "channels": len(rows),
        "worse": int((gains < LIMIT).sum()),
        "worse, network alone": int((alone < LIMIT).sum()),
        "least gain": round(float(gains.min()), 2),
        "least, network alone": round(float(alone.min()), 2),
        "mean gain": round(float(gains.mean()), 2),
        "mean, network alone": round(float(alone.mean()), 2),
        "blend's gain where the network's is above 1 dB": round(float((gains - alone)[well].mean()), 3),
        "cases": {str(number): row for number, row in enumerate(rows)} if name == "all" else {},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take every n-th case only, to try it out")
    arguments = parser.parse_args()
    found = record.side_by_side(measure, list(cases())[:: arguments.every])
    record.write("safety", summary([row for rows in found for row in rows]), TEXT)


if __name__ == "__main__":
    main()
