"""Images and their targets, matched by name from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for folder in ("noisy", "clean"):
        Path(folder).mkdir()
        for name in ("a", "b", "c"):
            tifffile.imwrite(f"{folder}/{name}.tif", rng.integers(0, 255, (40, 40), dtype=np.uint8))


def train(run: Run, *arguments: object) -> tuple[int, str, str]:
    options = ("--steps", 2, "--set", "features=4", "--set", "batch=2", "--set", "patch=16")
    return run("train", "noisy", "-m", "m.safetensors", *options, *arguments)


def test_a_folder_of_targets_trains_a_model_that_denoises(run: Run) -> None:
    code, _, err = train(run, "--method", "noise2true", "--target", "clean")
    assert code == 0, err
    assert run("denoise", "noisy/a.tif", "-o", "out.tif", "-m", "m.safetensors")[0] == 0
    assert tifffile.imread("out.tif").shape == (40, 40)


def test_the_order_of_the_files_does_not_matter(run: Run) -> None:
    code, _, err = train(run, "--method", "noise2noise", *(x for n in "cab" for x in ("--target", f"clean/{n}.tif")))
    assert code == 0, err


def remove(name: str) -> Callable[[], None]:
    return lambda: Path(name).unlink()


def reshape() -> None:
    tifffile.imwrite("clean/b.tif", np.zeros((40, 41), np.uint8))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (remove("clean/b.tif"), ["no target of the same name", "noisy/b.tif"]),
        (remove("noisy/c.tif"), ["no image of the same name", "clean/c.tif"]),
        (reshape, ["clean/b.tif (40, 41)", "noisy/b.tif (40, 40)"]),
    ],
)
def test_a_partner_missing_left_over_or_of_another_shape_is_named(run: Run, change, words: list[str]) -> None:
    change()
    code, out, err = train(run, "--method", "noise2true", "--target", "clean")
    assert code == 2 and out == "" and all(word in " ".join(err.split()) for word in words), err
    assert not Path("m.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "noise2true"], ["noise2true learns from", "--target"]),
        (["--target", "clean"], ["auto learns from", "leave out the targets"]),
        (["--method", "noise2tru"], ["did you mean noise2true"]),
        (["--method", "nlm"], ["nlm is not trained"]),
    ],
)
def test_targets_and_methods_that_do_not_go_together(run: Run, arguments: list[str], words: list[str]) -> None:
    code, out, err = train(run, *arguments)
    assert code == 2 and out == "" and all(word in " ".join(err.split()) for word in words), err


def test_a_classical_method_denoises_at_once_and_takes_no_training_options(run: Run) -> None:
    code, _, err = run("denoise", "noisy", "-o", "out", "--method", "nlm", "--sigma", 20)
    assert code == 0, err
    assert sorted(path.name for path in Path("out").glob("*.tif")) == ["a.tif", "b.tif", "c.tif"]
    for option, word in ((("--minutes", 1), "--minutes"), (("--tta",), "tta")):
        code, _, err = run("denoise", "noisy/a.tif", "-o", "other.tif", "--method", "nlm", *option)
        assert code == 2 and word in err and not Path("other.tif").exists()


def test_methods_are_listed(run: Run) -> None:
    code, out, _ = run("methods")
    assert code == 0 and all(name in out for name in ("noise2same", "noise2void2", "noise2true"))
    code, out, _ = run("methods", "--json")
    assert code == 0 and '"needs"' in out
