"""Channels together or each by itself, at equal compute: from how much shared structure on is one network better?

Real fluorescence of three markers, photographs, pairs of unrelated pictures and volumes, and mixtures of them that are
related in part. A step of `separate` costs as much as one of `joint` for each channel, and gets as many fewer steps.
Then the volume of three channels, bright, dim and between, that came out worse than its input (REVIEW.md, U2).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record
from numpy.typing import NDArray
from scipy import ndimage
from volumes import real_volume

from noise2same import train
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.metrics import psnr, psnr_affine

Case = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Clean and noisy, (C, [Z,] Y, X)."""
SIDE = 256
"""Pixels of the crops of pictures."""
PARTS = ("development", "held-back", "volume")


def markers(field: str) -> Case:
    """A real field of w2s: the mean of 400 frames, and one frame; stretched apart, so they compare by an affine fit."""
    clean, noisy = (
        np.stack([imageio.imread(record.DATA / "w2s24" / kind / f"{field}_{c}.png") for c in range(3)])
        for kind in ("avg400", "avg1")
    )
    return clean.astype(np.float32), noisy.astype(np.float32)


def picture(path: str) -> NDArray[np.float32]:
    """The middle of a picture, (C, Y, X), one channel if it is grey."""
    whole = np.atleast_3d(imageio.imread(record.DATA / path)).astype(np.float32)
    top, left = ((size - SIDE) // 2 for size in whole.shape[:2])
    return np.moveaxis(whole[top : top + SIDE, left : left + SIDE], -1, 0)


def with_noise(clean: NDArray[Any], sigma: float) -> Case:
    """An image, and the same with Gaussian noise."""
    clean = clean.astype(np.float32)
    return clean, gaussian(clean, sigma, np.random.default_rng(0))


def photograph(path: str, sigma: float) -> Case:
    return with_noise(picture(path), sigma)


def mixed(numbers: str, weight: float, sigma: float) -> Case:
    """Pictures of Set12 as channels, to each but the first of which a share of the first is added."""
    first, *others = (picture(f"bsd/Set12/{number}.png")[0] for number in numbers.split("+"))
    return with_noise(np.stack([first, *(weight * first + (1 - weight) * other for other in others)]), sigma)


def variants(number: str, how: tuple[str, ...], sigma: float) -> Case:
    """A picture of Set12, and changed copies of it, as channels."""
    y = picture(f"bsd/Set12/{number}.png")[0]
    changed = {"gamma": 255 * (y / 255) ** 2.2, "inverse": 255 - y, "blurred": ndimage.gaussian_filter(y, 3.0)}
    return with_noise(np.stack([y, *(changed[name] for name in how)]), sigma)


def mixed_volumes(names: str, weight: float, level: float) -> Case:
    """Two volumes of 8 planes as channels, a share of the first added to the second; noise as a share of contrast."""
    first, second = (real_volume(name, 8) for name in names.split("+"))
    first, second = first / first.std(), second / second.std()
    return with_noise(np.stack([first, weight * first + (1 - weight) * second]), level)


DEVELOPMENT: dict[str, Callable[[], Case]] = {
    "w2s, field 005": partial(markers, "005"),
    "w2s, field 025": partial(markers, "025"),
    "kodim01, σ = 25": partial(photograph, "color/Kodak24/kodim01.png", 25),
    "kodim03, σ = 50": partial(photograph, "color/Kodak24/kodim03.png", 50),
    **{f"three pictures, {w:g} shared, σ = 25": partial(mixed, "01+04+06", w, 25) for w in (0, 0.3, 0.5, 0.7)},
    "three pictures, 0.5 shared, σ = 50": partial(mixed, "01+04+06", 0.5, 50),
    "a picture, gamma, blurred, σ = 25": partial(variants, "04", ("gamma", "blurred"), 25),
    "two pictures, σ = 25": partial(mixed, "01+04", 0, 25),
    **{f"two pictures, {w:g} shared, σ = 25": partial(mixed, "01+04", w, 25) for w in (0.5, 0.6, 0.7)},
    "a picture, gamma, σ = 25": partial(variants, "04", ("gamma",), 25),
    "a picture, inverse, σ = 50": partial(variants, "04", ("inverse",), 50),
    **{f"two volumes, {w:g} shared": partial(mixed_volumes, "pollen+neuron_25pct", w, 0.3) for w in (0, 0.5, 0.8)},
}
"""What the limit in the plan was chosen with."""
HELD_BACK: dict[str, Callable[[], Case]] = {
    **{f"w2s, field {field}": partial(markers, field) for field in ("040", "075")},
    "kodim11, σ = 25": partial(photograph, "color/Kodak24/kodim11.png", 25),
    "kodim23, σ = 50": partial(photograph, "color/Kodak24/kodim23.png", 50),
    **{f"three pictures, {w:g} shared, σ = 25": partial(mixed, "02+07+05", w, 25) for w in (0.3, 0.6)},
    "a picture, gamma, blurred, σ = 25": partial(variants, "02", ("gamma", "blurred"), 25),
    **{f"two pictures, {w:g} shared, σ = 25": partial(mixed, "02+07", w, 25) for w in (0.4, 0.65)},
    "a picture, inverse, σ = 25": partial(variants, "07", ("inverse",), 25),
    **{f"two volumes, {w:g} shared": partial(mixed_volumes, "neuron_25pct+pollen", w, 0.3) for w in (0, 0.6)},
}
"""What it is reported on."""


def scores(clean: NDArray[np.float32], images: NDArray[np.float32], real: bool) -> list[float]:
    """PSNR of each channel; after an affine fit where the scales of both are unknown."""
    score = psnr_affine if real else psnr
    pairs = zip(clean, images, strict=True)
    return [score(truth=y, prediction=f, data_range=float(np.ptp(y))) for y, f in pairs]


def compare(name: str, case: Callable[[], Case], steps: int, times: int) -> dict[str, Any]:
    """Mean PSNR of one image's channels, together and each by itself; a volume takes so many `times` the steps."""
    clean, noisy = case()
    axes, count, real = "CZYX" if noisy.ndim == 4 else "CYX", len(noisy), name.startswith("w2s")
    steps *= times if noisy.ndim == 4 else 1
    of: dict[str, list[float]] = {"noisy": scores(clean, noisy, real)}
    for way, share in (("joint", 1), ("separate", count)):
        model = train(noisy, axes, channels=way, steps=steps // share, progress=False)
        of[way] = scores(clean, model.denoise(noisy), real)
    assert model.plan is not None
    gains = np.subtract(of["separate"], of["joint"])
    row: dict[str, Any] = {"image": name, "channels": count, "steps": steps}
    row["correlation"] = round(min(model.plan.fingerprint.shared_structure), 2)
    row |= {way: round(float(np.mean(values)), 2) for way, values in of.items()}
    row |= {"gain of separate": round(float(gains.mean()), 2), "its worst channel": round(float(gains.min()), 2)}
    print(row, flush=True)
    return row | {"scores": {way: [round(value, 2) for value in values] for way, values in of.items()}}


def bright_between_dim() -> Case:
    """The volume of U2, (T, Z, C, Y, X): a bright, a middling and a dim channel; gain 2 and read-out noise of 4.

    Planes of two smoothed volumes, eight for each time point. The middling channel is the dim one turned around.
    """
    pollen, neuron = (real_volume(name, 32) for name in ("pollen", "neuron_25pct"))
    channels = [1500 * pollen / pollen.max(), 300 * np.rot90(neuron[::-1], axes=(1, 2)) / neuron.max()]
    clean = np.stack([*channels, 60 * neuron / neuron.max()], 1).astype(np.float32).reshape(4, 8, 3, 256, 256)
    return clean, poisson_gaussian(clean, gain=2.0, sigma=4.0, rng=np.random.default_rng(0))


def volume(steps: int) -> list[dict[str, Any]]:
    """PSNR of the channels of U2's volume: each by itself, together, and the dim one alone."""
    clean, noisy = bright_between_dim()
    names = ("bright", "between", "dim")

    def row(way: str, result: NDArray[np.float32], channels: Sequence[int]) -> dict[str, Any]:
        pairs = [(clean[:, :, c], result[:, :, at]) for at, c in enumerate(channels)]
        values = [round(psnr(y, f, data_range=float(np.ptp(y))), 2) for y, f in pairs]
        print(way, values, flush=True)
        return {"channels": way} | dict.fromkeys(names) | dict(zip([names[c] for c in channels], values, strict=True))

    rows = [row("noisy", noisy, range(3))]
    for way, times in (("separate", 1), ("joint", 3)):
        model = train(noisy, "TZCYX", channels=way, steps=times * steps, progress=False)
        rows.append(row(way, model.denoise(noisy, tta=False), range(3)))
    dim = noisy[:, :, 2]
    alone = train(dim, "TZYX", steps=steps, progress=False).denoise(dim, tta=False)
    return [*rows, row("alone", alone[:, :, None], [2])]


def measured(name: str, cases: dict[str, Callable[[], Case]], only: str, *steps: int) -> list[dict[str, Any]]:
    """A row for each image; those whose names do not contain `only` are taken from the last run."""
    file = record.HERE / "results" / f"{name}.json"
    before = {row["image"]: row for row in json.loads(file.read_text())["rows"]} if only else {}
    return [compare(image, case, *steps) if only in image else before[image] for image, case in cases.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="of a joint training of a picture")
    parser.add_argument("--volume-steps", type=int, default=600, help="of each network of U2's volume")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", default="", help="measure only images whose name contains this, keep the others")
    arguments = parser.parse_args()
    explained = (
        "PSNR in dB, the mean over the channels. *Correlation* is the least of any channel with another one, measured "
        "in the noisy image. *Steps* are those of *joint*; *separate* has as many divided by the number of channels: "
        "equal compute. All start from pretrained networks but for *joint* with 2 channels."
    )
    if "development" in arguments.parts:
        rows = measured("channels_development", DEVELOPMENT, arguments.only, arguments.steps, 2)
        text = "# Channels together or each by itself: images that the limit was chosen with\n\n" + explained
        record.write("channels_development", sorted(rows, key=itemgetter("correlation")), text)
    if "held-back" in arguments.parts:
        rows = measured("channels", HELD_BACK, arguments.only, arguments.steps, 6)
        text = "# Channels together or each by itself: images that nothing was chosen with\n\n" + explained
        record.write("channels", sorted(rows, key=itemgetter("correlation")), text)
    if "volume" in arguments.parts:
        text = (
            "# A volume with a bright, a middling and a dim channel\n\nPSNR in dB, 4 time points of 8 planes, photon "
            f"noise of gain 2 and read-out noise of 4. {arguments.volume_steps} steps of each network, "
            "three times as many for *joint*; without test-time augmentation."
        )
        record.write("channels_volume", volume(arguments.volume_steps), text)


if __name__ == "__main__":
    main()
