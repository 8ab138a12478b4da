"""The plan: what is decided for which images and settings, why, and that a stored plan repeats a run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from skimage.data import camera, chelsea, coins

import noise2same as n2s
from noise2same import Config, Plan, io
from noise2same.data.normalize import Normalization
from noise2same.data.stabilize import Stabilizer
from noise2same.data.training_data import read_training_data
from noise2same.errors import InputError
from noise2same.fingerprint import Fingerprint, fingerprint
from noise2same.noise.model import NoiseModel
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.plan import Budget, Decision, make_plan

RNG = np.random.default_rng(0)
IMAGE = RNG.normal(40, 20, (64, 64)).astype(np.float32)


def found(kind="gaussian", *, steady=True, correlation=(), dims=2, channels=1, **more) -> Fingerprint:
    each = (0.0,) * channels
    noise = NoiseModel(each, (100.0,) * channels, each, (20.0,) * channels, correlation, kind, 0.9)
    usual = {"images": 1, "pixels": 2**18, "noise_varies": False, "scale": Normalization(each, (20.0,) * channels)}
    usual["shared_structure"] = (0.9,) * channels if channels > 1 else ()
    return Fingerprint(dims=dims, channels=channels, noise=noise, steady=steady, **usual | more)


SHARED = ((0.4,), (0.5, 0.2))


@pytest.mark.parametrize(
    ("image", "options", "method", "because"),
    [
        (found(), {}, "sure", "gaussian and equally strong"),
        (found("clipped"), {}, "sure", "clipped"),
        (found(correlation=SHARED), {}, "sure", "equally strong"),
        (found("poisson", steady=False), {}, "projected", "grows with the brightness"),
        (found("gaussian", steady=False), {}, "projected", "uncertain"),
        (found("impulse", steady=False), {}, "projected", "impulse"),
        (found(dims=3), {}, "projected", "volumes"),
        (found(correlation=SHARED, noise_varies=True), {}, "projected", "stronger in some images"),
        (found(), {"mask_density": 0.2}, "projected", "mask_density was set"),
        (found(), {"noise_extent": (0, 1)}, "projected", "noise_extent was set"),
        (found(), {"lambda_inv": 1.0}, "noise2same", "lambda_inv was set"),
        (found("poisson", steady=False), {"noise_model": "gaussian"}, "sure", "noise_model was set"),
        (found(), {"method": "noise2same"}, "noise2same", "asked for"),
        (found(), {"preset": "paper"}, "noise2same", "asked for"),
    ],
)
def test_which_loss_and_why(image, options, method, because):
    plan = make_plan(image, Config.of(**options))
    assert plan.method.value == method and because in plan.method.reason


@pytest.mark.parametrize(
    ("image", "options", "start"),
    [
        (found(), {}, "pretrained"),
        (found(channels=3), {}, "pretrained"),
        (found("poisson", steady=False), {}, "pretrained"),
        (found(), {"features": 32}, "pretrained"),
        (found(channels=2, shared_structure=(0.95, 0.95)), {}, "scratch"),
        (found(channels=2, shared_structure=(0.1, 0.1)), {}, "pretrained"),
        (found(channels=3, shared_structure=(0.1,) * 3), {}, "pretrained"),
        (found(dims=3, channels=2, shared_structure=(0.1, 0.1)), {}, "inflated"),
        (found(dims=3), {}, "inflated"),
        (found(dims=3), {"from_scratch": True}, "scratch"),
        (found("unknown", steady=False), {}, "scratch"),
        (found(), {"from_scratch": True}, "scratch"),
        (found(), {"features": 20}, "scratch"),
        (found(), {"method": "noise2same"}, "scratch"),
        (found(), {"method": "noise2void"}, "scratch"),
    ],
)
def test_where_training_starts(image, options, start):
    plan = make_plan(image, Config.of(**options))
    assert plan.start.value == start and plan.recipe().pretrained == (start == "pretrained")


@pytest.mark.parametrize(
    ("image", "options", "budget", "rate"),
    [
        (found(), {}, "0.5 minutes", 3e-3),
        (found(pixels=2**16), {}, "0.5 minutes", 0.25 * 3e-3),
        (found(pixels=100), {}, "0.5 minutes", 0.1 * 3e-3),
        (found(images=2), {}, "5 minutes", 3e-3),
        (found(channels=4, shared_structure=(0.1,) * 4), {}, "2 minutes", 3e-3),
        (found(channels=30, shared_structure=(0.1,) * 30), {}, "5 minutes", 3e-3),
        (found(dims=3), {}, "5 minutes", 3e-3),
        (found(), {"steps": 7, "learning_rate": 1e-4}, "7 steps", 1e-4),
        (found(pixels=100), {"learning_rate": 1e-3}, "0.5 minutes", 1e-3),
        (found(), {"preset": "best"}, "60 minutes", 3e-3),
        (found(), {"preset": "paper"}, "50000 steps", 4e-4),
    ],
)
def test_budget_and_learning_rate(image, options, budget, rate):
    plan = make_plan(image, Config.of(**options))
    assert (str(plan.budget.value), plan.learning_rate.value) == (budget, pytest.approx(rate))


@pytest.mark.parametrize(
    ("image", "options", "stops"),
    [
        (found(), {}, True),
        (found("poisson", steady=False), {}, True),
        (found("impulse", steady=False), {}, False),
        (found("unknown", steady=False), {}, False),
        (found(correlation=SHARED), {}, False),
        (found("impulse", steady=False), {"method": "noise2true"}, True),
        (found(), {"early_stopping": False}, False),
        (found(), {"preset": "best"}, False),
    ],
)
def test_training_ends_early_only_where_the_error_can_be_estimated(image, options, stops):
    plan = make_plan(image, Config.of(**options))
    assert plan.early_stopping.value == stops and (plan.held_out.value > 0) == stops


@pytest.mark.parametrize(
    ("image", "options", "channels", "because"),
    [
        (found(), {}, "joint", "one channel"),
        (found(channels=3), {}, "joint", "same structures"),
        (found(channels=3, shared_structure=(0.9, 0.9, 0.2)), {}, "separate", "channel 3 has little"),
        (found(channels=2, shared_structure=(0.95, 0.95)), {}, "joint", "same structures"),
        (found(channels=2), {"minutes": 0}, "separate", "pretrained network for one channel, but none for 2"),
        (found(channels=2, shared_structure=(0.75, 0.75)), {}, "separate", "correlation 0.75"),
        (found(channels=2, shared_structure=(0.5, 0.5)), {"features": 20}, "joint", "from scratch"),
        (found(channels=2, dims=3, shared_structure=(0.1, 0.1)), {}, "separate", "correlation 0.10"),
        (found(channels=2, shared_structure=(0.1, 0.1)), {"from_scratch": True}, "joint", "from scratch"),
        (found(channels=2, dims=3), {"channels": "separate"}, "separate", "asked for"),
        (found(channels=2), {"method": "noise2same"}, "joint", "as it was published"),
        (found(channels=2), {"method": "noise2same", "channels": "separate"}, "separate", "asked for"),
        (found(channels=2), {"channels": "joint"}, "joint", "asked for"),
    ],
)
def test_channels_share_a_network_where_they_share_structure(image, options, channels, because):
    plan = make_plan(image, Config.of(**options))
    assert plan.channels.value == channels and because in plan.channels.reason


def test_channels_of_a_photograph_and_of_unrelated_pictures():
    rng = np.random.default_rng(0)
    assert plan_of(gaussian(chelsea().astype(np.float32), 40, rng), "YXC").channels.value == "joint"
    unrelated = np.stack([camera()[:300, :384], coins()[:300, :384], camera()[212:, 128:]]).astype(np.float32)
    assert plan_of(gaussian(unrelated, 25, rng), "CYX").channels.value == "separate"


def test_a_plan_of_before_channels_could_be_separate_is_joint():
    stored = make_plan(found(channels=3), Config()).model_dump(mode="json")
    del stored["channels"], stored["fingerprint"]["shared_structure"], stored["config"]["channels"]
    assert Plan.model_validate(stored).channels.value == "joint"


@pytest.mark.parametrize(
    ("steps", "speed", "words"),
    [
        (1000, 10.0, None),
        (1000, 30.0, "1000 steps only, because the machine was busy: give --steps 3000 instead"),
        (91, 1.0, "91 steps only, and training needs 200 at least: give --steps 200 instead"),
    ],
)
def test_what_is_said_of_a_budget_that_bought_too_few_steps(steps, speed, words):
    plan = make_plan(found(), Config(minutes=5))
    said = plan.starved(steps, 100.0, speed)
    assert said is None if words is None else words in said and "5 minutes" in said
    in_steps = plan.model_copy(update={"budget": Decision(Budget(steps=1000), "")})
    assert in_steps.starved(steps, 100.0, speed) is None


def test_neighbors_are_masked_together_by_the_projected_loss_alone_unless_told():
    image = found("poisson", steady=False, correlation=SHARED)
    assert make_plan(image, Config()).noise_extent.value == (1, 2)
    assert make_plan(image, Config(method="noise2same")).noise_extent.value == ()
    assert make_plan(image, Config(method="noise2same", noise_extent=(0, 3))).noise_extent.value == (0, 3)
    with pytest.raises(InputError, match="2 numbers, for YX"):
        make_plan(image, Config(noise_extent=(1, 1, 1)))


def test_the_weight_of_theorem_2_is_that_of_the_mean_variance():
    paper = Config(method="noise2same")
    assert make_plan(found(), paper).lambda_inv.value == pytest.approx((2 * 10 / 20,))
    uneven = found(noise_varies=True, mean_strength=2.25)
    assert make_plan(uneven, paper).lambda_inv.value == pytest.approx((1.5,))
    assert make_plan(found(), Config()).lambda_inv is None


def test_a_batch_has_as_many_patches_in_the_network_whatever_the_method():
    batches = [make_plan(found(), Config.of(method=name)).batch.value for name in ("sure", "noise2void")]
    assert batches == [4, 8]
    paper = [make_plan(found(dims=dims), Config(preset="paper")).batch.value for dims in (2, 3)]
    assert paper == [64, 4]


def test_every_decision_has_a_reason_and_is_told():
    plan = make_plan(found(), Config())
    decisions = {name: getattr(plan, name) for name in Plan.model_fields if isinstance(getattr(plan, name), Decision)}
    assert len(decisions) >= 12 and all(len(one.reason) > 8 for one in decisions.values())
    assert all(one.reason in str(plan) for one in decisions.values())
    assert len(plan.lines()) == 3


def plan_of(image: np.ndarray, axes: str = "YX", **options: object) -> Plan:
    return n2s.plan(image, axes, **options)


@pytest.mark.parametrize(
    ("options", "variance"),
    [
        ({"sigma": 10.0}, lambda y: 100.0),
        ({"noise_model": "gaussian", "sigma": 10.0}, lambda y: 100.0),
        ({"gain": 4.0}, lambda y: 4 * y),
        ({"noise_model": "poisson", "gain": 4.0}, lambda y: 4 * y),
        ({"noise_model": "poisson-gaussian", "gain": 4.0, "sigma": 10.0}, lambda y: 4 * y + 100),
    ],
)
def test_the_variance_is_what_the_user_gives(options, variance):
    plan = plan_of(IMAGE, **options)
    mean, std = IMAGE.mean(), IMAGE.std()
    y = np.linspace(20, 100, 9)
    told = torch.from_numpy((y - mean) / std).reshape(1, 1, 1, -1)
    np.testing.assert_allclose(
        plan.normalized_noise().variance(told).flatten(), [variance(value) / std**2 for value in y], rtol=1e-3
    )


def test_poisson_noise_has_no_variance_where_there_is_no_light():
    noise = plan_of(IMAGE, noise_model="poisson").noise.value
    assert noise.b == (0.0,) and noise.a[0] > 0
    assert plan_of(IMAGE, noise_model="gaussian").noise.value.a == (0,)


@pytest.mark.parametrize(
    "options",
    [
        {"noise_model": "poisson"},
        {"noise_model": "poisson", "gain": 4.0},
        {"noise_model": "poisson-gaussian", "gain": 4.0, "sigma": 1.0},
    ],
)
def test_what_cannot_be_true_of_these_images(options):
    with pytest.raises(InputError, match="negative at the images' mean, which is -60"):
        plan_of(IMAGE - 100, **options)


@pytest.mark.parametrize(
    ("kind", "alike", "unlike"),
    [("gaussian", "sure", "sure"), ("shared", "sure", "projected"), ("photons", "projected", "projected")],
)
def test_which_loss_where_the_strength_of_the_noise_is_alike_or_differs(kind, alike, unlike):
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    noise = {
        "gaussian": lambda: rng.normal(0, 25, clean.shape),
        "shared": lambda: 3 * ndimage.uniform_filter(rng.normal(0, 25, clean.shape), 3),
        "photons": lambda: poisson_gaussian(clean, 8.0, 0.0, rng) - clean,
    }
    data = read_training_data([io.wrap((clean + noise[kind]()).astype(np.float32), "YX")])
    measured, *_ = fingerprint(data, Config())
    assert make_plan(measured, Config()).method.value == alike
    varies = measured.model_copy(update={"noise_varies": True})
    assert make_plan(varies, Config()).method.value == unlike


def test_each_channel_has_a_noise_level_of_its_own():
    clean, rng = camera()[:256, :256].astype(np.float32), np.random.default_rng(0)
    channels = np.stack([clean, 128 + 0.2 * (clean - 128), clean], -1)
    channels[..., 2] *= 100
    noisy = gaussian(channels, 10, rng)
    sigma = plan_of(noisy, "YXC").normalized_noise().sigma
    expected = [10 / np.hypot(10, channels[..., c].std()) for c in range(3)]
    np.testing.assert_allclose(sigma[:2], expected[:2], rtol=0.1)
    assert sigma[2] < 0.02  # hardly any noise, and not the mean of the others'
    np.testing.assert_allclose(plan_of(noisy, "YXC", sigma=10.0).normalized_noise().sigma, expected, rtol=0.02)


def test_a_plan_survives_json_and_repeats_the_run(tmp_path):
    noisy = gaussian(chelsea()[:96, :96].astype(np.float32), 25, np.random.default_rng(0))
    options = {"steps": 4, "features": 8, "from_scratch": True}
    first = n2s.train(noisy, "YXC", progress=False, **options)
    path = tmp_path / "plan.json"
    n2s.plan(noisy, "YXC", **options).write(path)
    plan = Plan.read(path)
    assert plan == first.plan
    again = n2s.train(noisy, "YXC", plan=plan, progress=False)
    assert np.array_equal(again.denoise(noisy), first.denoise(noisy))
    edited = json.loads(path.read_text())
    edited["budget"] = {"value": {"steps": 2}, "reason": "edited"}
    edited["normalization"] = {"value": "image", "reason": "edited"}
    path.write_text(json.dumps(edited))
    other = n2s.train(noisy, "YXC", plan=Plan.read(path), progress=False)
    assert other.summary["steps"] == 2
    scaled = other.denoise(100 * noisy + 7)  # each image is normalized by its own statistics
    np.testing.assert_allclose(scaled, 100 * other.denoise(noisy) + 7, rtol=1e-3)


def test_a_plan_of_other_images_or_settings_is_refused(tmp_path):
    noisy = gaussian(chelsea()[:64, :64].astype(np.float32), 25, np.random.default_rng(0))
    plan = n2s.plan(noisy, "YXC", steps=2)
    with pytest.raises(InputError, match="with 3 channels, but these are 2D with 1"):
        n2s.train(noisy[..., 0], plan=plan, progress=False)
    with pytest.raises(InputError, match="leave out steps"):
        n2s.train(noisy, "YXC", plan=plan, steps=3, progress=False)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(InputError, match="is not a plan"):
        Plan.read(tmp_path / "bad.json")
    with pytest.raises(InputError, match="does not exist"):
        Plan.read(tmp_path / "none.json")


def test_the_model_keeps_its_plan(tmp_path):
    model = n2s.train(IMAGE, steps=2, progress=False)
    loaded = n2s.Denoiser.load(model.save(tmp_path / "m.safetensors"))
    assert loaded.plan == model.plan


def test_what_a_user_sets_is_kept():
    """No setting switches another one silently (B7)."""
    given = {"mask_density": 0.12, "batch": 3, "learning_rate": 1e-3, "steps": 5, "normalization": "image"}
    plan = make_plan(found(pixels=100), Config.of(**given))
    assert plan.batch.value == 3 and plan.learning_rate.value == 1e-3 and plan.budget.value.steps == 5
    assert plan.normalization.value == "image" and plan.config.method_settings == {"mask_density": 0.12}
    assert "mask_density" in plan.method.reason


def test_the_module_is_the_function_too():
    import noise2same.plan

    assert replace(noise2same.plan(IMAGE, steps=3).noise.value) == n2s.plan(IMAGE, steps=3).noise.value


def stars(gain, side=256, count=40):
    """A noisy field of stars of 500 to 10⁶ electrons on a sky of 130."""
    rng = np.random.default_rng(0)
    clean = np.full((side, side), 130.0)
    rows, columns = np.ogrid[:side, :side]
    for y, x, flux in zip(*rng.uniform(10, side - 10, (2, count)), np.geomspace(500, 1e6, count), strict=True):
        clean += flux / (2 * np.pi * 1.8**2) * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * 1.8**2))
    return gain * poisson_gaussian(clean, 1.0, 5.0, rng)


def test_a_field_of_stars_is_trained_on_a_stabilized_scale_and_its_gain_is_found():
    noisy = stars(gain=0.4)
    plan = n2s.plan(noisy)
    assert plan.scale.value == "stabilized" and "huge" in plan.scale.reason
    assert plan.noise.value.a[0] == pytest.approx(0.4, rel=0.3)
    assert plan.method.value == "sure"
    sky = plan.noise.value.variance(np.full((1, 1, 1, 1), np.median(noisy))).item()
    assert sky == pytest.approx(0.16 * 155, rel=0.1)
    sigma = plan.normalized_noise().sigma[0]
    assert sigma == pytest.approx(1 / plan.training_scale.std[0])
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan and again.training_scale.stabilizer == plan.training_scale.stabilizer


def test_stars_whose_gain_cannot_be_found_are_trained_on_a_stabilized_scale_too():
    noisy = gaussian(ndimage.gaussian_filter(stars(gain=1.0), 1), 13.0, RNG)  # steady noise
    plan = n2s.plan(noisy)
    assert plan.noise.value.a == (0.0,) and plan.scale.value == "stabilized"
    stabilizer = plan.training_scale.stabilizer
    sky = np.median(noisy)
    assert stabilizer.a[0] * sky + stabilizer.b[0] == pytest.approx(plan.noise.value.sigma[0] ** 2, rel=1e-3)
    assert stabilizer.a[0] * (sky + 130) + stabilizer.b[0] == pytest.approx(2 * 13**2, rel=0.1)
    level = plan.normalized_noise().sigma[0] * plan.training_scale.std[0]
    assert level == pytest.approx(1, rel=0.1)  # in the sky


@pytest.mark.parametrize("noisy", [gaussian(camera(), 10, RNG), poisson_gaussian(camera(), 3, 2, RNG), chelsea()])
def test_an_ordinary_picture_is_trained_on_a_linear_scale(noisy):
    plan = n2s.plan(noisy)
    assert plan.scale.value == "linear" and "usual" in plan.scale.reason
    assert plan.training_scale == plan.fingerprint.scale and plan.fingerprint.stabilized is None


def photons(**more) -> Fingerprint:
    image = found("poisson", steady=False, brightness_range=30.0, **more)
    steady = Normalization((20.0,), (5.0,), Stabilizer((1.0,), (100.0,)))
    noise = replace(image.noise, a=(1.0,) * image.channels)
    return image.model_copy(update={"noise": noise, "stabilized": steady})


@pytest.mark.parametrize(
    ("image", "options", "scale", "because"),
    [
        (photons(), {}, "stabilized", "huge"),
        (photons(), {"sigma": 5.0, "gain": 2.0}, "stabilized", "huge"),
        (photons(dims=3), {}, "stabilized", "huge"),
        (photons(), {"scale": "linear"}, "linear", "asked for"),
        (photons(), {"normalization": "image"}, "linear", "by itself"),
        (photons(), {"method": "noise2same"}, "linear", "as it was published"),
        (photons(), {"noise_model": "gaussian"}, "linear", "noise_model was set"),
        (photons(correlation=SHARED), {}, "linear", "share noise"),
        (found("unknown", steady=False, brightness_range=30.0), {}, "linear", "unknown"),
        (found(), {"scale": "stabilized"}, "stabilized", "asked for"),
    ],
)
def test_which_scale_and_why(image, options, scale, because):
    plan = make_plan(image, Config.of(**options))
    assert plan.scale.value == scale and because in plan.scale.reason


def test_a_scale_that_was_not_measured_cannot_be_trained_on():
    plan = make_plan(found(), Config(scale="stabilized"))
    with pytest.raises(InputError, match="make one with scale=stabilized"):
        plan.normalized_noise()
    with pytest.raises(InputError, match="normalization=image"):
        Config.of(scale="stabilized", normalization="image")


def test_a_plan_from_before_there_was_a_scale_is_linear():
    fields = json.loads(make_plan(found(), Config()).model_dump_json())
    del fields["scale"], fields["fingerprint"]["brightness_range"], fields["fingerprint"]["stabilized"]
    assert Plan.model_validate(fields).scale.value == "linear"
