"""`noise2same plan`, and --plan, which repeats a run; methods of other packages, and their settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import noise2same
from noise2same import Denoiser, Plan
from noise2same.networks.separate import Separate

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--steps", 5, "--set", "features=4", "--set", "batch=2", "--set", "patch=32")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a gray image and one of three channels."""
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", noisy())
    np.save("color.npy", np.stack([noisy(1), noisy(2), noisy(3)], -1))
    return tmp_path


def noisy(seed: int = 0) -> Any:
    wave = 120 + 60 * np.sin(np.arange(64) / 5)
    return np.clip(wave + np.random.default_rng(seed).normal(0, 20, (64, 64)), 0, 255).astype(np.uint8)


def same_weights(a: str, b: str) -> bool:
    one, other = load_file(a), load_file(b)
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def test_a_plan_explains_and_trains_nothing(run: Run, here: Path) -> None:
    before = sorted(here.iterdir())
    code, out, err = run("plan", "in.npy", *SMALL)
    assert (code, err) == (0, "")
    for words in ("method", "5 steps", "learning rate", "because", "it was asked for"):
        assert words in out
    assert sorted(here.iterdir()) == before


def test_a_plan_repeats_a_run_bit_for_bit(run: Run) -> None:
    code, out, err = run("plan", "in.npy", *SMALL, "--seed", 3, "--json")
    assert (code, err) == (0, "")
    Path("plan.json").write_text(out)
    assert json.loads(out)["config"]["seed"] == 3 and Plan.read("plan.json").budget.value.steps == 5
    assert run("train", "in.npy", "-m", "a.safetensors", *SMALL, "--seed", 3)[0] == 0
    assert run("train", "in.npy", "-m", "b.safetensors", "--plan", "plan.json")[0] == 0
    assert same_weights("a.safetensors", "b.safetensors")
    assert run("denoise", "in.npy", "-o", "a.npy", "-m", "a.safetensors")[0] == 0
    code, _, err = run("denoise", "in.npy", "-o", "b.npy", "--plan", "plan.json")
    assert code == 0 and "Training" in err
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    kept = json.loads(run("info", "b.safetensors", "--json")[1])["plan"]
    assert kept == json.loads(out)


def test_an_edited_plan_changes_the_run(run: Run) -> None:
    plan = json.loads(run("plan", "in.npy", *SMALL, "--json")[1])
    plan["budget"]["value"]["steps"] = 2
    Path("plan.json").write_text(json.dumps(plan))
    assert run("train", "in.npy", "-m", "m.safetensors", "--plan", "plan.json")[0] == 0
    assert Denoiser.load("m.safetensors").summary["steps"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in.npy", "--plan", "plan.json", "--steps", 3), ("--steps", "the plan has all settings")),
        (("in.npy", "--plan", "plan.json", "--set", "seed=3"), ("--set", "the plan has all settings")),
        (("in.npy", "--plan", "plan.json", "--from-scratch"), ("--from-scratch", "leave this out, or --plan")),
        (("color.npy", "--plan", "plan.json"), ("The plan is for 2D images with 1 channel", "with 3")),
        (("color.npy", "--axes", "ZYX", "--plan", "plan.json"), ("The plan is for 2D images", "these are 3D")),
        (("in.npy", "--plan", "none.json"), ("none.json does not exist",)),
        (("in.npy", "--plan", "in.npy"), ("in.npy", "cannot be read")),
        (("in.npy", "--plan", "text.json"), ("text.json is not a plan", "noise2same plan")),
    ],
)
def test_what_does_not_go_with_a_plan(run: Run, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    Path("plan.json").write_text(run("plan", "in.npy", *SMALL, "--json")[1])
    Path("text.json").write_text('{"steps": 3}')
    for command in (("denoise", "-o", "new/out.npy"), ("train", "-m", "m.safetensors")):
        code, out, err = run(*command, *arguments)
        assert (code, out) == (2, "") and err.startswith("Error: ") and err.count("\n") == 1, err
        assert all(word in err for word in words), err
    assert not Path("new").exists() and not Path("m.safetensors").exists()


def test_a_plan_is_for_training(run: Run, trained: Path) -> None:
    Path("plan.json").write_text(run("plan", "in.npy", *SMALL, "--json")[1])
    code, _, err = run("denoise", "in.npy", "-o", "out.npy", "-m", trained, "--plan", "plan.json")
    assert code == 2 and "--plan is for training, but --model is trained already" in err


# methods


def test_methods_are_listed_with_their_settings(run: Run) -> None:
    rows = json.loads(run("methods", "--json")[1])
    assert list(rows)[:4] == ["auto", "noise2same", "projected", "sure"]
    assert rows["noise2same"]["settings"]["lambda_inv"] == "auto"
    assert rows["noise2true"]["needs"] == "noisy images and clean targets"
    code, out, err = run("methods")
    assert (code, err) == (0, "") and all(name in out for name in rows)


def test_settings_of_a_method(run: Run) -> None:
    command = ("train", "in.npy", "-m", "m.safetensors", *SMALL)
    assert run(*command, "--method", "noise2same", "--lambda-inv", "0.5", "--set", "mask_density=0.2")[0] == 0
    plan = Denoiser.load("m.safetensors").plan
    assert plan is not None and plan.lambda_inv is not None and plan.lambda_inv.value == (0.5,)
    code, _, err = run(*command, "--set", "speed=9")
    assert code == 2 and "speed: there is no such setting; there are preset, method," in err
    code, _, err = run(*command, "--method", "noise2void", "--lambda-inv", "1")
    assert code == 2 and "noise2void does not use lambda_inv: leave it out, or use noise2same" in err


# a package that adds a method with a setting of its own
TOY = """
from typing import Annotated
from pydantic import Field
from noise2same.methods import Method
from noise2same.methods.base import Settings

class ToySettings(Settings):
    pull: Annotated[float, Field(gt=0, description="How strongly values are drawn to the mean.")] = 1.0

class Toy(Method):
    name, when, Settings = "toy", "never", ToySettings

    def __call__(self, network, batch, generator):
        return {"toy": self.settings.pull * (network(batch.x) - batch.x.mean()).square().mean()}
"""


@pytest.fixture
def toy(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class, whose package is installed with its entry point."""
    site = tmp_path_factory.mktemp("site")
    (site / "toy_denoiser.py").write_text(TOY)
    info = site / "toy_denoiser-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-denoiser\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[noise2same.methods]\ntoy = toy_denoiser:Toy\n")
    monkeypatch.syspath_prepend(str(site))
    import toy_denoiser

    yield toy_denoiser.Toy
    del sys.modules["toy_denoiser"]


def test_a_method_of_another_package(run: Run, toy: Any) -> None:
    assert json.loads(run("methods", "--json")[1])["toy"]["settings"] == {"pull": 1.0}
    command = ("train", "in.npy", "-m", "m.safetensors", *SMALL, "--method", "toy")
    code, _, err = run(*command, "--set", "pull=3")
    assert code == 0 and "Method: toy, because it was asked for." in err
    model = Denoiser.load("m.safetensors")
    assert model.config.method_settings == {"pull": 3} and "toy" in model.summary["terms"]
    assert run("denoise", "in.npy", "-o", "out.npy", "-m", "m.safetensors")[0] == 0
    code, _, err = run(*command, "--set", "pull=-1")
    assert code == 2 and "pull=-1: it should be greater than 0." in err
    code, _, err = run(*command, "--set", "push=1")
    assert code == 2 and "push: there is no such setting" in err and "pull" in err


def test_a_method_given_as_a_class(toy: Any) -> None:
    options: dict[str, Any] = {"steps": 3, "features": 4, "batch": 2, "patch": 32, "progress": False}
    weak, strong = (noise2same.train(noisy(), method=toy, pull=pull, **options) for pull in (1.0, 4.0))
    assert strong.summary["terms"]["toy"] > 2 * weak.summary["terms"]["toy"]
    assert noise2same.denoise(noisy(), method=toy, **options).shape == (64, 64)


def test_channels_by_hand(run: Run) -> None:
    image = ("color.npy", "--axes", "YXC")
    reason = json.loads(run("plan", *image, *SMALL, "--channels", "joint", "--json")[1])["channels"]
    assert reason == {"value": "joint", "reason": "it was asked for"}
    assert run("train", *image, "-m", "m.safetensors", *SMALL, "--channels", "separate")[0] == 0
    model = Denoiser.load("m.safetensors")
    assert isinstance(model.network, Separate) and model.config.channels == "separate"
    assert run("denoise", *image, "-o", "a.npy", "-m", "m.safetensors")[0] == 0
    assert run("denoise", *image, "-o", "b.npy", *SMALL, "--channels", "separate")[0] == 0
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    code, _, err = run("train", *image, "-m", "m.safetensors", "--resume", "--steps", 2, "--channels", "joint")
    assert code == 2 and "channels=separate, which cannot change" in err
    assert run("train", *image, "-m", "m.safetensors", "--resume", "--steps", 2)[0] == 0
    assert isinstance(Denoiser.load("m.safetensors").network, Separate)
    code, _, err = run("plan", *image, "--channels", "apart")
    assert code == 2 and "channels=apart: it should be 'auto', 'joint' or 'separate'" in err
