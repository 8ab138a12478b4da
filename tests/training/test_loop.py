"""Training: reproducible, can be interrupted, resumed and stopped by a listener."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import numpy as np
import pytest
import torch
from runs import PROFILE, method_of, run, same
from torch import nn

from noise2same import Config, Denoiser
from noise2same.errors import InputError
from noise2same.methods.projected import Projected, ProjectedSettings
from noise2same.noise.model import NoiseModel
from noise2same.plan import FIRST_CHECK_STEP, Recipe
from noise2same.training import loop
from noise2same.training.held_out import HeldOutSure


class Interrupting(Projected):
    """Sends this process a signal at a given step, as a user would with Ctrl-C or a cluster with SIGTERM."""

    def __init__(self, step, *numbers):
        super().__init__(ProjectedSettings(), PROFILE)
        self.left, self.numbers = step, numbers

    def __call__(self, network, batch, generator):
        self.left -= 1
        if self.left == 0:
            for number in self.numbers:
                os.kill(os.getpid(), number)
        return super().__call__(network, batch, generator)


def by_sure(patches):
    return HeldOutSure(patches, NoiseModel.gaussian(0.5), seed=0)


def test_the_same_seed_gives_the_same_weights_and_another_others():
    first, outcome = run()
    assert outcome.steps == 12 and not outcome.interrupted and not outcome.stopped
    assert set(outcome.terms) == {"reconstruction", "invariance", "masked"}
    assert same(first, run()[0])
    assert not same(first, run(recipe=Recipe(steps=12, seed=1))[0])


def test_the_history_tells_how_it_went():
    _, outcome = run(recipe=Recipe(steps=640), held_out=by_sure)
    steps = [point["step"] for point in outcome.history]
    assert 40 < len(steps) <= 60 and steps == sorted(steps) and steps[-1] > 620
    assert all({"seconds", "reconstruction", "invariance"} <= set(point) for point in outcome.history)
    measured = [point["step"] for point in outcome.history if "error" in point]
    assert measured == [FIRST_CHECK_STEP]


def test_one_bright_patch_does_not_ruin_what_was_learned():
    class Bright(Projected):
        """The loss of one step is a million times that of the others."""

        left = 10

        def __call__(self, network, batch, generator):
            self.left -= 1
            terms = super().__call__(network, batch, generator)
            return {name: 1e6 * term if self.left == 0 else term for name, term in terms.items()}

    def changed_by(clip):
        recipe = Recipe(steps=14, ema=0.0, clip=clip)
        (plain, _), (spoilt, _) = (run(method_of(kind), recipe=recipe) for kind in (Projected, Bright))
        names = [name for name in plain if name.endswith("weight")]
        return float(sum((plain[name] - spoilt[name]).abs().sum() for name in names))

    assert changed_by(2.0) < 0.5 * changed_by(0.0)


@pytest.mark.parametrize(("share", "batches"), [(0.0, 0), (0.5, 6), (1.0, 12)])
def test_batch_norm_keeps_its_statistics_for_the_rest_of_the_run(share, batches):
    weights, _ = run(recipe=Recipe(steps=12, ema=0.0, freeze_bn_after=share))
    assert {int(value) for name, value in weights.items() if "num_batches" in name} == {batches}


def test_a_budget_in_minutes_is_kept():
    _, outcome = run(recipe=Recipe(minutes=0.03))
    assert not outcome.interrupted and outcome.steps > 1
    assert outcome.seconds >= 60 * 0.03


def test_a_recipe_has_one_budget():
    for budget in ({}, {"steps": 3, "minutes": 1.0}):
        with pytest.raises(ValueError, match="steps or in minutes"):
            Recipe(**budget)


def test_nothing_is_left_behind_in_the_process():
    """Training runs inside of napari and notebooks, too."""
    before = torch.get_float32_matmul_precision()
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    environment, random = dict(os.environ), torch.random.get_rng_state()
    torch.set_float32_matmul_precision("highest")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run()
            torch.random.set_rng_state(random)
        assert torch.get_float32_matmul_precision() == "highest"
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
        assert dict(os.environ) == environment and torch.is_grad_enabled()
        assert not torch.distributed.is_initialized()
    finally:
        torch.set_float32_matmul_precision(before)


def test_runs_in_threads_do_not_disturb_each_other():
    """Signals cannot be handled there, and accelerate keeps its state in the class."""
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(run()[1])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.steps for outcome in outcomes] == [12] * 3


# interruptions


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_resumes_to_the_same_result(tmp_path, number):
    checkpoint = tmp_path / "run.ckpt"
    handler = signal.getsignal(number)
    kept, outcome = run(Interrupting(5, number), checkpoint=checkpoint)
    assert outcome.interrupted and not outcome.stopped and outcome.steps == 5 and checkpoint.exists()
    assert signal.getsignal(number) == handler
    resumed, outcome = run(checkpoint=checkpoint, resume=True)
    assert outcome.steps == 12 and not outcome.interrupted
    never_stopped, _ = run()
    assert same(resumed, never_stopped) and not same(kept, resumed)
    steps = [point["step"] for point in outcome.history]
    assert steps == sorted(set(steps)) and steps[0] < 10 < steps[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


class Level:
    """A measure of the error that never sees a difference."""

    resolution = 1e-6

    def error(self, network):
        return 1.0


def test_early_stopping_resumes_to_the_same_result(tmp_path):
    """Interrupted in the cool-down, whose start is in the checkpoint."""
    checkpoint, recipe = tmp_path / "run.ckpt", Recipe(steps=4000, pretrained=True)
    options = {"recipe": recipe, "held_out": lambda patches: Level()}
    shares = []
    whole, outcome = run(**options, on_step=lambda state: shares.append(state.share))
    assert outcome.stopped_early and outcome.steps < 1000
    assert shares == sorted(shares) and shares[-1] == 1
    interrupting = Interrupting(outcome.steps - 5, signal.SIGINT)
    _, first = run(interrupting, **options, checkpoint=checkpoint)
    assert first.interrupted and first.stopped_early
    resumed, second = run(**options, checkpoint=checkpoint, resume=True)
    assert second.steps == outcome.steps and same(resumed, whole)


def test_a_second_ctrl_c_is_an_ordinary_interrupt():
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(Interrupting(3, signal.SIGINT, signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) == handler


# listeners


@pytest.mark.parametrize("answer", [True, "stop"])
def test_a_listener_stops_the_run_and_what_was_learned_is_kept(tmp_path, answer):
    checkpoint, steps = tmp_path / "run.ckpt", []

    def listen(state):
        steps.append(state.step)
        return answer if state.step == 7 else None

    kept, outcome = run(on_step=listen, checkpoint=checkpoint)
    assert steps == list(range(1, 8))
    assert outcome.stopped and not outcome.interrupted and outcome.steps == 7
    resumed, _ = run(checkpoint=checkpoint, resume=True)
    assert same(resumed, run()[0]) and not same(kept, resumed)


@pytest.mark.parametrize("answer", [None, False, "go on"])
def test_any_other_answer_lets_it_go_on(answer):
    _, outcome = run(on_step=lambda state: answer)
    assert outcome.steps == 12 and not outcome.stopped


def test_a_listener_sees_the_run():
    states, previews = [], {}

    def listen(state):
        states.append(state)
        if state.step in (6, 12):
            previews[state.step] = state.preview()

    weights, outcome = run(on_step=listen)
    assert [state.step for state in states] == list(range(1, 13))
    assert [state.share for state in states] == pytest.approx([step / 12 for step in range(1, 13)])
    assert states[-1].seconds_left == 0 and states[3].seconds_left > 0
    assert states[-1].terms == outcome.terms and states[4].terms != outcome.terms
    assert same(previews[12].state_dict(), weights) and not same(previews[6].state_dict(), weights)
    assert not previews[6].training
    assert same(weights, run()[0])  # looking changes nothing


def test_the_figures_of_a_point_join_the_history():
    seen = []

    def look(network):
        assert isinstance(network, nn.Module) and not network.training
        seen.append(float(next(network.parameters()).sum()))
        return {"sum": seen[-1]}

    weights, outcome = run(recipe=Recipe(steps=100), on_point=look)
    assert [point["sum"] for point in outcome.history] == seen and len(seen) == 51
    assert same(weights, run(recipe=Recipe(steps=100))[0])


# checkpoints


def test_checkpoints_are_written_while_training(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    seen = []
    run(recipe=Recipe(steps=4), checkpoint=tmp_path / "run.ckpt", on_step=lambda _: seen.append(exists(tmp_path)))
    assert seen == [False, True, True, True]


def exists(folder):
    return (folder / "run.ckpt").exists()


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    with pytest.warns(UserWarning, match=r"run\.ckpt cannot be written.*Training goes on") as said:
        weights, outcome = run(checkpoint=tmp_path / "nowhere" / "run.ckpt")
    assert outcome.steps == 12 and same(weights, run()[0]) and len(said) == 1


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    checkpoint = tmp_path / "run.ckpt"
    checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"run\.ckpt does not fit"):
        run(checkpoint=checkpoint, resume=True)
    torch.save({"state_dict": {}, "global_step": 3}, checkpoint)
    with pytest.raises(InputError, match=r"run\.ckpt does not fit"):
        run(checkpoint=checkpoint, resume=True)


class Evil:
    """Would write a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_a_checkpoint_runs_no_code(tmp_path):
    checkpoint = tmp_path / "run.ckpt"
    torch.save({"step": Evil(tmp_path / "proof")}, checkpoint)
    with pytest.raises(InputError, match=r"run\.ckpt does not fit"):
        run(checkpoint=checkpoint, resume=True)
    assert not (tmp_path / "proof").exists()


def test_a_checkpoint_that_is_not_finite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    checkpoint = tmp_path / "run.ckpt"
    run(recipe=Recipe(steps=4), checkpoint=checkpoint)
    state = torch.load(checkpoint, weights_only=True)
    for values in state["average"].values():
        values.fill_(float("nan") if values.is_floating_point() else 0)
    torch.save(state, checkpoint)
    with pytest.raises(InputError, match=r"run\.ckpt holds NaN"):
        run(checkpoint=checkpoint, resume=True)


class Greedy(Projected):
    """Takes more memory than there is for more than a number of patches."""

    most = 0

    def __call__(self, network, batch, generator):
        if len(batch.x) > self.most:
            torch.empty(2**60, dtype=torch.uint8)
        return super().__call__(network, batch, generator)


def test_lack_of_memory_makes_batches_of_parts(tmp_path):
    kind = type("Less", (Greedy,), {"most": 2, "name": "less"})
    with pytest.warns(UserWarning, match="ran out with 4 patches at once: training goes on with 2") as said:
        weights, outcome = run(method_of(kind), checkpoint=tmp_path / "run.ckpt", on_step=lambda state: state.step == 5)
    assert len(said) == 1 and outcome.steps == 5 and finite(weights)
    seen = []

    class Looking(Projected):
        def __call__(self, network, batch, generator):
            seen.append(len(batch.x))
            return super().__call__(network, batch, generator)

    _, outcome = run(method_of(Looking), checkpoint=tmp_path / "run.ckpt", resume=True)
    assert outcome.steps == 12 and seen == [2] * 14  # a resumed run does not try again what failed


def test_lack_of_memory_for_one_patch_is_one_sentence():
    with (
        pytest.warns(UserWarning, match="Memory ran out") as said,
        pytest.raises(InputError, match=r"1 patch\(es\) of 16 × 16 pixels at once: use a smaller batch"),
    ):
        run(method_of(Greedy))
    assert len(said) == 2


# divergence


class Diverging(Projected):
    """The loss, or its gradient alone, is not a number at given calls."""

    def __init__(self, *calls, silent=False):
        super().__init__(ProjectedSettings(), PROFILE)
        self.call, self.calls, self.silent = 0, calls, silent

    def __call__(self, network, batch, generator):
        self.call += 1
        terms = super().__call__(network, batch, generator)
        if self.call not in self.calls:
            return terms
        if self.silent:
            weight = next(network.parameters()).flatten()[0]
            return terms | {"masked": terms["masked"] + 0 * (weight - weight.detach()).sqrt()}  # 0 · ∞ in its gradient
        return {name: value * float("nan") for name, value in terms.items()}


ALWAYS = range(20, 10_000)
"""Calls of a method that diverges at step 20 and does so again, whatever is tried."""


def finite(value):
    """Whether all numbers in a checkpoint are, but for the loss range, which is infinite until it is known."""
    if isinstance(value, dict):
        return all(finite(part) for name, part in value.items() if not str(name).endswith("_loss"))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return bool(torch.as_tensor(value).isfinite().all()) if isinstance(value, float | torch.Tensor) else True


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("ema", [0.0, 0.999])
def test_a_run_that_always_diverges_ends_with_its_last_good_weights(tmp_path, monkeypatch, ema, silent):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    recipe, checkpoint = Recipe(steps=40, ema=ema), tmp_path / "run.ckpt"
    with pytest.warns(UserWarning, match="diverged at step 20: back to step 19") as said:
        kept, outcome = run(Diverging(*ALWAYS, silent=silent), recipe=recipe, checkpoint=checkpoint)
    assert outcome.diverged and outcome.steps == 19 and outcome.retries == 3
    assert [
        f"of at most {rate} (time {time} of 3)" in str(one.message)
        for one, rate, time in zip(said, ("0.001", "0.00033", "0.00011"), (1, 2, 3), strict=True)
    ] == [True] * 3
    assert finite([kept, outcome.terms, outcome.history])
    state = torch.load(checkpoint, weights_only=True)
    assert state["step"] == 19 and finite({**state, "early_stopping": {}})
    resumed, outcome = run(recipe=recipe, checkpoint=checkpoint, resume=True)
    assert not outcome.diverged and same(resumed, run(recipe=recipe)[0])


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("step", [1, 430, 500])
def test_no_step_may_diverge(step, silent):
    with pytest.warns(UserWarning, match="diverged at step"):
        weights, outcome = run(Diverging(*range(step, 10_000), silent=silent), recipe=Recipe(steps=500))
    assert outcome.diverged and step - 50 <= outcome.steps < step and finite(weights)


def test_a_run_that_diverged_once_goes_on_to_its_end():
    def one():
        with pytest.warns(UserWarning, match="diverged at step 30: back to step 29") as said:
            weights, outcome = run(Diverging(30), recipe=Recipe(steps=50))
        assert len(said) == 1 and outcome.steps == 50 and outcome.retries == 1 and not outcome.diverged
        return weights

    first = one()
    assert finite(first) and same(first, one()) and not same(first, run(recipe=Recipe(steps=50))[0])


@pytest.mark.parametrize("stop", [42, 110, 130])
def test_a_diverging_run_that_is_resumed_has_the_same_result(tmp_path, stop):
    """The checkpoint knows the state to go back to, which can be older than itself."""

    class Steep(Projected):
        """Not a number for some patches, which are drawn in some of the steps."""

        def __call__(self, network, batch, generator):
            terms = super().__call__(network, batch, generator)
            bad = batch.x.sum() > 63
            return {name: value * float("nan") if bad else value for name, value in terms.items()}

    options = {"recipe": Recipe(steps=2000, early_stopping=False, seed=1)}
    with pytest.warns(UserWarning, match="diverged at step"):
        whole, outcome = run(method_of(Steep), **options, on_step=lambda state: state.step == 150)
    assert outcome.retries == 3 and not outcome.diverged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(method_of(Steep), **options, checkpoint=tmp_path / "run.ckpt", on_step=lambda state: state.step == stop)
        resumed, again = run(
            method_of(Steep),
            **options,
            checkpoint=tmp_path / "run.ckpt",
            resume=True,
            on_step=lambda state: state.step == 150,
        )
    assert same(whole, resumed) and (again.retries, again.steps) == (outcome.retries, outcome.steps)


def test_a_loss_that_explodes_is_divergence():
    class Exploding(Projected):
        """A thousand times the loss, for a hundred calls."""

        call = 0

        def __call__(self, network, batch, generator):
            self.call += 1
            terms = super().__call__(network, batch, generator)
            return {name: 1e3 * term if 60 <= self.call < 160 else term for name, term in terms.items()}

    with pytest.warns(UserWarning, match="diverged at step 150: back to step"):
        _, outcome = run(method_of(Exploding), recipe=Recipe(steps=2500), on_step=lambda state: state.step == 200)
    assert outcome.retries == 1 and outcome.steps == 200


def test_a_listener_that_stops_a_diverged_run_gets_the_last_good_weights():
    method = Diverging(9, silent=True)  # which is not seen at once
    with pytest.warns(UserWarning, match="diverged at step 9"):
        weights, outcome = run(method, recipe=Recipe(steps=500), on_step=lambda state: state.step == 9)
    assert outcome.stopped and outcome.steps < 9 and finite(weights)


def test_the_log_of_a_run_that_went_back_has_each_step_once(tmp_path):
    with pytest.warns(UserWarning, match="diverged at step 45"):
        run(Diverging(45), recipe=Recipe(steps=60), log=tmp_path)
    rows = (tmp_path / "metrics.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == [10, 20, 30, 40, 50, 60]


# through the Denoiser


def test_a_denoiser_hands_its_listener_on(capsys):
    image = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.float32)
    model = Denoiser(Config(steps=30, features=4, batch=2, patch=32))
    model.fit(image, progress=False, on_step=lambda state: state.step == 4)
    assert model.summary["stopped"] and model.summary["steps"] == 4 and capsys.readouterr().err == ""
    assert np.isfinite(model.denoise(image)).all()
