"""The progress bar and the schedule."""

from __future__ import annotations

import pytest
from runs import run

from noise2same.plan import Recipe
from noise2same.training.progress import ProgressBar
from noise2same.training.schedule import ema_decay, learning_rate_factor
from noise2same.training.state import to_all


def test_ten_lines_without_a_terminal(capsys):
    with ProgressBar() as bar:
        run(recipe=Recipe(steps=102), on_step=bar)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and [line.split(" %")[0] for line in lines] == [
        f"Training {share:3d}" for share in range(10, 101, 10)
    ]
    assert all("step" in line and "reconstruction" in line for line in lines) and "step 102" in lines[-1]


def test_nothing_is_shown_before_the_first_step(capsys):
    with ProgressBar():
        pass
    assert capsys.readouterr() == ("", "")


def test_every_listener_is_called_although_one_wants_to_stop():
    seen = []
    both = to_all(lambda state: True, None, lambda state: seen.append(state))
    assert both("state") is True and seen == ["state"]
    assert to_all()("state") is False


def test_the_cosine_warms_up_and_falls_to_zero():
    factors = [learning_rate_factor("cosine", step, step / 1000) for step in range(1001)]
    assert factors[0] == pytest.approx(0.05) and max(factors) == pytest.approx(factors[19], rel=1e-2)
    assert factors[20:] == sorted(factors[20:], reverse=True) and factors[-1] == 0
    assert learning_rate_factor("cosine", 10**6, 1.5) == 0  # a budget in minutes may be overdrawn


def test_the_paper_halves_the_learning_rate_every_5000_of_50000_steps():
    assert learning_rate_factor("halving", 0, 4_999 / 50_000) == 1
    assert learning_rate_factor("halving", 15_000, 15_000 / 50_000) == 0.5**3


def test_averaged_weights_have_a_short_memory_at_first():
    decays = [ema_decay(0.999, step) for step in (1, 10, 100, 10_000, 10**6)]
    assert decays == sorted(decays) and decays[0] < 0.2 and decays[-1] == 0.999
