"""The pipeline: everything is checked first, each file is decoded once, and a listener sees and ends the work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noise2same import Config, Denoiser, io, pipeline
from noise2same.errors import Cancelled, InputError
from noise2same.io import formats

SMALL: dict[str, Any] = {"features": 4, "batch": 2, "patch": 32}

# a package that adds a format, whose decoder counts its calls
COUNTED = """
import numpy as np
from noise2same.io import Decoded, Image

decoded = []

def decode(path):
    decoded.append(path.name)
    return np.frombuffer(path.read_bytes(), np.uint8).reshape(64, -1)

class Raw:
    suffixes, default_output = (".raw",), ".npy"
    def read(self, path):
        return Image(Decoded(path, (64, path.stat().st_size // 64), "uint8", decode), "YX", path=path)
    def check(self, path, like, dtype):
        pass
    def create(self, path, like, dtype):
        raise NotImplementedError

raw = Raw()
"""


@pytest.fixture
def decoded(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the .raw files that were decoded, each time that they were."""
    site = tmp_path_factory.mktemp("site")
    (site / "raw_format.py").write_text(COUNTED)
    info = site / "raw_format-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: raw-format\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[noise2same.formats]\n.raw = raw_format:raw\n")
    monkeypatch.syspath_prepend(str(site))
    formats._added.cache_clear()
    import raw_format

    yield raw_format.decoded
    del sys.modules["raw_format"]
    formats._added.cache_clear()


@pytest.fixture
def raws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three noisy images as .raw files in a folder, in the folder that work is done in."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    files = [Path("in") / f"{name}.raw" for name in "abc"]
    for seed, file in enumerate(files):
        file.write_bytes(noisy(seed).tobytes())
    return files


def noisy(seed: int = 0) -> Any:
    wave = 120 + 60 * np.sin(np.arange(64) / 5)
    return np.clip(wave + np.random.default_rng(seed).normal(0, 20, (64, 64)), 0, 255).astype(np.uint8)


def test_a_check_decodes_nothing(raws: list[Path], decoded: list[str], trained: Path) -> None:
    outputs = [Path(f"{file.stem}.npy") for file in raws]
    job = pipeline.check(raws, outputs, denoiser=Denoiser.load(trained))
    assert [item.output for item in job.items] == outputs and decoded == []


def test_each_file_is_decoded_once_with_a_model(raws: list[Path], decoded: list[str], trained: Path) -> None:
    model = Denoiser.load(trained)
    job = pipeline.check(raws, [Path(f"{file.stem}.npy") for file in raws], denoiser=model)
    results = pipeline.run(job, model)
    assert decoded == ["a.raw", "b.raw", "c.raw"]
    assert all(result.verdict is not None and result.assessment is None for result in results)  # which holds pixels


def test_each_file_is_decoded_once_when_it_is_trained_on(raws: list[Path], decoded: list[str]) -> None:
    model = Denoiser(Config(steps=2, **SMALL))
    job = pipeline.check(raws, [None] * 3, [Path(f"reports/{file.stem}.html") for file in raws], denoiser=model)
    results = pipeline.run(job, model, keep=Path("kept.safetensors"))
    assert sorted(decoded) == ["a.raw", "b.raw", "c.raw"]
    assert [Path(f"reports/{name}.html").exists() for name in "abc"] == [True] * 3
    assert [result.denoised.shape for result in results] == [(64, 64)] * 3  # type: ignore[union-attr]
    assert not Path("kept.safetensors").exists()  # no longer needed


@pytest.mark.parametrize(
    "arguments",
    [("denoise", "in", "-o", "out"), ("train", "in", "-m", "m.safetensors"), ("plan", "in"), ("diagnose", "in")],
)
def test_commands_decode_each_file_once(
    arguments: tuple[str, ...], run: Callable[..., Any], raws: list[Path], decoded: list[str]
) -> None:
    options = () if arguments[0] == "diagnose" else ("--steps", 2, "--set", "features=4", "--set", "patch=32")
    code, _, err = run(*arguments, *options)
    assert code == 0, err
    assert sorted(decoded) == ["a.raw", "b.raw", "c.raw"]


def test_python_decodes_a_file_once(raws: list[Path], decoded: list[str]) -> None:
    import noise2same

    noise2same.denoise(raws[0], steps=2, progress=False, **SMALL)
    assert decoded == ["a.raw"]


def test_an_image_that_was_trained_on_is_diagnosed_once() -> None:
    model = Denoiser(Config(steps=2, **SMALL))
    (result,) = pipeline.run(pipeline.check(noisy(), [None]), model)
    assert result.assessment is not None and result.assessment.diagnosis is model.diagnosis is not None


def test_all_outputs_are_checked_before_any_work(tmp_path: Path, trained: Path) -> None:
    images, model = [noisy(0), noisy(1)], Denoiser.load(trained)
    with pytest.raises(InputError, match="nowhere is not a folder"):
        pipeline.check(images, [tmp_path / "a.npy", tmp_path / "nowhere/b.npy"], denoiser=model)
    with pytest.raises(InputError, match="3 channel"):
        pipeline.check([noisy(0), np.stack([noisy()] * 3, -1)], [tmp_path / "a.npy", None], denoiser=model)
    assert not any(tmp_path.iterdir())


def test_a_listener_sees_steps_blocks_and_results() -> None:
    lines: list[str] = []
    steps: list[int] = []
    blocks: list[tuple[int, int]] = []
    results: list[pipeline.Result] = []
    listener = pipeline.Listener(
        say=lines.append,
        on_step=lambda state: steps.append(state.step),
        on_block=lambda image, done, total: blocks.append((done, total)),
        on_result=results.append,
    )
    model = Denoiser(Config(steps=3, **SMALL))
    returned = pipeline.run(pipeline.check([noisy(0), noisy(1)], [None, None]), model, listener=listener)
    assert steps == [1, 2, 3] and [one.item for one in results] == [one.item for one in returned]
    assert [line.split()[0] for line in lines[:3]] == ["Noise", "Method:", "Training"]
    assert blocks[0][0] == 1 and blocks[-1][0] == blocks[-1][1]


def test_a_listener_ends_the_work(tmp_path: Path, trained: Path) -> None:
    model = Denoiser(Config(steps=30, **SMALL))
    job = pipeline.check(noisy(), [None], verdict=False)
    pipeline.run(job, model, listener=pipeline.Listener(on_step=lambda state: state.step == 4))
    assert model.summary["steps"] == 4
    model = Denoiser.load(trained)
    job = pipeline.check(noisy(), [tmp_path / "out.npy"], denoiser=model)
    with pytest.raises(Cancelled):
        pipeline.run(job, model, listener=pipeline.Listener(on_block=lambda image, done, total: True))
    assert not any(tmp_path.iterdir())


def test_one_bad_file_does_not_end_a_batch(
    run: Callable[..., Any], raws: list[Path], decoded: list[str], trained: Path
) -> None:
    raws[1].write_bytes(raws[1].read_bytes()[:100])  # its decoder says so, and not before
    code, out, err = run("denoise", "in", "-o", "out", "-m", trained, "--no-verdict", "--json")
    assert code == 1 and sorted(path.name for path in Path("out").glob("*.npy")) == ["a.npy", "c.npy"]
    assert "Error: 2 of 3: in/b.raw is truncated" in err and "2 done, 1 failed" in err
    assert '"error": "in/b.raw is truncated' in out
    assert decoded == ["a.raw", "b.raw", "c.raw"]


def test_a_model_is_trained_further_with_its_own_settings(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    config = Config.of(steps=2, method="noise2self", fill="donut", normalization="image", **SMALL)
    Denoiser(config).fit(noisy(), progress=False).save(path)
    model = pipeline.load_to_resume(path, {"minutes": 1.0, "mask_density": 0.2})
    assert (model.config.steps, model.config.minutes, model.config.normalization) == (None, 1.0, "image")
    assert model.config.method_settings == {"fill": "donut", "mask_density": 0.2}
    for name, value in {"method": "sure", "features": 8, "levels": 2}.items():
        with pytest.raises(InputError, match=f"{name}=.* cannot change in a resume"):
            pipeline.load_to_resume(path, {name: value})


def test_opened_images_are_taken_as_they_are(raws: list[Path], decoded: list[str], trained: Path) -> None:
    model = Denoiser.load(trained)
    images = io.open_images(list(raws))
    job = pipeline.check(images, [None] * 3, denoiser=model)
    assert [item.source is image for item, image in zip(job.items, images, strict=True)] == [True] * 3


@pytest.mark.parametrize("axes", ["ZYX", "TCYX"])
def test_a_part_is_what_the_whole_result_has_there(axes):
    shape = {"ZYX": (12, 40, 40), "TCYX": (2, 2, 64, 64)}[axes]
    image = io.wrap(np.random.default_rng(0).normal(100, 20, shape).astype(np.float32), axes)
    model = Denoiser(Config(steps=2, features=4, batch=2, patch=16)).fit(image, progress=False)
    whole = model.denoise(image, tta=False)
    part = (*{"ZYX": (slice(5, 6),), "TCYX": (slice(1, 2), slice(0, 2))}[axes], slice(8, 30), slice(0, 40))
    np.testing.assert_allclose(model.tuned_to(image).denoise_part(image, part), whole[part], atol=1e-3)
