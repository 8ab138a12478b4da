"""Noise models of the user: from a file or a function, and what can be wrong with them."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch

from noise2same import Config, Denoiser
from noise2same.errors import InputError
from noise2same.model_file import read_model, write_model
from noise2same.noise.simulate import check, draw, load

CLEAN = np.full((2, 1, 32, 32), 10, np.float32)
RNG = np.random.default_rng(0)


def test_a_file_with_a_function(tmp_path):
    file = tmp_path / "camera.py"
    file.write_text("import numpy as np\n\ndef sample(clean):\n    return clean + np.ones_like(clean)\n")
    np.testing.assert_array_equal(draw(load(file), CLEAN), CLEAN + 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [("x = 1", "no function sample"), ("import nothing_of_the_kind", "does not run"), (")", "does not run")],
)
def test_a_file_that_is_no_noise_model(tmp_path, text, words):
    file = tmp_path / "camera.py"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        load(file)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (lambda y: y[0], "shape"),
        (lambda y: y / 0 * 0, "finite"),
        (lambda y: [["a"]], "shape"),
        (lambda y: y + missing, "NameError"),  # noqa: F821 # a typing error in a user's function, which is what is tested
        (lambda y: y, "no noise"),
    ],
)
def test_a_simulator_that_does_not_work(sample, words):
    with pytest.raises(InputError, match=words), np.errstate(all="ignore"):
        check(sample, CLEAN)


def test_noise_with_a_mean_is_warned_about():
    with pytest.warns(UserWarning, match="not zero on average but 1"):
        check(lambda y: y + RNG.normal(1, 1, y.shape), CLEAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(lambda y: RNG.poisson(y), CLEAN)


def test_noise_that_pulls_bright_and_dark_together_is_refused():
    with pytest.raises(InputError, match="in dark and -"):
        check(lambda y: np.where(RNG.random(y.shape) < 0.5, y, 30) + RNG.normal(0, 1, y.shape), np.linspace(0, 60, 900))


def test_it_is_used_in_training_and_named_in_the_model(tmp_path):
    called = []

    def sample(y):
        called.append(y.shape)
        return y + RNG.normal(0, 20, y.shape)

    noisy = RNG.normal(100, 20, (64, 64)).astype(np.float32)
    model = Denoiser(Config(noise_model=sample, steps=2)).fit(noisy, progress=False)
    assert len(called) > 2 and "covariance" in model.summary["terms"]
    loaded = Denoiser.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.denoise(noisy), model.denoise(noisy))
    assert loaded.config.noise_model == "simulated"


@pytest.fixture
def trap(tmp_path, trained):
    """A model whose header names a Python file, as older versions wrote it, and the file that shows that it ran."""
    ran, file = tmp_path / "ran", tmp_path / "trap.py"
    file.write_text(f"open({str(ran)!r}, 'w').close()\nsample = lambda y: y + 1")
    header, weights = read_model(trained)
    header["config"]["noise_model"] = str(file)
    model = tmp_path / "m.safetensors"
    write_model(model, header, weights)
    return model, ran


def test_a_file_that_a_model_names_is_never_run(trap, run, monkeypatch, tmp_path):
    model, ran = trap
    noisy = RNG.normal(100, 20, (64, 64)).astype(np.float32)
    np.save(tmp_path / "in.npy", noisy)
    loaded = Denoiser.load(model)
    assert loaded.config.noise_model == "simulated" and loaded.denoise(noisy).shape == noisy.shape
    with pytest.raises(InputError, match="give noise_model again"):
        loaded.fit(noisy, resume=True, progress=False)
    monkeypatch.chdir(tmp_path)
    code, _, error = run("train", "in.npy", "-m", model, "--resume", "--steps", 2)
    assert code == 2 and "give noise_model again" in error
    assert run("info", model)[0] == 0
    assert not ran.exists()


def test_training_goes_on_with_the_file_that_is_given_again(trap, run, tmp_path):
    model, ran = trap
    np.save(tmp_path / "in.npy", RNG.normal(100, 20, (64, 64)).astype(np.float32))
    own = tmp_path / "own.py"
    own.write_text("import numpy as np\nsample = lambda y: y + np.random.default_rng().normal(0, 20, y.shape)")
    code, _, error = run("train", tmp_path / "in.npy", "-m", model, "--resume", "--steps", 2, "--noise-model", own)
    assert code == 0, error
    assert not ran.exists()
    assert "own.py" not in json.dumps(read_model(model)[0])


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    ran, checkpoint = tmp_path / "ran", tmp_path / "run.ckpt"

    class Trap:
        def __reduce__(self):
            return open, (str(ran), "w")

    torch.save({"noise2same": Trap()}, checkpoint)
    noisy = RNG.normal(100, 20, (64, 64)).astype(np.float32)
    with pytest.raises(InputError, match=r"run\.ckpt"):
        Denoiser(Config(steps=2, features=4)).fit(noisy, checkpoint=checkpoint, resume=True, progress=False)
    assert not ran.exists()
