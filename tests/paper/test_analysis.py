"""D(f), the bounds of Theorems 1 and 2 and eq. 1: against closed forms, for networks, and where they must fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from skimage import data
from torch import Tensor
from torch.nn import functional

from noise2same import Config, Denoiser, io
from noise2same.errors import InputError
from noise2same.noise.synthetic import gaussian
from noise2same.paper import analysis
from noise2same.paper.analysis import Noise, bound, decomposition, invariance, invariance_of

Run = Callable[..., tuple[int, str, str]]
SIGMA = 0.5  # in normalised units: standard deviation 1 of the noisy image


def camera(*, normalised: bool = True) -> Tensor:
    """A detailed part of the cameraman, (1, 1, 64, 64); normalised so that noise of SIGMA makes its variance 1."""
    image = torch.from_numpy(data.camera()[100:164, 210:274].astype(np.float32))[None, None]
    return (image - image.mean()) / image.std() * (1 - SIGMA**2) ** 0.5 if normalised else image


def white(sigma: float) -> Noise:
    return lambda y, generator: y + sigma * torch.randn(y.shape, generator=generator)


def blocks(sigma: float) -> Noise:
    """Noise that is the same in the pixels of each 2 × 2 block."""

    def noise(y: Tensor, generator: torch.Generator) -> Tensor:
        coarse = torch.randn((*y.shape[:2], y.shape[2] // 2, y.shape[3] // 2), generator=generator)
        return y + sigma * functional.interpolate(coarse, scale_factor=2, mode="nearest")

    return noise


def rows(sigma: float) -> Noise:
    """Noise that is the same along each row."""
    return lambda y, generator: y + sigma * torch.randn((*y.shape[:3], 1), generator=generator)


def identity(x: Tensor) -> Tensor:
    return x


def constant(x: Tensor) -> Tensor:
    return torch.full_like(x, 0.3)


def median(x: Tensor) -> Tensor:
    padded = functional.pad(x, (1, 1, 1, 1), mode="reflect")
    return padded.unfold(2, 3, 1).unfold(3, 3, 1).flatten(-2).median(-1).values


def donut(x: Tensor) -> Tensor:
    """Mean of the eight neighbors, reflected at the border so that none is the pixel itself: J-invariant."""
    return (9 * functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1), mode="reflect"), 3, 1) - x) / 8


def partner(x: Tensor) -> Tensor:
    """The horizontal neighbor in the same 2 × 2 block."""
    return x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


def rest_of_row(x: Tensor) -> Tensor:
    return (x.sum(-1, keepdim=True) - x) / (x.shape[-1] - 1)


@pytest.fixture(scope="module")
def model() -> Denoiser:
    """A small network, trained for seconds on noisy pictures like those of `camera`."""
    image = data.camera()[36:228, 146:338]
    noisy = gaussian(image, 0.577 * camera(normalised=False).std().item(), np.random.default_rng(0))
    config = Config(steps=150, features=8, batch=8, patch=32)
    return Denoiser(config).fit(noisy, progress=False)


@pytest.fixture
def trained(model: Denoiser) -> Any:
    assert model.network is not None
    return model.network.eval()


# D(f)


def noisy_camera() -> Tensor:
    return white(SIGMA)(camera(), torch.Generator().manual_seed(0))


def test_invariance_of_known_functions() -> None:
    x = noisy_camera()
    d = invariance(identity, x)  # (x − r)² on J, with r ~ N(0, 0.5²)
    assert d.value == pytest.approx(x.square().mean().item() + 0.25, abs=3 * d.error)
    assert 150 < d.count < 400 and 0 < d.error < 0.2 * d.value
    assert invariance(constant, x).value == 0
    assert invariance(donut, x).value < 1e-12
    half = invariance(lambda x: x / 2, x)
    assert half.value == pytest.approx(d.value / 4) and half.count == d.count


def test_invariance_of_volumes_channels_and_tiny_images() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in (2, 3, 20, 30), (1, 1, 8, 24, 24), (1, 1, 4, 5):
        x = torch.randn(shape, generator=generator)
        d = invariance(identity, x)
        assert d.value == pytest.approx(x.square().mean().item() + 0.25, abs=4 * d.error) and d.count > 100


def test_invariance_is_repeatable_by_seed() -> None:
    x = noisy_camera()
    assert invariance(identity, x, seed=3) == invariance(identity, x, seed=3) != invariance(identity, x, seed=4)


def test_more_draws_of_a_denser_mask_estimate_the_same_more_exactly() -> None:
    x = noisy_camera()
    few, many = invariance(median, x), invariance(median, x, density=1e-3, draws=500)
    assert many.count > 1500 and many.error < few.error / 2
    assert few.value == pytest.approx(many.value, abs=3 * (few.error + many.error))
    with pytest.raises(InputError, match="No pixel was masked in 1 draws"):
        invariance(median, x, density=1e-9, draws=1)


def test_invariance_of_a_denoiser_is_that_of_its_network(model: Denoiser, trained: Any) -> None:
    raw = gaussian(data.camera()[100:164, 210:274], 38, np.random.default_rng(0))
    (d,) = invariance_of(model, raw)
    same = invariance(trained, torch.from_numpy(model.normalization.apply(raw[None, None])))
    assert (d.value, d.count) == (pytest.approx(same.value, rel=1e-3), same.count)
    assert 0 < d.value < 0.05


def test_large_images_and_stacks_are_sampled(model: Denoiser, tmp_path: Path) -> None:
    wide = np.tile(gaussian(data.camera()[100:164, 210:274], 38, np.random.default_rng(0)), (9, 10))
    wide[5, 7] = np.nan
    np.save(tmp_path / "wide.npy", wide)
    stack = wide[:128].reshape(2, 64, 640)
    results = invariance_of(model, [tmp_path / "wide.npy", wide]) + invariance_of(model, stack, "SYX")
    assert results[0] == results[1]
    small = invariance_of(model, wide[64:128, :64])[0]
    for d in results:
        assert 150 < d.count < 450 and d.value == pytest.approx(small.value, abs=4 * (d.error + small.error))


def test_images_are_normalised_one_by_one_if_the_model_does(model: Denoiser) -> None:
    raw = gaussian(data.camera()[100:164, 210:274], 38, np.random.default_rng(0))
    own = Denoiser(model.config.model_copy(update={"normalization": "image"}))
    own.network, own.normalization = model.network, model.normalization
    plain, scaled = invariance_of(own, [raw, 1000 * raw + 5])
    assert plain.value == pytest.approx(scaled.value, rel=1e-3)
    shifted = invariance_of(model, 1000 * raw + 5)[0]
    assert shifted.value != pytest.approx(plain.value, rel=0.1)


def test_a_denoiser_must_be_trained_and_fit() -> None:
    with pytest.raises(InputError, match="trained network"):
        invariance_of(Denoiser(), np.zeros((32, 32)))


# the bound


@pytest.mark.parametrize("sigma", [None, SIGMA], ids=["Theorem 1", "Theorem 2"])
@pytest.mark.parametrize("f", [identity, constant, median, donut])
def test_bound_holds_for_any_function(f: analysis.Function, sigma: float | None) -> None:
    result = bound(f, camera(), white(SIGMA), sigma=sigma)
    assert result.holds
    assert result.interval[0] < result.right.value - result.left.value < result.interval[1]
    if f in (identity, median):  # which see the noise they keep: the bound is not tight
        assert result.interval[0] > 0
    else:  # J-invariant: eq. 2, both sides are equal
        assert result.interval[0] < 0


@pytest.mark.parametrize("sigma", [None, SIGMA], ids=["Theorem 1", "Theorem 2"])
def test_bound_holds_for_networks(model: Denoiser, trained: Any, sigma: float | None) -> None:
    for network in model.new_network().eval(), trained:
        result = bound(network, camera(), white(SIGMA), sigma=sigma, draws=32, subsets=4)
        assert result.holds and result.right.error > 0


def test_sides_of_the_identity_are_their_closed_form() -> None:
    result = bound(identity, camera(), white(SIGMA), sigma=SIGMA)
    assert result.left.value == pytest.approx(2 * SIGMA**2, abs=4 * result.left.error)
    # the fill is N(0, 0.2²), and the noisy image has variance 1
    assert result.right.value == pytest.approx(2 * SIGMA * 1.04**0.5, abs=4 * result.right.error)


def test_theorem_1_normalises_and_theorem_2_needs_not() -> None:
    raw, sigma = camera(normalised=False), SIGMA / (1 - SIGMA**2) ** 0.5
    scale = raw.std().item()
    one, other = (bound(median, y, white(s), draws=16) for y, s in ((camera(), SIGMA), (raw, sigma * scale)))
    assert one.right.value == pytest.approx(other.right.value, rel=1e-4)
    assert one.left.value == pytest.approx(other.left.value, rel=1e-4)
    unit = scale / (1 - SIGMA**2) ** 0.5
    one = bound(median, camera(), white(SIGMA), sigma=SIGMA, draws=16)
    other = bound(median, raw, white(sigma * scale), sigma=sigma * scale, draws=16)
    assert other.right.value / unit**2 == pytest.approx(one.right.value, rel=1e-3)


def test_few_draws_do_not_bias_the_root() -> None:
    # pure noise and about 4 pixels in J: the root of the mean of 8 squares is 3 % low, after the jackknife 0.1 %
    few = [
        bound(identity, torch.zeros(1, 1, 64, 64), white(1), sigma=1, draws=2, density=1e-3, seed=s) for s in range(150)
    ]
    sides = np.array([one.right.value for one in few])
    assert sides.mean() == pytest.approx(2 * 1.04**0.5, rel=0.015)
    assert sides.std() == pytest.approx(np.mean([one.right.error for one in few]), rel=0.4)


def test_interval_of_equal_sides_holds_zero_as_often_as_it_says() -> None:
    clean = camera()[..., :24, :24]
    results = [bound(constant, clean, white(SIGMA), sigma=SIGMA, draws=16, subsets=2, seed=s) for s in range(150)]
    assert 0.88 < np.mean([one.interval[0] <= 0 <= one.interval[1] for one in results]) < 0.99


@pytest.mark.parametrize("sigma", [None, SIGMA], ids=["Theorem 1", "Theorem 2"])
@pytest.mark.parametrize(("f", "noise"), [(partner, blocks), (rest_of_row, rows)])
def test_correlated_noise_violates_the_bound(f: Any, noise: Callable[[float], Noise], sigma: float | None) -> None:
    """f copies the noise of x_j from pixels outside J: Cov(f_j, x_j | y) = σ², but f(x) on J is f(x_{J^c}) on J.

    So right − left = λ · 0 − 2σ²; for the rest of a row, J has a little of it.
    """
    result = bound(f, camera(), noise(SIGMA), sigma=sigma)
    assert not result.holds
    assert result.right.value - result.left.value == pytest.approx(-2 * SIGMA**2, abs=0.1)
    assert bound(f, camera(), white(SIGMA), sigma=sigma).holds


def test_bound_is_repeatable_and_asks_for_enough() -> None:
    results = [bound(median, camera(), white(SIGMA), draws=4, subsets=2, seed=seed) for seed in (1, 1, 2)]
    assert results[0] == results[1] != results[2]
    for options in {"draws": 1}, {"subsets": 1}, {"density": 1e-9}:
        with pytest.raises(InputError, match="at least 2 draws"):
            bound(identity, camera(), white(SIGMA), **options)  # type: ignore[arg-type]


# eq. 1


@pytest.mark.parametrize("f", [identity, constant, median, donut])
def test_terms_add_up(f: analysis.Function) -> None:
    terms = decomposition(f, camera(), white(SIGMA), draws=16)
    whole = terms["error"].value + terms["noise"].value - 2 * terms["covariance"].value
    assert terms["reconstruction"].value == pytest.approx(whole, abs=1e-6)
    assert terms["noise"].value == pytest.approx(SIGMA**2, abs=4 * terms["noise"].error)
    assert all(term.count == 16 for term in terms.values())


def test_covariance_of_known_functions() -> None:
    terms = decomposition(identity, camera(), white(SIGMA))
    assert terms["reconstruction"].value == 0 and terms["covariance"] == terms["noise"] == terms["error"]
    for f in constant, donut:
        covariance = decomposition(f, camera(), white(SIGMA))["covariance"]
        assert 0 < covariance.error < 1e-2 and abs(covariance.value) < 3 * covariance.error
    half = decomposition(lambda x: x / 2, camera(), white(SIGMA))["covariance"]
    assert half.value == pytest.approx(SIGMA**2 / 2, abs=4 * half.error)


def test_noise2same_trades_covariance_for_error(trained: Any) -> None:
    terms = decomposition(trained, camera(), white(SIGMA))
    assert terms["error"].value < 0.6 * terms["noise"].value
    assert terms["covariance"].value > 5 * terms["covariance"].error


# noise2same evaluate --invariance


def test_evaluate_invariance(run: Run, model: Denoiser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("m.safetensors")
    Path("in").mkdir()
    for seed, name in enumerate("ab"):
        raw = gaussian(data.camera()[100:164, 210:274], 38, np.random.default_rng(seed))
        np.save(f"in/{name}.npy", raw)
    code, out, err = run("evaluate", "--invariance", "m.safetensors", "in", "--json")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert set(figures["images"]) == {str(Path("in/a.npy")), str(Path("in/b.npy"))}
    a, b = figures["images"].values()
    (expected,) = invariance_of(model, io.read("in/a.npy"))
    assert a == {
        "invariance": expected.value,
        "standard_error": expected.error,
        "masked_pixels": expected.count,
    }
    assert figures["mean"]["invariance"] == pytest.approx((a["invariance"] + b["invariance"]) / 2)
    assert figures["mean"]["masked_pixels"] == a["masked_pixels"] + b["masked_pixels"]
    code, out, err = run("evaluate", "in/*.npy", "--invariance", "m.safetensors")
    assert (code, err) == (0, "") and "1e-3" in out and "mean" in out
    assert f"{1e3 * a['invariance']:.4g}" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in.npy",), "or --invariance MODEL"),
        (("in.npy", "in.npy", "--invariance", "m.safetensors"), "leave out the truth"),
        (("in.npy", "--range", 255, "--invariance", "m.safetensors"), "leave out the truth and --range"),
        (("none.npy", "--invariance", "m.safetensors"), "none.npy does not exist"),
        (("in.npy", "--invariance", "none.safetensors"), "none.safetensors"),
        (("colour.npy", "--invariance", "m.safetensors"), "3 channel(s)"),
    ],
)
def test_wrong_ways_to_evaluate(
    run: Run, model: Denoiser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("m.safetensors")
    np.save("in.npy", np.ones((32, 32)))
    np.save("colour.npy", np.ones((32, 32, 3)))
    code, out, err = run("evaluate", *arguments)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1
