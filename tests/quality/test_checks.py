"""What is wrong with a denoised image is found without the clean one, and a good one is trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from skimage import data

from noise2same import Config, Denoiser
from noise2same.errors import InputError
from noise2same.networks.pretrained import load_pretrained
from noise2same.noise.diagnose import Diagnosis
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.checks import Check, Verdict, judge
from noise2same.quality.metrics import psnr

Image = NDArray[np.float32]
Way = Callable[[Image], Image]
SIGMA = 25.0


def known(sigma: float = SIGMA, a: float = 0.0, b: float | None = None, **more: Any) -> Diagnosis:
    """The diagnosis of noise with variance a·y + b, b = σ² unless given."""
    none: dict[str, tuple[float, ...]] = {"Y": (0.0, 0.0), "X": (0.0, 0.0)}
    b = sigma**2 if b is None else b
    kind = "poisson-gaussian" if a else "gaussian"
    plain = Diagnosis(kind, sigma, 0.4, a, b, False, none, {"Y": 0, "X": 0}, 1.0, {}, "")
    return replace(plain, **more)


def network(axes: str = "YX", channels: int = 1) -> Way:
    """The starter network as it is, for pieces with a channel axis in front."""
    model = Denoiser(Config(normalization="image", blend=False))
    model.axes, model.channels = axes, channels
    model.network = model.new_network()
    assert load_pretrained(model.network)
    return lambda piece: model.denoise(piece, "CYX", dtype="float32", tta=False)


@pytest.fixture(scope="module")
def denoiser() -> Way:
    return network()


@pytest.fixture(scope="module")
def noisy() -> Image:
    return gaussian(data.camera(), SIGMA, np.random.default_rng(0))


@pytest.fixture(scope="module")
def denoised(noisy: Image, denoiser: Way) -> Image:
    return denoiser(noisy[None])[0]


def check(verdict: Verdict, name: str) -> Check:
    return next(check for check in verdict.checks if check.name == name)


def test_a_good_result_is_trusted_and_its_psnr_known(noisy: Image, denoised: Image, denoiser: Way) -> None:
    verdict = judge(noisy, denoised, "YX", diagnosis=known(), response=denoiser, data_range=255)
    assert verdict.word == "trust", verdict.reason
    assert {check.word for check in verdict.checks} == {"trust"}
    assert verdict.psnr is not None
    truth = psnr(data.camera(), denoised)
    estimate, low, high = verdict.psnr
    assert estimate == pytest.approx(truth, abs=0.5)
    assert low < truth < high
    assert "closer to the clean image" in verdict.reason


def test_a_level_that_is_a_little_wrong_hardly_moves_the_psnr(noisy: Image, denoised: Image, denoiser: Way) -> None:
    truth = psnr(data.camera(), denoised)
    for wrong in (0.98, 1.02):
        verdict = judge(noisy, denoised, "YX", diagnosis=known(wrong * SIGMA), response=denoiser, data_range=255)
        assert verdict.psnr is not None
        assert verdict.psnr[0] == pytest.approx(truth, abs=1.0)
        assert verdict.psnr[1] < truth < verdict.psnr[2]


def test_without_the_denoiser_there_is_no_psnr(noisy: Image, denoised: Image) -> None:
    verdict = judge(noisy, denoised, "YX", diagnosis=known())
    assert verdict.word == "trust"
    assert verdict.psnr is None


def test_another_denoiser_than_that_of_the_result_is_not_asked(noisy: Image, denoised: Image) -> None:
    verdict = judge(noisy, denoised, "YX", diagnosis=known(), response=lambda piece: gaussian_filter(piece, (0, 3, 3)))
    assert verdict.psnr is None


def tiles(shape: tuple[int, ...], side: int = 64) -> Image:
    """Steps of random height at the borders of square tiles."""
    heights = np.random.default_rng(1).standard_normal([-(-length // side) for length in shape])
    return heights.repeat(side, 0).repeat(side, 1)[: shape[0], : shape[1]]


FAULTS: dict[str, tuple[str, Callable[[Image, Image], Image]]] = {  # check that must find it, and how it is made
    "nothing was done": ("noise removed", lambda x, f: x),
    "little was done": ("noise removed", lambda x, f: 0.8 * x + 0.2 * f),
    "a third of the noise is left": ("noise removed", lambda x, f: 0.33 * x + 0.67 * f),
    "coarse noise is left": ("noise removed", lambda x, f: f + gaussian_filter(x - f, 1)),
    "blurred": ("detail kept", lambda x, f: gaussian_filter(x, 2)),
    "fine structure lost": ("detail kept", lambda x, f: gaussian_filter(f, 1.5)),
    "fine structure lost in a corner": (
        "detail kept",
        lambda x, f: np.where(np.add.outer(np.arange(512), np.arange(512)) > 650, gaussian_filter(f, 2), f),
    ),
    "brighter": ("brightness kept", lambda x, f: f + 0.2 * SIGMA),
    "bright parts too dark": ("brightness kept", lambda x, f: np.minimum(f, 0.9 * f + 10)),
    "tiles do not fit": ("no tile borders", lambda x, f: f + 0.3 * SIGMA * tiles(f.shape)),
    "another image": ("detail kept", lambda x, f: f[::-1, ::-1]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_by_its_check(fault: str, noisy: Image, denoised: Image) -> None:
    name, spoil = FAULTS[fault]
    verdict = judge(noisy, spoil(noisy, denoised), "YX", diagnosis=known())
    assert verdict.word != "trust"
    found = check(verdict, name)
    assert (found.word != "trust" and found.advice in verdict.advice) or verdict.word != found.word, found
    clean = judge(noisy, denoised, "YX", diagnosis=known())
    assert abs(found.value - check(clean, name).value) > 0.05


@pytest.mark.parametrize("fault", ["nothing was done", "another image"])
def test_what_is_no_better_than_the_input_is_not_to_be_trusted(
    fault: str, noisy: Image, denoised: Image, denoiser: Way
) -> None:
    _, spoil = FAULTS[fault]
    for response in (None, lambda piece: spoil(piece[0], denoiser(piece)[0])[None]):
        verdict = judge(noisy, spoil(noisy, denoised), "YX", diagnosis=known(), response=response)
        assert verdict.word == "do not trust"


def test_photon_noise_is_not_taken_for_structure(denoiser: Way) -> None:
    clean = data.camera()
    noisy = poisson_gaussian(clean, 4.0, 5.0, np.random.default_rng(0))
    denoised = denoiser(noisy[None])[0]
    diagnosis = known(float(np.sqrt(4 * clean.mean() + 25)), a=4.0, b=25.0)
    verdict = judge(noisy, denoised, "YX", diagnosis=diagnosis, response=denoiser, data_range=255)
    assert verdict.word == "trust", verdict.reason
    assert verdict.psnr is None  # on real photon noise it was several dB off
    gain = psnr(clean, denoised) - psnr(clean, noisy)
    assert 1 < check(verdict, "closer to the clean image").value < gain


UNUSUAL = {  # what is unusual about the noise, and a word of what the verdict and its advice say
    "impulse": (known(kind="impulse", confidence=0.2), "replaced", "median"),
    "clipped": (known(kind="clipped", confidence=0.2), "cut off", "offset"),
    "quantised": (known(kind="quantised", confidence=0.2), "steps", "more bits"),
    "unknown": (known(kind="unknown", confidence=0.2), "no model", "raw file"),
    "unsure": (known(confidence=0.2), "too few flat areas", "--sigma"),
    "correlated": (
        known(correlated=True, correlation={"Y": (0.0,), "X": (0.4, 0.1)}, extent={"Y": 0, "X": 2}),
        "share noise",
        "--noise-extent",
    ),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_noise_is_a_reason_to_look_but_never_to_distrust(
    case: str, noisy: Image, denoised: Image, denoiser: Way
) -> None:
    diagnosis, words, advice = UNUSUAL[case]
    verdict = judge(noisy, denoised, "YX", diagnosis=diagnosis, response=denoiser)
    assert verdict.word == "check" and words in verdict.reason and advice in verdict.advice
    assert verdict.psnr is None or case == "unsure"
    for _, spoil in FAULTS.values():
        assert judge(noisy, spoil(noisy, denoised), "YX", diagnosis=diagnosis).word == "check"


def test_a_photograph_is_told_of_its_raw_file(noisy: Image, denoised: Image) -> None:
    verdict = judge(noisy, denoised, "YX", diagnosis=UNUSUAL["correlated"][0], photograph=True)
    assert verdict.word == "check" and "photographs" in verdict.reason and "raw file" in verdict.advice


def test_every_warning_says_what_to_do_and_no_praise_does(noisy: Image, denoised: Image, denoiser: Way) -> None:
    verdicts = [judge(noisy, spoil(noisy, denoised), "YX", diagnosis=known()) for _, spoil in FAULTS.values()]
    verdicts += [judge(noisy, denoised, "YX", diagnosis=diagnosis) for diagnosis, _, _ in UNUSUAL.values()]
    verdicts += [judge(noisy[:20, :20], denoised[:20, :20], "YX", diagnosis=known())]
    verdicts += [judge(noisy, noisy, "YX", diagnosis=known(), response=lambda piece: piece)]
    verdicts += [judge(noisy, denoised, "YX", diagnosis=known(), response=denoiser)]
    warned = {check.name for verdict in verdicts for check in verdict.checks if check.word != "trust"}
    assert warned == {check.name for verdict in verdicts for check in verdict.checks} and len(warned) == 6
    for verdict in verdicts:
        assert bool(verdict.advice) == (verdict.word != "trust")
        for found in verdict.checks:
            assert bool(found.advice) == (found.word != "trust"), found
            assert found.advice == "" or found.advice.endswith(".")


def test_correlated_noise_alone_is_not_called_lost_signal() -> None:
    noise = gaussian_filter(np.random.default_rng(0).standard_normal((256, 256)), (0, 1), mode="wrap")
    noise *= SIGMA / noise.std()
    lags = tuple(float((noise * np.roll(noise, lag, 1)).mean() / SIGMA**2) for lag in range(1, 8))
    clean = data.camera()[::2, ::2].astype(np.float64)
    shared = known(correlated=True, correlation={"Y": (0.0,), "X": lags}, extent={"Y": 0, "X": 3})
    assert check(judge(clean + noise, clean, "YX", diagnosis=shared), "detail kept").word == "trust"
    assert check(judge(clean + noise, clean, "YX", diagnosis=known()), "detail kept").word != "trust"


def test_the_worst_channel_is_named_and_its_psnr_given() -> None:
    clean = data.chelsea()[:256, 100:356].astype(np.float32)
    noisy = gaussian(clean, 10.0, np.random.default_rng(0))
    denoiser = network("YXC", 3)
    denoised = np.moveaxis(denoiser(np.moveaxis(noisy, -1, 0)), 0, -1)
    verdict = judge(noisy, denoised, "YXC", diagnosis=known(10.0), response=denoiser, data_range=255)
    assert verdict.word == "trust", verdict.reason
    assert verdict.psnr is not None
    worst = min(psnr(clean[..., c], denoised[..., c], data_range=255) for c in range(3))
    assert verdict.psnr[0] == pytest.approx(worst, abs=0.7)
    assert verdict.psnr[1] < worst < verdict.psnr[2]
    denoised[..., 1] += 6
    assert "in channel 2." in check(judge(noisy, denoised, "YXC", diagnosis=known(10.0)), "brightness kept").sentence
    verdict = judge(noisy, denoised, "YXC", diagnosis=known(10.0), names=("DAPI", "GFP", "Cy5"))
    assert verdict.word != "trust"
    assert "in GFP." in check(verdict, "brightness kept").sentence and "in GFP." in verdict.reason


def test_volumes() -> None:
    z, y, x = np.mgrid[:20, :150, :150]
    clean = 100 * np.exp(-(((z - 9) / 12) ** 2) - ((y - 70) / 40) ** 2 - ((x - 60) / 40) ** 2)
    volume = gaussian(clean, SIGMA, np.random.default_rng(0))

    def smooth(piece: Image) -> Image:
        return gaussian_filter(piece, (0, 1, 2, 2))

    diagnosis = known(correlation={"Z": (0.0,), "Y": (0.0,), "X": (0.0,)})
    denoised = smooth(volume[None])[0]
    verdict = judge(volume, denoised, "ZYX", diagnosis=diagnosis, response=smooth, data_range=100)
    assert verdict.word == "trust", verdict.reason
    gain = psnr(clean, denoised, data_range=100) - psnr(clean, volume, data_range=100)
    assert 10 < check(verdict, "closer to the clean image").value < gain
    assert verdict.psnr is None  # the error is too small a part of the noise to be measured
    assert judge(volume, volume, "ZYX", diagnosis=diagnosis).word == "do not trust"
    assert judge(volume[:1], denoised[:1], "TYX", diagnosis=known()).word == "trust"


@pytest.mark.parametrize("shape", [(20, 20), (5, 90), (16, 16)])
def test_tiny_images_are_judged_with_care(shape: tuple[int, int], noisy: Image, denoised: Image) -> None:
    small = tuple(slice(length) for length in shape)
    verdict = judge(noisy[small], denoised[small], "YX", diagnosis=known(), response=lambda piece: piece)
    assert verdict.word != "trust"
    assert "too small" in check(verdict, "noise as assumed").sentence


def test_unknown_pixels_do_not_count(noisy: Image, denoised: Image, denoiser: Way) -> None:
    holes, passed = noisy.copy(), denoised.copy()
    holes[40:60, 100:300] = passed[40:60, 100:300] = np.nan
    holes[300, 17] = passed[300, 17] = np.inf
    verdict = judge(holes, passed, "YX", diagnosis=known(), response=denoiser, data_range=255)
    whole = judge(noisy, denoised, "YX", diagnosis=known(), response=denoiser, data_range=255)
    assert verdict.word == "trust", verdict.reason
    assert verdict.psnr is not None
    assert whole.psnr is not None
    assert verdict.psnr[0] == pytest.approx(whole.psnr[0], abs=0.3)


def test_of_a_large_image_the_denoiser_sees_a_few_pieces(noisy: Image) -> None:
    large = np.tile(noisy, (3, 3))
    sizes = []

    def blur(piece: Image) -> Image:
        sizes.append(piece.size)
        return gaussian_filter(piece, (0, 1, 1))

    assert judge(large, blur(large[None])[0], "YX", diagnosis=known(), response=blur).psnr is not None
    assert sum(sizes[1:]) <= 2 * 2**18


def test_bad_input(noisy: Image, denoised: Image) -> None:
    with pytest.raises(InputError, match="shape"):
        judge(noisy, denoised[1:], "YX", diagnosis=known())
    with pytest.raises(InputError, match="axes"):
        judge(noisy, denoised, "ZYX", diagnosis=known())
    with pytest.raises(InputError, match="known pixels"):
        judge(np.full_like(noisy, np.nan), denoised, "YX", diagnosis=known())


def test_no_noise_nothing_to_judge_by(noisy: Image) -> None:
    verdict = judge(noisy, noisy, "YX", diagnosis=known(0.0))
    assert verdict.word == "check"
    assert "could not be measured" in verdict.reason


def test_the_worst_channel_counts() -> None:
    """A blur helps a channel with much noise and ruins one with little; on average it helps."""
    rng, clean = np.random.default_rng(0), data.camera().astype(np.float32)
    levels = (60.0, 3.0)
    noisy = np.stack([gaussian(one, level, rng) for one, level in zip((clean / 4, clean), levels, strict=True)])
    found = tuple({"sigma": level, "a": 0.0, "b": level**2} for level in levels)
    verdict = judge(
        noisy,
        blurred(noisy),
        "CYX",
        diagnosis=known(float(np.sqrt(np.mean(np.square(levels)))), channels=found),
        response=blurred,
        data_range=255,
    )
    closer = check(verdict, "closer to the clean image")
    assert closer.value < -5 and closer.word == "do not trust" and "channel 2" in closer.sentence
    assert verdict.psnr is None


def blurred(piece: Image) -> Image:
    """Each channel of (C, Y, X) smoothed."""
    return gaussian_filter(piece, (0, 1.5, 1.5))


@pytest.mark.parametrize("factor", [0.5, 2.5])
def test_a_level_that_the_residual_contradicts_gives_no_psnr(
    noisy: Image, denoised: Image, denoiser: Way, factor: float
) -> None:
    verdict = judge(noisy, denoised, "YX", diagnosis=known(factor * SIGMA), response=denoiser, data_range=255)
    assert verdict.psnr is None and verdict.word != "trust"


def test_noise_that_is_left_bounds_the_improvement(noisy: Image, denoised: Image, denoiser: Way) -> None:
    """Half of the noise is left, so the result is at most 6 dB better, whatever a misjudged level makes of it."""
    halves = (noisy + denoised) / 2
    for factor in (0.8, 1.0, 1.2):
        verdict = judge(
            noisy,
            halves,
            "YX",
            diagnosis=known(factor * SIGMA),
            response=lambda piece: (piece + denoiser(piece)) / 2,
            data_range=255,
        )
        left, closer = check(verdict, "noise removed"), check(verdict, "closer to the clean image")
        assert closer.value <= -20 * np.log10(left.value) + 0.1
        assert verdict.psnr is None or verdict.psnr[1] < verdict.psnr[0] < verdict.psnr[2]
