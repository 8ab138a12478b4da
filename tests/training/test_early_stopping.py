"""The error against the unknown clean image is estimated well, and training ends when it falls no further."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage import data
from torch import nn

from noise2same import Config, Denoiser
from noise2same.data.patches import Patches
from noise2same.methods import Facts
from noise2same.networks.unet import Blur
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr
from noise2same.training.early_stopping import FIRST, FIRST_WARM, GAIN, LOSS, PER_DOUBLING, StopRule

SIGMA = 0.5


class Mix(nn.Module):
    """Some of the image and the rest of its blur: the more of the image, the more of the noise and of the signal."""

    def __init__(self, share):
        super().__init__()
        self.share, self.blur = share, Blur((1.0, 1.0))

    def forward(self, x):
        return self.share * x + (1 - self.share) * self.blur(x)


@pytest.fixture(scope="module")
def pair():
    clean = torch.from_numpy(data.camera().astype(np.float32))[None, None]
    clean = (clean - clean.mean()) / clean.std()
    return clean, clean + SIGMA * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))


def rule(noisy, gain=GAIN, **options):
    patches = Patches([noisy], patch=(64, 64), batch=16, **options)
    return StopRule(patches, Facts(2, 1, sigma=(SIGMA,)), seed=0, gain=gain)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_estimate_is_the_error_against_the_clean_image(pair, share):
    clean, noisy = pair
    network, watching = Mix(share), rule(noisy, targets=[clean])
    truth = torch.cat([network(batch.x) - batch.target for batch in watching.batches]).square().mean()
    assert watching.error(network) == pytest.approx(float(truth), rel=0.05)


class Curved(nn.Module):
    """Follows the square of a pixel's deviation from 0."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        return self.share * x.square()


def test_the_estimate_knows_that_photon_noise_is_skewed():
    """With the variance at the noisy or the clean value, the curved network would seem worse or better by 0.0036."""
    gain = 0.3
    noisy = gain * torch.poisson(torch.full((1, 1, 512, 512), 1 / gain), generator=torch.Generator().manual_seed(0)) - 1
    facts = Facts(2, 1, sigma=(gain**0.5,), slope=(gain,))
    photons = StopRule(Patches([noisy], patch=(64, 64), batch=16), facts, seed=0)
    flat, curved = Curved(0.0), Curved(0.02)
    truth = curved(noisy).square().mean().item()
    assert photons.error(curved) - photons.error(flat) == pytest.approx(truth, abs=0.0012)


def test_invalid_pixels_do_not_count(pair):
    noisy = pair[1]
    spoilt, valid = noisy.clone(), torch.ones(noisy.shape, dtype=torch.bool)
    spoilt[..., ::50], valid[..., ::50] = 100.0, False
    network = nn.Identity()
    assert rule(spoilt, valid=[valid]).error(network) == pytest.approx(SIGMA**2, rel=0.1)


def test_is_done_when_a_doubling_of_the_steps_buys_nothing(pair):
    watching, told = rule(pair[1]), []
    for share in [0.9, 0.7, 0.5, 0.4, 1.0, 0.35] + (PER_DOUBLING + 2) * [0.34]:  # one bad moment does not end it
        told.append(watching.is_done(Mix(share)))
    assert told == [False] * (len(told) - 1) + [True]
    assert not watching.due(FIRST) and watching.due(10**6)


@pytest.mark.parametrize(("last", "done"), [(0.34, False), (0.4, True)])
def test_with_a_negative_gain_it_is_done_only_when_it_got_worse(pair, last, done):
    watching = rule(pair[1], gain=-LOSS)
    for share in [0.5, 0.4, 0.35] + PER_DOUBLING * [0.34]:
        assert not watching.is_done(Mix(share))
    told = [watching.is_done(Mix(last)) for _ in range(PER_DOUBLING + 2)]
    assert told[-1] == done


@pytest.mark.parametrize("course", [(0.8, 3.0), (3.0, 0.8), (2.0, 0.8, 3.0)])
def test_worse_weights_are_not_kept(pair, course):
    watching, network = rule(pair[1]), nn.Conv2d(1, 1, 1)
    for share in course[:-1]:
        network.load_state_dict({"weight": torch.full((1, 1, 1, 1), share), "bias": torch.zeros(1)})
        watching.is_done(network)
    resumed = rule(pair[1])
    resumed.load(watching.state())
    network.weight.data.fill_(course[-1])
    resumed.keep_best(network)
    assert network.weight.item() == pytest.approx(0.8)


def test_training_ends_before_its_budget_and_denoises():
    """Of so small a picture, noise is learned by heart: by the error of trained pixels, training would go on."""
    clean = data.coins()[60:156, 60:156].astype(np.float32)
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    model = Denoiser(Config(steps=1500, patch=32)).fit(noisy, progress=False)
    assert model.summary["stopped_early"] and not model.summary["interrupted"]
    assert 2 * FIRST_WARM < model.summary["steps"] < 1300
    assert psnr(clean, model.denoise(noisy), data_range=255) > psnr(clean, noisy, data_range=255) + 4


class Of(nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_the_output_is_blended_with_the_input_by_what_is_best_for_each_channel(pair):
    clean, noisy = pair
    both = torch.cat([noisy, clean + 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))], 1)
    patches = Patches([both], patch=(64, 64), batch=16, targets=[clean.expand_as(both)])
    watching = StopRule(patches, Facts(2, 2, sigma=(SIGMA, 0.1), kind="gaussian"), seed=0)
    blurred = Blur((1.0, 1.0))
    weights = watching.blend(Of(blurred))
    assert weights is not None
    best = []
    for c in range(2):
        x, y = (torch.cat([batch[i][:, c : c + 1] for batch in watching.batches]) for i in (0, 1))
        change = blurred(x) - x
        best.append(float((change * (y - x)).sum() / change.square().sum()))
    assert best[0] > 0.7 and best[1] < 0.45  # a blur helps a noisy channel, and ruins a clean one
    assert weights == pytest.approx([min(1, 1.2 * one) for one in best], abs=0.06)
    assert watching.blend(nn.Identity()) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("facts", "options"),
    [
        ({"kind": "impulse"}, {}),
        ({"kind": "unknown"}, {}),
        ({"correlation": ((0.5,), (0.5,))}, {}),
        ({}, {"strengths": [2.0]}),
    ],
)
def test_nothing_is_blended_where_the_risk_cannot_be_estimated(pair, facts, options):
    patches = Patches([pair[1]], patch=(64, 64), batch=16, **options)
    told = {"kind": "gaussian"} | facts
    assert StopRule(patches, Facts(2, 1, sigma=(SIGMA,), **told), seed=0).blend(Blur((1.0, 1.0))) is None


def test_it_says_whether_the_weights_are_those_from_before_the_training(pair):
    noisy = pair[1]
    watching, network = rule(noisy), Mix(0.2)
    network.share = nn.Parameter(torch.tensor(0.2))
    watching.note(network, begins=True)
    put(network, 0.9)
    assert watching.keep_best(network) and network.share.item() == pytest.approx(0.2)
    later = rule(noisy)
    put(network, 0.9)
    later.note(network, begins=True)
    put(network, 0.2)
    later.is_done(network)
    put(network, 0.9)
    assert not later.keep_best(network) and network.share.item() == pytest.approx(0.2)


def put(network, share):
    with torch.no_grad():
        network.share.fill_(share)
