"""Does the verdict tell the truth? Good and bad results of known error, by several denoisers and on many kinds of data.

`--calibrate` takes the images on which limits are chosen, and writes nothing. The verdict is told nothing about the
noise, which is diagnosed on each noisy image. Results are cached in a temporary folder: a second run takes seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import imageio.v3 as imageio
import numpy as np
import record
import tifffile
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from skimage.restoration import denoise_tv_chambolle, denoise_wavelet

from noise2same import Config, Denoiser
from noise2same.networks import pretrained
from noise2same.noise.diagnose import diagnose
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.checks import WORDS, judge

Image = NDArray[np.float32]
"""(C, [Z,] Y, X)"""
Way = Callable[[Image], Image]

CACHE = Path(tempfile.gettempdir()) / "noise2same-trust"
SIDE, COLOUR_SIDE = 256, 192
"""Pixels along Y and X that are cut out of the middle of an image: BM3D in colour is slow."""
SHARE, DECIBELS = 0.6, 3.0
"""A good result gains at least this share of the dB that the best one gains.

A bad one is no better than its input, or gains less than this share and is at least so many dB below the best.
"""
MIN_GAIN = 0.5
"""dB that the best result must gain for there to be good ones."""
TRAINED = 6
"""Every sixth image is also denoised by a network that is trained on it for a few steps."""


TEXT = """# Does the verdict tell the truth?

Results of known error, judged without the clean image.
Good ones gain at least 60 % of the dB that the best result of that image gains.
Bad ones are no better than their input, or gain less than that and are 3 dB or more below the best.
Results that were spoilt on purpose are never good.
Results in between are judged too, but are neither.
Our own results, and half of the spoilt ones, are judged with the denoiser at hand; the others as two files.
Limits were chosen on other images (`--calibrate`): Train400, odd pictures of Kodak24, a part of CBSD68, the other half
of w2s, fmd and camera, and another volume."""
CHECKS = """Each check by itself: on how many good and bad results it says *check* or *do not trust*."""
GROUPS = """The same by denoiser and kind of data: good results found (false alarms), bad ones found."""
PSNRS = """The estimated PSNR of our own results: the pretrained network's, or trained for 60 steps; of volumes, 150."""


class Pair(NamedTuple):
    """A noisy image and the truth, in the same units."""

    kind: str
    truth: Image
    noisy: NDArray[Any]
    """As it is in its file: float32, or uint8."""
    frames: int = 0
    """Of which the truth is the mean, and so has some noise itself; 0 if it has none."""
    only_ours: bool = False
    """Whether only our own result is judged, for the PSNR."""


def pairs(calibrate: bool) -> Iterator[Pair]:
    """Images of all kinds, for choosing limits or for the report: none is in both."""
    rng = np.random.default_rng(int(calibrate))
    every = record.grey_images("bsd/Train400" if calibrate else "bsd/BSD68")
    grey = [middle(image[None], SIDE) for image in (every[5::15] if calibrate else every[::3])][:24]
    for i, truth in enumerate(grey[:12]):
        yield Pair("grey photograph", truth, gaussian(truth, (15, 25, 50)[i % 3], rng))
    for i, truth in enumerate(colour_images(calibrate)):
        noisy = gaussian(truth, (15, 25, 50)[i % 3], rng)
        yield Pair("colour photograph", truth, noisy)
        yield Pair("colour photograph, 8 bits", truth, noisy.clip(0, 255).round().astype(np.uint8))
    for i, truth in enumerate(grey[10:22]):
        yield Pair("photon noise", truth, poisson_gaussian(truth, (1.0, 4.0, 10.0)[i % 3], (1.0, 5.0)[i % 2], rng))
    for i, truth in enumerate(grey[18:]):
        shared = gaussian_filter(rng.standard_normal(truth.shape), (0, (0, 1)[i % 2], 1))
        yield Pair("correlated noise", truth, (truth + 25 * shared / shared.std()).astype(np.float32))
    more = every[6::9][:44] if calibrate else [image for i, image in enumerate(every) if i % 3]
    for i, image in enumerate(more):
        truth = middle(image[None], SIDE)
        yield Pair("grey photograph", truth, gaussian(truth, (10, 15, 25, 50)[i % 4], rng), only_ours=True)
    for i, truth in enumerate(colour_images(calibrate)):
        yield Pair("colour photograph", truth, gaussian(truth, (35, 10, 15)[i % 3], rng), only_ours=True)
    half = slice(calibrate, None, 2)
    for path in sorted((record.DATA / "w2s24/avg1").glob("*.png"))[half][::4]:
        yield stretched("fluorescence (w2s)", path.parent.parent / "avg400" / path.name, path, 400)
    for path in sorted((record.DATA / "fmd48/gt").glob("*.png"))[half]:
        kind = "fluorescence (fmd, wide-field)" if "Wide" in path.stem else "fluorescence (fmd, confocal, two-photon)"
        for shot in (1, 2):
            yield stretched(kind, path, record.DATA / f"fmd48/raw/{path.stem}_{shot}.png", 50)
    for path in sorted((record.DATA / "camera").glob("*_mean.JPG"))[half][::3]:
        noisy = path.with_name(path.name.replace("mean", "real"))
        yield Pair("camera JPEG", read(path, COLOUR_SIDE).astype(np.float32), read(noisy, COLOUR_SIDE))
    volume = tifffile.imread(record.DATA / "real3d" / ("neuron_25pct.tif" if calibrate else "pollen.tif"))
    truth = middle(volume[None, 12:24].astype(np.float32), 128)
    truth *= 255 / np.quantile(truth, 0.999)
    for sigma in (15, 40):
        yield Pair("volume", truth, gaussian(truth, sigma, rng))


def stretched(kind: str, truth: Path, noisy: Path, frames: int) -> Pair:
    """A mean of many frames and one of them, to whose contrast the mean is fitted: theirs can differ."""
    mean, single = read(truth).astype(np.float32), read(noisy)
    slope, offset = np.polyfit(mean.ravel(), single.ravel(), 1)
    return Pair(kind, slope * mean + offset, single, frames)


def colour_images(calibrate: bool) -> list[Image]:
    """Half of Kodak24, and of CBSD68 those that the report has not in grey."""
    kodak = sorted((record.DATA / "color/Kodak24").glob("*.png"))[0 if calibrate else 1 :: 2][::2]
    others = sorted((record.DATA / "color/CBSD68").glob("*.png"))[1::3][::5] if calibrate else []
    return [read(path, COLOUR_SIDE).astype(np.float32) for path in [*kodak, *others]]


def read(path: Path, side: int = SIDE) -> NDArray[np.uint8]:
    pixels = imageio.imread(path)
    return middle(np.moveaxis(pixels, -1, 0) if pixels.ndim == 3 else pixels[None], side)


def middle(image: NDArray[Any], side: int) -> NDArray[Any]:
    starts = [max(0, (length - side) // 2) for length in image.shape[-2:]]
    return image[..., starts[0] : starts[0] + side, starts[1] : starts[1] + side].copy()


def ways(pair: Pair, number: int) -> Iterator[tuple[str, Way, bool]]:
    """Denoisers by name, and whether the result is spoilt on purpose, our own first."""
    sigma = float(np.std(pair.noisy - pair.truth))
    axes = "CZYX"[-pair.noisy.ndim :] if pair.noisy.ndim == 4 else "CYX"
    flat = pair.noisy.ndim == 3
    own = network(pair, axes, 0 if flat else 150)
    yield "ours", own, False
    if pair.only_ours:
        return
    if flat and number % TRAINED == 0:
        yield "ours, trained for 60 steps", network(pair, axes, 60), False
    yield "NLM", classical("nlm", sigma, axes), False
    yield "TV", total_variation(1.0, sigma), False
    yield "wavelets", wavelets(sigma, "BayesShrink"), False
    if flat:
        yield "BM3D", classical("bm3d", sigma, axes), False
    for strength in (0.3, 3):
        yield f"NLM, {strength} σ", classical("nlm", strength * sigma, axes), False
        yield f"TV, {strength} σ", total_variation(strength, sigma), False
    yield "wavelets, universal threshold", wavelets(2 * sigma, "VisuShrink"), False
    rng = np.random.default_rng(number)
    tiles = rng.standard_normal([1, *(-(-side // 64) for side in pair.noisy.shape[-2:])]).repeat(64, 1).repeat(64, 2)
    steps = (sigma * tiles[:, : pair.noisy.shape[-2], : pair.noisy.shape[-1]]).astype(np.float32)
    for name, way in spoilt(own, sigma, steps).items():
        yield name, way, True


def spoilt(way: Way, sigma: float, steps: Image) -> dict[str, Way]:
    """What can go wrong with a good way to denoise an image."""
    corner = np.add.outer(*(np.arange(side) for side in steps.shape[1:])) > sum(steps.shape[1:]) / 2
    return {
        "output = input": lambda x: x,
        "80 % of the noise left": lambda x: 0.8 * x + 0.2 * way(x),
        "half of the noise left": lambda x: (x + way(x)) / 2,
        "input blurred, 1 pixel": lambda x: blur(x, 1),
        "input blurred, 2 pixels": lambda x: blur(x, 2),
        "input blurred, 4 pixels": lambda x: blur(x, 4),
        "blurred, 2 pixels": lambda x: blur(way(x), 2),
        "blurred in one half": lambda x: np.where(fitting(corner[None], x)[0], blur(way(x), 4), way(x)),
        "brighter by 0.6 σ": lambda x: way(x) + 0.6 * sigma,
        "contrast × 0.7": lambda x: 0.7 * way(x) + 0.3 * x.mean(axis=(-1, -2), keepdims=True),
        "tiles with steps of 0.6 σ": lambda x: way(x) + 0.6 * fitting(steps, x),
        "shifted by 2 pixels": lambda x: np.roll(way(x), 2, -1),
        "another image": lambda x: way(x)[..., ::-1, ::-1],
    }


def fitting(plane: NDArray[Any], x: Image) -> NDArray[Any]:
    """A plane (1, Y, X), to be combined with images (C, [Z,] Y, X) or their corners."""
    return plane[(None,) * (x.ndim - 3)][..., : x.shape[-2], : x.shape[-1]]


def blur(x: Image, pixels: float) -> Image:
    return gaussian_filter(x, [0.0] * (x.ndim - 2) + [pixels] * 2)


def network(pair: Pair, axes: str, steps: int) -> Way:
    """The pretrained network as it is, or one that is trained for so many steps."""
    weights = hashlib.sha1(b"".join(sorted(path.read_bytes() for path in pretrained_files()))).hexdigest()
    made: list[Denoiser] = []

    def way(x: Image) -> Image:
        if not made:
            torch.manual_seed(0)
            made.append(
                Denoiser(Config.of(steps=steps)).fit(pair.noisy.astype(np.float32), axes, progress=False)
                if steps
                else Denoiser(Config(minutes=0)).use_pretrained(pair.noisy.astype(np.float32), axes)
            )
        return np.asarray(made[0].denoise(x, axes, dtype="float32", tta=False))

    return cached(f"network {steps} {weights} {hashed(pair.noisy) if steps else ''}", way)


def pretrained_files() -> list[Path]:
    return [*(Path(pretrained.__file__).parent / "weights").glob("*.safetensors")]


def classical(method: str, sigma: float, axes: str) -> Way:
    return cached(
        f"{method} {sigma:.4g}",
        lambda x: Denoiser(Config.of(method=method, sigma=sigma)).denoise(x, axes, dtype="float32"),
    )


def total_variation(strength: float, sigma: float) -> Way:
    """Chambolle's; a weight of σ is sensible."""
    return lambda x: 255 * denoise_tv_chambolle(x / 255, strength * sigma / 255, channel_axis=0).astype(np.float32)


def wavelets(sigma: float, method: str) -> Way:
    return lambda x: (
        255
        * denoise_wavelet(x / 255, sigma / 255, method=method, rescale_sigma=False, channel_axis=0).astype(np.float32)
    )


def hashed(x: Image) -> str:
    return hashlib.sha1(np.ascontiguousarray(x).tobytes()).hexdigest()


def cached(name: str, way: Way) -> Way:
    """The same way, with its results on disk."""

    def remembered(x: Image) -> Image:
        path = CACHE / (hashlib.sha1(f"{name} {x.shape} {hashed(x)}".encode()).hexdigest() + ".npy")
        if not path.exists():
            CACHE.mkdir(exist_ok=True)
            np.save(path, way(x).astype(np.float32))
        return np.load(path)

    return remembered


def decibel(pair: Pair, image: Image) -> float:
    """PSNR for a range of 255."""
    return float(20 * np.log10(255 / np.sqrt(np.mean((image - pair.truth) ** 2))))


def worst_psnr(pair: Pair, image: Image) -> float:
    """PSNR of the worst channel for a range of 255; the truth's own noise does not count."""
    error, noise = (((one - pair.truth) ** 2).reshape(len(image), -1).mean(1) for one in (image, pair.noisy))
    return float(-10 * np.log10((error - (noise / pair.frames if pair.frames else 0)).max() / 255**2))


def rows_of(pair: Pair, number: int) -> list[dict[str, Any]]:
    """The verdict on each result of an image, and the truth."""
    axes, noisy = "CZYX" if pair.noisy.ndim == 4 else "CYX", pair.noisy.astype(np.float32)
    diagnosis, before, rows = diagnose([pair.noisy[None]]), decibel(pair, noisy), []
    for i, (name, way, is_spoilt) in enumerate(ways(pair, number)):
        image = way(noisy)
        told = name.startswith("ours") or (is_spoilt and (number + i) % 2 == 0)
        verdict = judge(
            pair.noisy,
            image,
            axes,
            diagnosis=diagnosis,
            response=way if told else None,
            data_range=255,
            photograph="JPEG" in pair.kind or "8 bits" in pair.kind,
        )
        row = {"kind": pair.kind, "name": name, "spoilt": is_spoilt, "gain": decibel(pair, image) - before}
        row |= {"word": verdict.word, "checks": {check.name: check.word for check in verdict.checks}}
        rows.append(row | {"psnr": verdict.psnr, "true": worst_psnr(pair, image), "number": number})
    best = max(row["gain"] for row in rows if not row["spoilt"])
    for row in rows:
        enough = row["gain"] >= SHARE * best
        bad = row["gain"] <= 0 or (not enough and row["gain"] <= best - DECIBELS)
        good = not row["spoilt"] and best >= MIN_GAIN and enough
        row["good"] = None if pair.only_ours else False if bad else True if good else None
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibrate", action="store_true", help="on the images for choosing limits; writes nothing")
    calibrate = parser.parse_args().calibrate
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for number, pair in enumerate(pairs(calibrate)):
        rows += rows_of(pair, number)
        print(number, pair.kind, flush=True)
    for row in rows:
        wrong = {True: "do not trust", False: "trust", None: ""}[row["good"]]
        if row["word"] == wrong:
            print("WRONG", row)
    tables = [verdicts(rows), checks(rows), checks_by_group(rows), psnrs(rows)]
    if calibrate:
        print(*map(record.table, tables), sep="\n\n")
    else:
        parts = zip([TEXT, CHECKS, GROUPS], map(record.table, tables), strict=False)
        text = "\n\n".join([*(part for pair in parts for part in pair), PSNRS])
        record.write("trust", tables[-1], text, verdicts=tables[0], checks=tables[1], checks_by_group=tables[2])


def group(row: dict[str, Any]) -> str:
    """Which denoiser made it."""
    if row["spoilt"]:
        return "spoilt on purpose"
    name, _, wrong = row["name"].partition(", ")
    return f"{name}, too weak or too strong" if wrong and name != "ours" else row["name"]


def groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """All results, those of each denoiser, and those on each kind of data."""
    found = {"all": rows}
    for row in rows:
        found.setdefault(group(row), []).append(row)
    for row in rows:
        found.setdefault(row["kind"], []).append(row)
    return found


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """False alarms and misses in all, by denoiser and by kind of data."""
    table = []
    for name, members in groups(rows).items():
        line: dict[str, Any] = {"results": name}
        for good, title in ((True, "good"), (False, "bad")):
            words = [row["word"] for row in members if row["good"] is good]
            line[title] = len(words)
            line |= {f"{title}: {word}": words.count(word) for word in WORDS}
        table.append(line)
    return table


def checks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often each check alarms on good results, finds bad ones, and is the only one that does."""
    table = []
    for name in dict.fromkeys(name for row in rows for name in row["checks"]):
        asked = [row for row in rows if name in row["checks"]]
        found = [row for row in asked if row["checks"][name] != "trust"]
        alone = [row for row in found if sum(word != "trust" for word in row["checks"].values()) == 1]
        line: dict[str, Any] = {"check": name}
        for good, title in ((True, "good"), (False, "bad")):
            line[title] = sum(row["good"] is good for row in asked)
            line[f"{title} ones found"] = sum(row["good"] is good for row in found)
            line[f"{title} ones found by it alone"] = sum(row["good"] is good for row in alone)
        line["good ones called do not trust"] = sum(
            row["good"] is True and row["checks"][name] == WORDS[-1] for row in asked
        )
        table.append(line)
    return table


def checks_by_group(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """False alarms among good results and what was found of bad ones, by each check on each group."""
    names = list(dict.fromkeys(name for row in rows for name in row["checks"]))
    table = []
    for title, members in groups(rows).items():
        line = {"results": title}
        for name in names:
            asked = [row for row in members if name in row["checks"] and row["good"] is not None]
            cells = []
            for good in (True, False):
                words = [row["checks"][name] for row in asked if row["good"] is good]
                cells.append(f"{sum(word != 'trust' for word in words)}/{len(words)}")
            line[name] = ", ".join(cells)
        table.append(line)
    return table


def psnrs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Error and coverage of the estimated PSNR of our own results, and of all whose denoiser is at hand."""
    told = [row for row in rows if "closer to the clean image" in row["checks"]]
    own = [row for row in told if not row["spoilt"]]
    kinds = {kind: [row for row in own if row["kind"] == kind] for kind in dict.fromkeys(row["kind"] for row in own)}
    kinds |= {"all": own, "spoilt on purpose": [row for row in told if row["spoilt"]]}
    table = []
    for name, members in kinds.items():
        given = [row for row in members if row["psnr"] is not None]
        errors = [abs(row["psnr"][0] - row["true"]) for row in given]
        inside = [row["psnr"][1] <= row["true"] <= row["psnr"][2] for row in given]
        table.append(
            {
                "our results on": name,
                "results": len(members),
                "PSNR given": len(given),
                "mean absolute error (dB)": round(float(np.mean(errors)), 2) if errors else None,
                "truth in its 95 % interval": f"{np.mean(inside):.0%}" if inside else None,
            }
        )
    return table


if __name__ == "__main__":
    main()
