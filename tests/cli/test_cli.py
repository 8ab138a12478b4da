"""The command line as a user meets it: files in, files out, and what happens when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import tifffile
import torch
from safetensors.numpy import load_file

from noise2same import __version__, io
from noise2same.denoiser import Denoiser
from noise2same.quality.metrics import evaluate

Run = Callable[..., tuple[int, str, str]]
NETWORK = ("--set", "features=4", "--set", "batch=2", "--set", "patch=32")
TINY = ("--steps", 3, *NETWORK)
PROGRAM = [sys.executable, "-m", "noise2same"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, so that what is left behind can be seen."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def noisy(*shape: int, dtype: str = "uint8", seed: int = 0) -> Any:
    """Smooth stripes with noise."""
    wave = 120 + 60 * np.sin(np.arange(shape[-1]) / 5)
    return np.clip(wave + np.random.default_rng(seed).normal(0, 20, shape), 0, 255).astype(dtype)


def names() -> list[str]:
    return sorted(str(path.relative_to(Path.cwd())) for path in Path.cwd().rglob("*") if path.is_file())


def same_weights(a: str, b: str) -> bool:
    one, other = load_file(a), load_file(b)
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def start(*arguments: object, program: list[str] = PROGRAM) -> subprocess.Popen[str]:
    # the threads are those of this process, so that results can be compared bit by bit
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    command = [*program, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


# denoise


def test_one_command_denoises_a_png(run: Run) -> None:
    imageio.imwrite("in.png", noisy(50, 70))
    code, out, err = run("denoise", "in.png", "-o", "out.png", *TINY)
    assert (code, out) == (0, "")
    assert "for at most 3 steps" in err and "in.png -> out.png" in err
    result = imageio.imread("out.png")
    assert result.shape == (50, 70) and result.dtype == np.uint8
    assert (result != imageio.imread("in.png")).any()
    assert names() == ["in.png", "out.png"]


def test_pixel_size_and_type_of_a_tiff_survive(run: Run, trained: Path) -> None:
    metadata = {"axes": "YX", "unit": "um"}
    tifffile.imwrite("in.tif", noisy(40, 48, dtype="uint16"), imagej=True, resolution=(4, 2), metadata=metadata)
    assert run("denoise", "in.tif", "-o", "new/out.tif", "--model", trained)[0] == 0
    image = io.read("new/out.tif")
    assert (image.shape, image.dtype, image.axes) == ((40, 48), np.uint16, "YX")
    assert (image.pixel_size, image.unit) == ({"Y": 0.5, "X": 0.25}, "micrometer")


def test_folder_to_folder_of_the_same_names(run: Run) -> None:
    Path("in").mkdir()
    imageio.imwrite("in/a.png", noisy(50, 40))
    imageio.imwrite("in/b.jpg", noisy(33, 90))
    tifffile.imwrite("in/c.tif", noisy(20, 64, dtype="float32"))
    Path("in/notes.txt").write_text("not an image")
    code, _, err = run("denoise", "in", "-o", "out", *TINY)
    assert code == 0 and "3 images" in err
    assert sorted(path.name for path in Path("out").iterdir()) == [".noise2same.jsonl", "a.png", "b.png", "c.tif"]
    assert imageio.imread("out/b.png").shape == (33, 90)
    assert tifffile.imread("out/c.tif").dtype == np.float32


def test_glob_with_a_model(run: Run, trained: Path) -> None:
    for name in "scan.001.npy", "scan.002.npy", "other.npy":
        np.save(name, noisy(32, 32))
    assert run("denoise", "scan.*.npy", "-o", "out", "-m", trained)[0] == 0
    assert sorted(path.name for path in Path("out").glob("*.npy")) == ["scan.001.npy", "scan.002.npy"]


def test_suffixless_output_of_one_image_is_a_folder(run: Run, trained: Path) -> None:
    np.save("a.npy", noisy(32, 32))
    assert run("denoise", "a.npy", "-o", "out/", "-m", trained)[0] == 0
    assert names() == ["a.npy", "out/.noise2same.jsonl", "out/a.npy"]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((40, 48, 3), None), ((40, 48, 3), "YXC"), ((2, 40, 48), "CYX"), ((9, 40, 48), "ZYX"), ((2, 33, 31), "SYX")],
)
def test_colour_channels_volumes_and_stacks(run: Run, shape: tuple[int, ...], axes: str | None) -> None:
    np.save("in.npy", noisy(*shape, dtype="int16"))
    code, _, err = run("denoise", "in.npy", "-o", "out.npy", *TINY, *(("--axes", axes) if axes else ()))
    assert code == 0, err
    result = np.load("out.npy")
    assert result.shape == shape and result.dtype == np.int16


def test_ome_zarr_in_and_out(run: Run) -> None:
    image = io.wrap(noisy(8, 40, 48, dtype="uint16"), "ZYX")
    with io.create("in.ome.zarr", image) as out:
        out[...] = image.data
    assert run("denoise", "in.ome.zarr", "-o", "out.ome.zarr", *TINY)[0] == 0
    result = io.read("out.ome.zarr")
    assert (result.shape, result.dtype, result.axes) == ((8, 40, 48), np.uint16, "ZYX")


def test_dtype_and_tta(run: Run, trained: Path) -> None:
    imageio.imwrite("in.png", noisy(40, 40))
    assert run("denoise", "in.png", "-o", "plain.tif", "-m", trained, "--dtype", "float32", "--no-tta")[0] == 0
    assert run("denoise", "in.png", "-o", "mean.tif", "-m", trained, "--dtype", "float32", "--tta")[0] == 0
    assert run("denoise", "in.png", "-o", "default.tif", "-m", trained, "--dtype", "float32")[0] == 0
    plain, mean = tifffile.imread("plain.tif"), tifffile.imread("mean.tif")
    assert plain.dtype == mean.dtype == np.float32
    np.testing.assert_array_equal(tifffile.imread("default.tif"), mean)  # as it is small
    assert 0 < np.abs(plain - mean).max() < 255


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (7, 5)])
def test_images_smaller_than_a_patch(run: Run, trained: Path, shape: tuple[int, int]) -> None:
    np.save("in.npy", noisy(*shape, dtype="float32"))
    if shape != (1, 1):  # which is constant: nothing to learn
        assert run("denoise", "in.npy", "-o", "own.npy", *TINY)[0] == 0
        assert np.load("own.npy").shape == shape
    assert run("denoise", "in.npy", "-o", "out.npy", "-m", trained)[0] == 0
    assert np.isfinite(np.load("out.npy")).all() and np.load("out.npy").shape == shape


def test_nan_and_infinite_pixels_pass_through_with_a_warning(run: Run, trained: Path) -> None:
    image = noisy(40, 40, dtype="float32")
    image[3, 4:7], image[9, 9], image[10, 10] = np.nan, np.inf, -np.inf
    np.save("in.npy", image)
    code, out, err = run("denoise", "in.npy", "-o", "out.npy", *TINY)
    assert (code, out) == (0, "") and err.count("Warning: ") == 2
    assert "5 NaN or infinite pixels are left out" in err and "in.npy: 5 NaN or infinite pixels" in err
    result = np.load("out.npy")
    bad = ~np.isfinite(image)
    assert np.array_equal(result[bad], image[bad], equal_nan=True) and np.isfinite(result[~bad]).all()
    code, _, err = run("denoise", "in.npy", "-o", "out.npy", "-m", trained, "--dtype", "uint8")
    assert code == 0 and err.count("Warning: ") == 1
    assert np.load("out.npy")[bad].tolist() == [0, 0, 0, 255, 0]


# train, info, evaluate


def test_train_info_and_seeds(run: Run) -> None:
    imageio.imwrite("in.png", noisy(50, 70))
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        code, out, err = run("train", "in.png", "-m", f"{name}.safetensors", *TINY, "--seed", seed)
        assert (code, out) == (0, "") and f"Model written to {name}.safetensors" in err
    assert same_weights("a.safetensors", "b.safetensors")
    assert not same_weights("a.safetensors", "c.safetensors")
    assert names() == ["a.safetensors", "b.safetensors", "c.safetensors", "in.png"]
    code, out, err = run("info", "c.safetensors")
    assert (code, err) == (0, "") and "config seed" in out and "training terms covariance" in out
    facts = json.loads(run("info", "c.safetensors", "--json")[1])
    assert (facts["axes"], facts["channels"], facts["training"]["steps"], facts["config"]["seed"]) == ("YX", 1, 3, 2)


def test_more_training_of_a_finished_model(run: Run, trained: Path) -> None:
    np.save("in.npy", noisy(40, 40))
    Path("m.safetensors").write_bytes(trained.read_bytes())
    code, _, err = run("train", "in.npy", "-m", "m.safetensors", "--resume", "--steps", 2)
    assert code == 0, err
    assert Denoiser.load("m.safetensors").config.features == 4  # the network it has, not the default
    assert not same_weights("m.safetensors", str(trained))


def test_log_is_a_csv_that_a_resume_extends(run: Run, interrupt: Callable[[int], None]) -> None:
    np.save("in.npy", noisy(40, 40))
    command = ("train", "in.npy", "-m", "m.safetensors", *NETWORK, "--steps", 30, "--log", "logs")
    interrupt(15)
    assert run(*command)[0] == 130
    assert run(*command, "--resume")[0] == 0
    header, *rows = Path("logs/metrics.csv").read_text().splitlines()
    assert {"covariance", "reconstruction", "step"} <= set(header.split(","))
    steps = [int(row.split(",")[header.split(",").index("step")]) for row in rows]
    assert len(steps) >= 3 and steps == sorted(steps) and steps[0] < 15 < steps[-1]


def test_evaluate(run: Run) -> None:
    for folder in "clean", "ours":
        Path(folder).mkdir()
        for seed, name in enumerate(("scan.001", "scan.002")):
            np.save(f"{folder}/{name}.npy", noisy(40, 40, seed=seed + 10 * (folder == "ours")))
    code, out, err = run("evaluate", "ours/scan.001.npy", "clean/scan.001.npy")
    assert (code, err) == (0, "") and "scan.001.npy" in out and "ssim" in out
    code, out, err = run("evaluate", "ours", "clean", "--json")
    figures = json.loads(out)
    assert set(figures["images"]) == {"scan.001.npy", "scan.002.npy"}
    ours, clean = (np.load(f"{folder}/scan.001.npy") for folder in ("ours", "clean"))
    assert figures["images"]["scan.001.npy"] == pytest.approx(evaluate(prediction=ours, truth=clean))
    assert set(figures["mean"]) == {"psnr", "psnr_affine", "psnr_minmax", "ssim"}
    assert 5 < figures["mean"]["psnr"] < 40
    of_both = json.loads(run("evaluate", "*/scan.001.npy", "clean", "--json")[1])["images"]
    assert set(of_both) == {"clean/scan.001.npy", "ours/scan.001.npy"}
    equal = json.loads(run("evaluate", "clean/scan.001.npy", "clean/scan.001.npy", "--json")[1])
    assert equal["mean"]["psnr"] is None  # infinite, which JSON cannot say
    np.save("ours/third.npy", noisy(40, 40))
    np.save("small.npy", noisy(20, 20))
    mismatches = {("ours", "clean"): "third.npy", ("small.npy", "clean/scan.001.npy"): "small.npy against"}
    for pair, words in mismatches.items():
        code, out, err = run("evaluate", *pair)
        assert (code, out) == (2, "") and words in err and err.count("\n") == 1


def test_version_and_help(run: Run) -> None:
    assert run("--version")[:2] == (0, f"noise2same {__version__}\n")
    for command in "denoise", "train", "evaluate", "info", "demo":
        code, out, err = run(command, "--help")
        assert (code, err) == (0, "") and "Usage: noise2same" in out


# interruptions


def test_ctrl_c_keeps_what_was_learned_and_resume_completes(run: Run, interrupt: Callable[[int], None]) -> None:
    imageio.imwrite("in.png", noisy(50, 70))
    command = ("denoise", "in.png", *NETWORK, "--steps", 6)
    assert run(*command, "-o", "whole.png")[0] == 0
    interrupt(4)
    code, out, err = run(*command, "-o", "out.png")
    assert (code, out) == (130, "") and "Training was interrupted at step 4." in err and "--resume" in err
    assert names() == ["in.png", "out.unfinished.ckpt", "out.unfinished.safetensors", "whole.png"]
    assert run("denoise", "in.png", "-o", "early.png", "-m", "out.unfinished.safetensors")[0] == 0  # it is usable
    assert run(*command, "-o", "out.png", "--resume")[0] == 0
    assert names() == ["early.png", "in.png", "out.png", "whole.png"]
    assert np.array_equal(imageio.imread("out.png"), imageio.imread("whole.png"))


def test_ctrl_c_in_a_terminal(run: Run) -> None:
    np.save("in.npy", noisy(64, 64))
    command = ("train", "in.npy", "-m", "m.safetensors", *NETWORK, "--set", "levels=1", "--steps", 200)
    process = start(*command)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Training  10 %"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err and "--resume" in err
    assert names() == ["in.npy", "m.safetensors", "m.unfinished.ckpt"]
    assert Denoiser.load("m.safetensors").summary["interrupted"]
    assert run(*command, "--resume")[0] == 0
    assert Denoiser.load("m.safetensors").summary["steps"] == 200
    assert names() == ["in.npy", "m.safetensors"]


def test_ctrl_c_while_denoising_leaves_no_partial_file(
    run: Run, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("in.npy", noisy(40, 40))

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("noise2same.denoiser.Prediction.run", stopped)
    assert run("denoise", "in.npy", "-o", "new/out.npy", "-m", trained)[0] == 130
    assert os.listdir() == ["in.npy"]
    code, _, err = run("denoise", "in.npy", "-o", "new/out.npy", *TINY)
    assert code == 130 and "new/out.unfinished.safetensors" in err  # what was trained is not lost
    assert names() == ["in.npy", "new/out.unfinished.safetensors"]


DRIVER = """
import os, signal
from noise2same.cli.main import main
from noise2same.data.patches import Patches
from noise2same.training import loop

loop.CHECKPOINT_SECONDS = 0.0  # after each step
draw, left = Patches.draw, 5

def killed(self, *arguments, held=False):
    global left
    left -= not held
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(self, *arguments, held=held)

Patches.draw = killed
main()
"""


def test_a_killed_run_resumes_to_the_same_weights(run: Run) -> None:
    np.save("in.npy", noisy(64, 64))
    Path("driver.py").write_text(DRIVER)
    command = ("train", "in.npy", *NETWORK, "--steps", 8, "--seed", 3)
    process = start(*command, "-m", "m.safetensors", program=[sys.executable, "driver.py"])
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert names() == [".part.m.safetensors.lock", "driver.py", "in.npy", "m.unfinished.ckpt"]
    assert run(*command, "-m", "m.safetensors", "--resume")[0] == 0
    assert run(*command, "-m", "whole.safetensors")[0] == 0
    assert same_weights("m.safetensors", "whole.safetensors")
    assert names() == ["driver.py", "in.npy", "m.safetensors", "whole.safetensors"]


# the program itself


def test_streams_and_exit_codes_of_the_program(trained: Path) -> None:
    imageio.imwrite("in.png", noisy(50, 70))
    process = start("denoise", "in.png", "-o", "out.png", "-m", trained, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and err.startswith("in.png -> out.png\nCheck: ") and err.count("\n") == 2
    assert json.loads(out)["outputs"] == ["out.png"]
    started = time.monotonic()
    process = start("denoise", "none.png", "-o", "out.png")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err == "Error: none.png does not exist; check its name and folder.\n"
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_training_that_diverges(run: Run, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    from noise2same.methods import METHODS
    from noise2same.methods.noise2same import Noise2Same
    from noise2same.training import loop as training

    class Diverging(Noise2Same):
        left = 20

        def __call__(self, *arguments: Any) -> dict[str, Any]:
            self.left -= 1
            terms = super().__call__(*arguments)
            return {name: value / (value * 0 if self.left <= 0 else 1) for name, value in terms.items()}

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", seconds)
    monkeypatch.setitem(METHODS, "noise2same", Diverging)
    np.save("in.npy", noisy(40, 40))
    command = ("train", "in.npy", "-m", "m.safetensors", "--method", "noise2same", *NETWORK, "--steps", 40)
    code, out, err = run(*command)
    assert (code, out) == (2, "") and "Error: Training diverged after step 19" in err and "learning_rate=3e-05" in err
    assert err.count("Warning: Training diverged at step 20: back to step 19") == 3
    assert "What was learned before is in m.safetensors." in err
    model = Denoiser.load("m.safetensors")
    assert model.summary["diverged"] and model.summary["steps"] == 19
    assert np.isfinite(model.denoise("in.npy")).all()
    assert ("goes on from m.unfinished.ckpt" in err) == (seconds == 0)
    assert names() == sorted(["in.npy", "m.safetensors", *["m.unfinished.ckpt"] * (seconds == 0)])
    monkeypatch.setitem(METHODS, "noise2same", Noise2Same)
    code, _, err = run(*command, "--resume", "--set", "learning_rate=0.001")
    assert code == 0, err
    assert names() == ["in.npy", "m.safetensors"]


def test_a_model_that_is_trained_further_keeps_its_settings(run: Run) -> None:
    np.save("in.npy", noisy(64, 64))
    run("train", "in.npy", "-m", "m.safetensors", *TINY, "--set", "normalization=image", "--set", "learning_rate=0.001")
    assert run("train", "in.npy", "-m", "m.safetensors", "--resume", "--steps", 4, "--seed", 5)[0] == 0
    config = Denoiser.load("m.safetensors").config
    assert (config.normalization, config.learning_rate, config.steps, config.seed) == ("image", 0.001, 4, 5)
