"""A budget in minutes that bought too few steps is noticed and said."""

from __future__ import annotations

import time

import numpy as np
import pytest

from noise2same import Config, Denoiser
from noise2same.plan import FIRST_CHECK_STEP_PRETRAINED
from noise2same.training.pace import Occasionally, fastest

IMAGE = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.float32)


def test_the_fastest_tenth():
    assert fastest([]) == fastest([{"step": 1, "seconds": 2.0}]) == 0
    slow_in_the_end = [{"step": step, "seconds": step / 10 + max(0, step - 50)} for step in range(1, 60)]
    assert fastest(slow_in_the_end) == pytest.approx(10)
    a_lucky_moment = [{"step": 0, "seconds": 0.0}, {"step": 9, "seconds": 0.001}, {"step": 50, "seconds": 10.0}]
    assert fastest(a_lucky_moment) == pytest.approx(5)


def test_a_run_that_others_slow_down_is_noticed():
    told = []
    model = Denoiser(Config(minutes=0.05, features=16, batch=1, patch=32))
    model.fit(IMAGE, progress=False, say=told.append, on_step=lambda state: time.sleep(0.1))
    assert model.summary["steps"] < FIRST_CHECK_STEP_PRETRAINED
    assert told[-1] == model.summary["starved"] and "--steps" in told[-1]


@pytest.mark.parametrize("options", [{"steps": 3}, {"minutes": 5}])
def test_a_budget_in_steps_and_a_run_that_is_stopped_are_not_starved(options):
    model = Denoiser(Config(features=4, batch=1, patch=32, **options))
    model.fit(IMAGE, progress=False, on_step=lambda state: state.step == 3)
    assert model.summary["steps"] == 3 and model.summary["starved"] is None


def test_what_takes_long_is_done_more_seldom():
    done = []

    def act():
        done.append(time.monotonic())
        time.sleep(0.05)

    occasionally, end = Occasionally(0.0, share=0.2), time.monotonic() + 0.6
    while time.monotonic() < end:
        occasionally(act)
    pauses = np.diff(done)
    assert len(pauses) and pauses.min() > 0.24  # a fifth of the time
    never = Occasionally(100.0)
    never(act)
    assert len(done) == len(pauses) + 1
