"""Does the verdict tell the truth? Good and bad results of known error, on images that its limits were not chosen on.

`--calibrate` takes Set12, on which most were. Nothing is told about the noise: it is diagnosed on each noisy image.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import imageio.v3 as imageio
import numpy as np
import record
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from noise2same import Config, Denoiser
from noise2same.networks.pretrained import load_pretrained
from noise2same.noise.diagnose import diagnose
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.checks import judge
from noise2same.quality.metrics import psnr, psnr_affine

Image = NDArray[np.float32]
Way = Callable[[Image], Image]

NOISES: dict[str, Callable[[Image, np.random.Generator], Image]] = {
    "σ = 15": lambda y, rng: gaussian(y, 15, rng),
    "σ = 25": lambda y, rng: gaussian(y, 25, rng),
    "σ = 50": lambda y, rng: gaussian(y, 50, rng),
    "Poisson–Gaussian": lambda y, rng: poisson_gaussian(y, 4.0, 5.0, rng),
}
HARM = 1.0
"""dB below the pretrained network from which on a spoilt result is a bad one; otherwise it is one of the others."""
TRAINED = 4
"""Images on which a network is trained, for 150 steps."""


TEXT = """# Does the verdict tell the truth?

Results with a known error, judged without the clean image; the noise is diagnosed on each noisy image. Limits were
chosen on Set12, Kodak24, Train400 and other images of BSD68 (docs/trust.md). Here are 12 images of BSD68 with four
kinds of noise each, three with correlated noise, and real fluorescence (w2s, fmd), for which PSNR is after an affine
fit. "Two files" are judged without the denoiser at hand, and so are half of the spoilt ones. Those that cost less
than 1 dB are among the others."""


class Pair(NamedTuple):
    """A noisy image and the truth, which may have another scale and offset if `real`."""

    data: str
    clean: Image
    noisy: Image
    real: bool = False


def synthetic(images: list[Image], name: str) -> Iterator[Pair]:
    rng = np.random.default_rng(0)
    for clean in images:
        for noise, add in NOISES.items():
            yield Pair(f"{name}, {noise}", clean, add(clean, rng))


def correlated(images: list[Image], name: str) -> Iterator[Pair]:
    """Noise of σ = 25 that neighbors along X share."""
    rng = np.random.default_rng(1)
    for clean in images:
        noise = gaussian_filter(rng.standard_normal(clean.shape), (0, 1))
        yield Pair(f"{name}, correlated", clean, (clean + 25 * noise / noise.std()).astype(np.float32))


def real() -> Iterator[Pair]:
    """Fluorescence: w2s (white noise), fmd confocal and two-photon (nearly white) and wide-field (correlated)."""
    for name in ("005_0", "010_0", "010_1", "010_2", "020_1", "030_2"):
        yield read("w2s", f"w2s24/avg400/{name}.png", f"w2s24/avg1/{name}.png")
    for name in ("Confocal_FISH", "Confocal_BPAE_G", "TwoPhoton_MICE", "TwoPhoton_BPAE_R"):
        yield read("fmd, confocal and two-photon", f"fmd48/gt/{name}.png", f"fmd48/raw/{name}_1.png")
    for name in ("WideField_BPAE_B", "WideField_BPAE_G", "WideField_BPAE_R"):
        yield read("fmd, wide-field", f"fmd48/gt/{name}.png", f"fmd48/raw/{name}_1.png")


def read(data: str, clean: str, noisy: str) -> Pair:
    arrays = (imageio.imread(record.DATA / name).astype(np.float32) for name in (clean, noisy))
    return Pair(data, *arrays, real=True)


def bad_ways(way: Way, pair: Pair, rng: np.random.Generator) -> dict[str, Way]:
    """What can go wrong with a good way to denoise an image."""
    noisy = pair.noisy
    noise = float(np.std(way(noisy) - noisy))
    tiles = rng.standard_normal([-(-side // 64) for side in noisy.shape]).repeat(64, 0).repeat(64, 1)
    steps = 0.3 * noise * tiles[: noisy.shape[0], : noisy.shape[1]]
    return {
        "output = input": lambda x: x,
        "80 % of the noise left": lambda x: 0.8 * x + 0.2 * way(x),
        "half of the noise left": lambda x: (x + way(x)) / 2,
        "blurred, 1 pixel": lambda x: gaussian_filter(x, 1),
        "blurred, 2 pixels": lambda x: gaussian_filter(x, 2),
        "blurred, 4 pixels": lambda x: gaussian_filter(x, 4),
        "denoised and blurred, 2 pixels": lambda x: gaussian_filter(way(x), 2),
        "brighter by 0.3 σ": lambda x: way(x) + 0.3 * noise,
        "contrast × 0.8": lambda x: 0.8 * way(x) + 0.2 * x.mean(),
        "tiles with steps of 0.3 σ": lambda x: way(x) + steps,
        "shifted by 2 pixels": lambda x: np.roll(way(x), 2, 1),
        "another image": lambda x: way(x)[::-1, ::-1],
    }


def model(**options: Any) -> Denoiser:
    return Denoiser(Config.of(**options))


def by_network(denoiser: Denoiser) -> Way:
    return lambda x: denoiser.denoise(x, "YX", dtype="float32", tta=False)


def by_pretrained() -> Way:
    denoiser = model(method="projected", normalization="image")
    denoiser.network = denoiser.new_network()
    assert load_pretrained(denoiser.network)
    return by_network(denoiser)


def by_classical(method: str, sigma: float) -> Way:
    denoiser = model(method=method, sigma=sigma)
    return lambda x: denoiser.denoise(x, "YX", dtype="float32")


class Judge:
    """Judges results of one noisy image, whose noise is diagnosed once."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.score = psnr_affine if pair.real else psnr
        self.diagnosis = diagnose([pair.noisy[None, None]])
        self.before = self.score(prediction=pair.noisy, truth=pair.clean, data_range=255)

    def row(self, name: str, way: Way, good: bool | None, told: bool = True) -> dict[str, Any]:
        """The verdict with (`told`) or without the denoiser at hand, and the truth."""
        clean, noisy = self.pair.clean, self.pair.noisy
        denoised = way(noisy)
        slope = np.polyfit(denoised.ravel(), clean.ravel(), 1)[0] if self.pair.real else 1.0
        verdict = judge(
            noisy,
            denoised,
            "YX",
            diagnosis=self.diagnosis,
            response=(lambda piece: way(piece[0])[None]) if told else None,
            data_range=255 / slope,
        )
        return {
            "data": self.pair.data,
            "result": name,
            "good": good,
            "verdict": verdict.word,
            "PSNR (dB)": round(self.score(prediction=denoised, truth=clean, data_range=255), 2),
            "of the input": round(self.before, 2),
            "estimated": None if verdict.psnr is None else [round(end, 2) for end in verdict.psnr],
            "reason": verdict.reason,
            "checks": {check.name: round(check.value, 4) for check in verdict.checks},
        }


def rows_of(pairs: list[Pair], way: Way) -> Iterator[dict[str, Any]]:
    """The pretrained network on all images; on every third, other good ways and all that can go wrong."""
    rng = np.random.default_rng(2)
    for i, pair in enumerate(pairs):
        good = True if not pair.real and "correlated" not in pair.data else None
        judges = Judge(pair)
        network = judges.row("pretrained network", way, good)
        yield network
        if not good:
            continue
        yield judges.row("pretrained network, two files", way, good, told=False)
        if i % 3:
            continue
        level = judges.diagnosis.sigma
        yield judges.row("NLM, two files", by_classical("nlm", level), True, told=False)
        if i % 12 == 0:
            yield judges.row("BM3D, two files", by_classical("bm3d", level), True, told=False)
        spoilt = {"NLM, too strong": by_classical("nlm", 3 * level), **bad_ways(way, pair, rng)}
        for name, worse in spoilt.items():
            row = judges.row(name, worse, False, told=bool(i % 2))
            yield row | {"good": None if row["PSNR (dB)"] > network["PSNR (dB)"] - HARM else False}
    synthesised = [pair for pair in pairs if any(noise in pair.data for noise in NOISES)]
    for pair in synthesised[1 :: len(synthesised) // TRAINED + 1]:
        trained = model(steps=150).fit(pair.noisy, "YX", progress=False)
        yield Judge(pair).row("trained, 150 steps", by_network(trained), True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibrate", action="store_true", help="on Set12, and write nothing")
    calibrate = parser.parse_args().calibrate
    torch.set_num_threads(1)
    name = "Set12" if calibrate else "BSD68"
    images = record.grey_images(f"bsd/{name}")
    images = images if calibrate else images[1::6]
    pairs = [*synthetic(images, name), *correlated(images[:3], name)]
    if not calibrate:
        pairs += real()
    rows = []
    for row in rows_of(pairs, by_pretrained()):
        rows.append(row)
        print(row, flush=True)
    if not calibrate:
        record.write("trust", [*summary(rows)], TEXT, cases=rows)
    else:
        print(*summary(rows), sep="\n")


def summary(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One line for all good and all bad ones, then for each kind of them, and for others by what they are."""
    for good, title in ((True, "all good ones"), (False, "all bad ones")):
        yield line(title, [row for row in rows if row["good"] is good])
    yield line("all that are worse than their input", [row for row in rows if row["PSNR (dB)"] <= row["of the input"]])
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        spoilt = "spoilt, but by less than 1 dB"
        other = spoilt if row["result"] != "pretrained network" else f"pretrained network on {row['data']}"
        name = {True: f"good: {row['result']}", False: f"bad: {row['result']}", None: other}[row["good"]]
        groups.setdefault(name, []).append(row)
    for name, members in groups.items():
        yield line(name, members)


def line(group: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    words = [row["verdict"] for row in rows]
    sure = [row for row in rows if row["verdict"] == "trust" and row["estimated"] is not None]
    errors = [abs(row["estimated"][0] - row["PSNR (dB)"]) for row in sure]
    inside = [row["estimated"][1] <= row["PSNR (dB)"] <= row["estimated"][2] for row in sure]
    return {
        "result": group,
        "cases": len(rows),
        "trust": words.count("trust"),
        "check": words.count("check"),
        "do not trust": words.count("do not trust"),
        "mean gain (dB)": round(float(np.mean([row["PSNR (dB)"] - row["of the input"] for row in rows])), 2)
        if rows
        else None,
        "mean abs. error of the estimate where trusted (dB)": round(float(np.mean(errors)), 2) if errors else None,
        "truth in its 95 % interval": f"{np.mean(inside):.0%}" if inside else None,
    }


if __name__ == "__main__":
    main()
