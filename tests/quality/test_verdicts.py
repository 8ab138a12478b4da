"""Every result has a verdict and, where asked for, a report: from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from skimage import data

from noise2same import Config, Denoiser
from noise2same.errors import InputError
from noise2same.noise.synthetic import gaussian
from noise2same.quality.checks import WORDS

CLEAN = data.coins()[:256, :256].astype(np.float32)
NOISY = gaussian(CLEAN, 25, np.random.default_rng(0))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("noisy.npy", NOISY)
    np.save("clean.npy", CLEAN)


def test_denoise_ends_with_a_verdict_and_a_report(run) -> None:
    code, out, err = run("denoise", "noisy.npy", "-o", "out.npy", "--steps", 20, "--report", "page.html", "--json")
    assert code == 0
    (result,) = json.loads(out)["results"]
    assert result["verdict"]["word"] == "trust" and "Trust: " in err
    value, low, high = result["verdict"]["psnr"]
    error = np.mean((np.load("out.npy") - CLEAN) ** 2)
    assert low < value < high and value == pytest.approx(
        10 * np.log10(result["verdict"]["data_range"] ** 2 / error), abs=1
    )
    assert result["noise"]["kind"] == "gaussian" and result["noise"]["sigma"] == pytest.approx(25, rel=0.05)
    page = Path("page.html").read_text()
    assert "noisy.npy" in page and "denoise" in page
    assert "equally strong in dark and bright places" in page and "batch norm frozen after" in page  # the plan


def test_a_poor_result_is_not_trusted(run) -> None:
    np.save("copy.npy", NOISY)
    code, out, _ = run("evaluate", "copy.npy", "--noisy", "noisy.npy", "--json")
    assert code == 0
    assert json.loads(out)["copy.npy"]["verdict"]["word"] == "do not trust"
    code, out, err = run("evaluate", "clean.npy", "--noisy", "noisy.npy")
    assert code == 0 and "detail kept" in out and "Do not trust: " not in err


def test_a_page_for_each_of_several(run) -> None:
    Path("in").mkdir()
    for i in range(2):
        imageio.imwrite(f"in/{i}.png", np.clip(NOISY[i * 50 : i * 50 + 100], 0, 255).astype(np.uint8))
    assert run("denoise", "in", "-o", "out", "--steps", 2, "--report", "pages")[0] == 0
    assert {path.name for path in Path("pages").iterdir()} == {"0.html", "1.html"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("denoise", "noisy.npy", "-o", "o.npy", "--report", "page.txt"), "ends in .html or .png"),
        (("denoise", "noisy.npy", "-o", "o.npy", "--report", "nowhere/page.html"), "nowhere"),
        (("denoise", "noisy.npy", "clean.npy", "-o", "o", "--report", "page.html"), "name a folder"),
        (("evaluate", "clean.npy", "--report", "page.html"), "--noisy"),
        (("evaluate", "clean.npy", "--noisy", "noisy.npy", "--range", "255"), "leave out"),
        (("evaluate", "small.npy", "--noisy", "noisy.npy"), "small.npy has shape (8, 8)"),
        (("denoise", "noisy.npy", "-o", "o.npy", "--noise-extent", "1,2,3", "--steps", "1"), "2 numbers, for YX"),
        (("denoise", "noisy.npy", "-o", "o.npy", "--noise-extent", "x", "--steps", "1"), "noise_extent"),
        (("denoise", "noisy.npy", "-o", "o.npy", "--noise-model", "fog", "--steps", "1"), "noise_model=fog"),
    ],
)
def test_what_cannot_be_asked_for(run, arguments, words) -> None:
    np.save("small.npy", NOISY[:8, :8])
    code, _, err = run(*arguments)
    assert code == 2 and words in err and not Path("o.npy").exists()


def test_from_python(tmp_path: Path) -> None:
    model = Denoiser(Config(steps=20)).fit(NOISY, progress=False)
    verdict = model.report(tmp_path / "page.png", NOISY, truth=CLEAN)
    assert verdict.word == "trust" and verdict.psnr is not None
    assert imageio.imread(tmp_path / "page.png").shape[0] > 500
    with pytest.raises(InputError, match=r"\.html"):
        model.report(tmp_path / "page.pdf", NOISY)
    with pytest.raises(InputError, match="would overwrite the input"):
        model.report("page.png", "page.png")


def test_the_middle_of_a_large_image_is_looked_at(run) -> None:
    imageio.imwrite("tall.png", np.tile(np.clip(NOISY, 0, 255).astype(np.uint8), (9, 1)))
    assert run("denoise", "tall.png", "-o", "out.png", "--steps", 2, "--report", "page.html")[0] == 0
    assert "2304 × 256" in Path("page.html").read_text()


def test_volumes_films_and_channels(run) -> None:
    rng = np.random.default_rng(0)
    film = rng.normal(100, 20, (2, 2, 8, 48, 64)).astype(np.float32)
    np.save("film.npy", film)
    code, out, _ = run(
        "denoise",
        "film.npy",
        "-o",
        "out.npy",
        "--axes",
        "TCZYX",
        "--time",
        0,
        "--steps",
        2,
        "--report",
        "p.html",
        "--json",
    )
    assert code == 0
    (result,) = json.loads(out)["results"]
    assert result["frames"].keys() == {"time point 1", "time point 2"}
    assert result["verdict"]["word"] == max(result["frames"].values(), key=WORDS.index)
    assert any(frame in result["verdict"]["reason"] for frame in result["frames"])
    assert "the worst of the 2 that were judged" in Path("p.html").read_text()

    good = gaussian_filter(film[0], (0, 0, 3, 3))
    np.save("half.npy", np.stack([good, film[1]]))  # the second volume is not denoised
    code, out, _ = run("evaluate", "half.npy", "--noisy", "film.npy", "--axes", "TCZYX", "--json")
    figures = json.loads(out)["half.npy"]
    assert code == 0
    assert figures["frames"] == {"time point 1": "trust", "time point 2": "do not trust"}
    assert figures["verdict"]["word"] == "do not trust" and "time point 2" in figures["verdict"]["reason"]


def test_the_verdict_can_be_left_out(run) -> None:
    code, out, err = run("denoise", "noisy.npy", "-o", "out.npy", "--minutes", 0, "--no-verdict", "--json")
    (figures,) = json.loads(out)["results"]
    assert code == 0 and set(figures) == {"input", "output", "seconds"}
    assert not any(f"{word.capitalize()}: " in err for word in WORDS)
    code, _, err = run("denoise", "noisy.npy", "-o", "o.npy", "--minutes", 0, "--no-verdict", "--report", "p.html")
    assert code == 2 and "--no-verdict" in err and not Path("o.npy").exists()
