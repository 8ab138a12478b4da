"""Training ends when the held-out error falls no further, with the best weights it had."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from held_out_images import SIGMA, Mix, noisy_pair
from skimage import data
from torch import nn

from noise2same import Config, Denoiser
from noise2same.data.patches import Patches
from noise2same.noise.model import NoiseModel
from noise2same.noise.synthetic import gaussian
from noise2same.plan import FIRST_CHECK_STEP, FIRST_CHECK_STEP_PRETRAINED
from noise2same.quality.metrics import psnr
from noise2same.training.early_stopping import CHECKS_PER_DOUBLING, COOLDOWN_SHARE, EarlyStopping
from noise2same.training.held_out import HeldOutSure


@pytest.fixture(scope="module")
def held_out():
    patches = Patches([noisy_pair()[1]], patch=(64, 64), batch=16)
    return HeldOutSure(patches, NoiseModel.gaussian(SIGMA), seed=0)


def test_is_done_when_a_doubling_of_the_steps_buys_nothing(held_out):
    stopping, done = EarlyStopping(held_out), []
    for share in [0.9, 0.7, 0.5, 0.4, 1.0, 0.35] + (CHECKS_PER_DOUBLING + 2) * [0.34]:  # one bad moment does not end it
        stopping.check(Mix(share), 0.25)
        done.append(stopping.done_at is not None)
    assert done == [False] * (len(done) - 1) + [True]
    assert not stopping.due(10**9)  # no checks in the cool-down


def test_checks_are_as_far_apart_as_the_steps_double(held_out):
    stopping, due = EarlyStopping(held_out), []
    for step in range(1, 5 * FIRST_CHECK_STEP):
        if stopping.due(step):
            due.append(step)
            stopping.errors.append(1 / step)
    assert due[0] == FIRST_CHECK_STEP and due[CHECKS_PER_DOUBLING] == 2 * FIRST_CHECK_STEP
    assert len(due) == 2 * CHECKS_PER_DOUBLING + 2
    pretrained = EarlyStopping(held_out, pretrained=True)
    assert pretrained.due(FIRST_CHECK_STEP_PRETRAINED) and not pretrained.due(FIRST_CHECK_STEP_PRETRAINED - 1)


@pytest.mark.parametrize("done_at", [0.1, 0.5, 0.9, 1.0])
def test_the_rest_of_the_schedule_is_run_through_in_the_cool_down(done_at):
    stopping = EarlyStopping(None)
    assert stopping.progress(0.7) == 0.7 and stopping.end_share() == 1
    stopping.done_at = done_at
    assert stopping.progress(done_at) == done_at
    assert stopping.end_share() == pytest.approx(min(1.0, (1 + COOLDOWN_SHARE) * done_at))
    assert stopping.progress(stopping.end_share()) == pytest.approx(1)


def test_without_a_measure_of_the_error_or_when_told_so_nothing_is_due(held_out):
    for stopping in EarlyStopping(None), EarlyStopping(held_out, enabled=False):
        assert not any(stopping.due(step) for step in (1, FIRST_CHECK_STEP, 10**9))
    network = nn.Conv2d(1, 1, 1)
    before = network.weight.item()
    assert not EarlyStopping(None).keep_best(network) and network.weight.item() == before


@pytest.mark.parametrize("course", [(0.8, 3.0), (3.0, 0.8), (2.0, 0.8, 3.0)])
def test_worse_weights_are_not_kept(held_out, course):
    stopping, network = EarlyStopping(held_out), nn.Conv2d(1, 1, 1)
    for share in course[:-1]:
        network.load_state_dict({"weight": torch.full((1, 1, 1, 1), share), "bias": torch.zeros(1)})
        stopping.check(network, 0.1)
    resumed = EarlyStopping(held_out)
    resumed.load(stopping.state())
    network.weight.data.fill_(course[-1])
    resumed.keep_best(network)
    assert network.weight.item() == pytest.approx(0.8)


def test_a_file_sets_nothing_but_the_state(held_out):
    stopping = EarlyStopping(held_out)
    stopping.load(stopping.state() | {"held_out": "gone", "check": "gone", "first": 0})
    assert stopping.held_out is held_out and callable(stopping.check) and stopping.first == FIRST_CHECK_STEP
    for wrong in {}, {"errors": "abc"}, stopping.state() | {"errors": ["x"]}:
        with pytest.raises((KeyError, TypeError, ValueError)):
            stopping.load(wrong)


def test_it_says_whether_the_weights_are_those_from_before_the_training(held_out):
    stopping, network = EarlyStopping(held_out), Mix(0.2)
    stopping.note(network, start=True)
    put(network, 0.9)
    assert stopping.keep_best(network) and network.share.item() == pytest.approx(0.2)
    later = EarlyStopping(held_out)
    put(network, 0.9)
    later.note(network, start=True)
    put(network, 0.2)
    later.check(network, 0.1)
    put(network, 0.9)
    assert not later.keep_best(network) and network.share.item() == pytest.approx(0.2)


def put(network, share):
    with torch.no_grad():
        network.share.fill_(share)


# through the Denoiser


def test_training_ends_before_its_budget_and_denoises():
    """The noise of so small a picture is overfitted: by the error of trained pixels, training would go on."""
    clean = data.coins()[60:156, 60:156].astype(np.float32)
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    model = Denoiser(Config(steps=1500, patch=32, features=16)).fit(noisy, progress=False)
    assert model.summary["stopped_early"] and not model.summary["interrupted"]
    assert 2 * FIRST_CHECK_STEP_PRETRAINED < model.summary["steps"] < 1300
    assert psnr(clean, model.denoise(noisy), data_range=255) > psnr(clean, noisy, data_range=255) + 4


def test_impulse_noise_uses_its_whole_budget_and_keeps_its_last_weights():
    """SURE does not hold for it: neither the end of the run nor its weights may depend on it."""
    rng = np.random.default_rng(0)
    noisy = data.camera()[100:228, 100:228].astype(np.float32)
    struck = rng.random(noisy.shape) < 0.2
    noisy[struck] = rng.choice([0, 255], struck.sum())
    last = {}

    def look(denoiser):
        last.update(denoiser.network.state_dict())
        return {}

    model = Denoiser(Config(steps=700, features=4, levels=2, patch=16, batch=1, from_scratch=True))
    model.fit(noisy, progress=False, on_point=look)
    assert model.summary["steps"] == model.summary["history"][-1]["step"] == 700 and not model.summary["stopped_early"]
    assert not any("error" in point for point in model.summary["history"])
    assert all(torch.equal(value, last[name]) for name, value in model.network.state_dict().items())


def test_a_supervised_method_is_judged_by_its_targets():
    """Which have nothing to do with the noisy images here: the error cannot fall below their variance."""
    noisy, target = np.random.default_rng(0).normal(100, 20, (2, 128, 128)).astype(np.float32)
    checked = []

    def listen(state):
        if state.step == FIRST_CHECK_STEP:
            checked.append(state.preview(noisy))

    model = Denoiser(Config(method="noise2true", steps=620, features=4, levels=2, patch=32, batch=2))
    model.fit(noisy, target=target, progress=False, on_step=listen)
    (error,) = [point["error"] for point in model.summary["history"] if "error" in point]
    output, clean = (model.normalization.apply(image[None, None]) for image in (checked[0], target))
    truth = np.mean((output - clean) ** 2)
    assert error == pytest.approx(truth, rel=0.15) and truth > 0.8
