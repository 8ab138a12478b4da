"""Training: reproducible, interruptible, resumable."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from noise2same.config import Config
from noise2same.data.patches import Patches
from noise2same.errors import InputError
from noise2same.methods import Facts
from noise2same.methods.noise2same import Noise2Same
from noise2same.networks.unet import UNet
from noise2same.training import loop as training

CPU = torch.device("cpu")
FACTS = Facts(2, 1, sigma=(0.5,))


class Interrupting(Noise2Same):
    """Sends this process a signal at a given step, as a user would with Ctrl-C or a cluster with SIGTERM."""

    def __init__(self, config, facts, step, number):
        super().__init__(config, facts)
        self.left, self.number = step, number

    def __call__(self, network, batch, generator):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)
        return super().__call__(network, batch, generator)


def run(method=None, *, steps=12, seed=0, **options):
    torch.manual_seed(seed)
    network = UNet(2, 1, features=4, levels=2, block="plain")
    image = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(1))
    config = options.pop("config", None) or Config(steps=steps, seed=seed, batch=4, patch=16)
    patches = Patches([image], patch=config.patch_of(2), batch=config.batch)
    outcome = training.fit(
        network,
        method or Noise2Same(config, FACTS),
        patches,
        config,
        device=CPU,
        progress=False,
        **options,
    )
    return network.state_dict(), outcome


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_the_same_seed_gives_the_same_weights_and_another_others():
    first, outcome = run()
    assert outcome.steps == 12 and not outcome.interrupted
    assert set(outcome.terms) == {"reconstruction", "invariance", "masked"}
    assert same(first, run()[0])
    assert not same(first, run(seed=1)[0])


def test_the_history_tells_how_it_went():
    _, outcome = run(steps=640)
    steps = [point["step"] for point in outcome.history]
    assert 40 < len(steps) <= 60 and steps == sorted(steps) and steps[-1] > 620
    assert all({"seconds", "reconstruction", "invariance"} <= set(point) for point in outcome.history)
    assert any("error" in point for point in outcome.history)  # of the stop rule, from step 600 on


def test_one_bright_patch_does_not_ruin_what_was_learned():
    class Method(Noise2Same):
        """The loss of one step is a million times that of the others."""

        left = 10

        def __call__(self, network, batch, generator):
            self.left -= 1
            terms = super().__call__(network, batch, generator)
            return {name: 1e6 * term if self.left == 0 else term for name, term in terms.items()}

    def changed_by(clip):
        config = Config(steps=14, batch=4, patch=16, ema=0.0, clip=clip)
        (plain, _), (spoilt, _) = (run(method(config, FACTS), config=config) for method in (Noise2Same, Method))
        names = [name for name in plain if name.endswith("weight")]
        return float(sum((plain[name] - spoilt[name]).abs().sum() for name in names))

    assert changed_by(2.0) < 0.5 * changed_by(0.0)


def test_batch_norm_keeps_its_statistics_for_the_rest_of_the_run():
    def batches_seen(settle):
        weights, _ = run(config=Config(steps=12, batch=4, patch=16, ema=0.0, settle=settle))
        return {int(value) for name, value in weights.items() if "num_batches" in name}

    assert batches_seen(0.5) == {6}
    assert batches_seen(1.0) == {12}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_resumes_to_the_same_result(tmp_path, number):
    checkpoint = tmp_path / "run.ckpt"
    config = Config(steps=12, batch=4, patch=16)
    handler = signal.getsignal(number)
    kept, outcome = run(Interrupting(config, FACTS, 5, number), config=config, checkpoint=checkpoint)
    assert outcome.interrupted and outcome.steps == 5 and checkpoint.exists()
    assert signal.getsignal(number) == handler
    resumed, outcome = run(config=config, checkpoint=checkpoint, resume=True)
    assert outcome.steps == 12 and not outcome.interrupted
    never_stopped, _ = run(config=config)
    assert same(resumed, never_stopped) and not same(kept, resumed)
    steps = [point["step"] for point in outcome.history]
    assert steps == sorted(set(steps)) and steps[0] < 10 < steps[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


def test_checkpoints_are_written_while_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    seen = []

    class Looking(Noise2Same):
        def __call__(self, *arguments):
            seen.append((tmp_path / "run.ckpt").exists())
            return super().__call__(*arguments)

    run(Looking(Config(), FACTS), steps=4, checkpoint=tmp_path / "run.ckpt")
    assert seen == [False, True, True, True]


def test_a_budget_in_minutes_is_kept():
    config = Config(minutes=0.03, batch=4, patch=16)
    _, outcome = run(config=config)
    assert not outcome.interrupted and outcome.steps > 1
    assert outcome.seconds >= 60 * 0.03


def test_schedules():
    class Step:
        config, progress, global_step = Config(), 0.0, 1000
        schedule = training.Training._schedule

    step = Step()
    assert step.schedule() == pytest.approx(1)
    step.progress = 1.0
    assert step.schedule() == pytest.approx(0)
    step.config = Config(preset="paper")
    step.progress = 4_999 / 50_000
    assert step.schedule() == 1
    step.progress = 15_000 / 50_000
    assert step.schedule() == 0.5**3


def test_loss_terms_are_logged(tmp_path):
    run(steps=20, log=tmp_path)
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert "reconstruction" in lines[0] and "invariance" in lines[0] and len(lines) == 3
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    checkpoint = tmp_path / "run.ckpt"
    checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"run\.ckpt"):
        run(checkpoint=checkpoint, resume=True)


class Diverging(Noise2Same):
    """The loss, or its gradient alone, is not a number at a given step."""

    def __init__(self, config, facts, step, *, silent=False):
        super().__init__(config, facts)
        self.left, self.silent = step, silent

    def __call__(self, network, batch, generator):
        self.left -= 1
        terms = super().__call__(network, batch, generator)
        if self.left == 0 and self.silent:
            weight = next(network.parameters()).flatten()[0]
            return terms | {"masked": terms["masked"] + 0 * (weight - weight.detach()).sqrt()}  # 0 · ∞ in its gradient
        return {name: value * float("nan") if self.left == 0 else value for name, value in terms.items()}


def finite(value):
    """Whether all numbers in a checkpoint are."""
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return bool(torch.as_tensor(value).isfinite().all()) if isinstance(value, float | torch.Tensor) else True


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("ema", [0.0, 0.999])
def test_a_run_that_diverges_ends_with_its_last_good_weights(tmp_path, monkeypatch, ema, silent):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    config, checkpoint = Config(steps=40, batch=4, patch=16, ema=ema), tmp_path / "run.ckpt"
    kept, outcome = run(Diverging(config, FACTS, 20, silent=silent), config=config, checkpoint=checkpoint)
    assert outcome.diverged and outcome.steps == 19
    assert finite([kept, outcome.terms, outcome.history])
    state = torch.load(checkpoint, weights_only=True)
    assert state["global_step"] == 19 and finite({**state, "noise2same": state["noise2same"] | {"rule": {}}})
    resumed, outcome = run(config=config, checkpoint=checkpoint, resume=True)
    assert not outcome.diverged and same(resumed, run(config=config)[0])


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("step", [1, 430, 500])
def test_no_step_may_diverge(step, silent):
    config = Config(steps=500, batch=1, patch=8)
    weights, outcome = run(Diverging(config, FACTS, step, silent=silent), config=config)
    assert outcome.diverged and step - 50 <= outcome.steps < step and finite(weights)


def test_a_checkpoint_that_is_not_finite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    checkpoint = tmp_path / "run.ckpt"
    run(steps=4, checkpoint=checkpoint)
    state = torch.load(checkpoint, weights_only=True)
    for values in state["state_dict"].values():
        values.fill_(float("nan") if values.is_floating_point() else 0)
    torch.save(state, checkpoint)
    with pytest.raises(InputError, match=r"run\.ckpt holds NaN"):
        run(checkpoint=checkpoint, resume=True)


def test_lack_of_memory_is_one_sentence():
    class Greedy(Noise2Same):
        def __call__(self, *arguments):
            raise torch.OutOfMemoryError("no memory left")

    with pytest.raises(InputError, match="smaller batch than 4"):
        run(Greedy(Config(), FACTS))
