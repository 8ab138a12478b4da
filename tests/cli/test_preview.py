"""--preview: a film before and after, which players open; a sentence where it cannot be."""

from __future__ import annotations

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy import ndimage

from noise2same import io
from noise2same.quality.preview import MOST_FRAMES, write_preview


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """A bright square that goes from left to right, with odd sides."""
    frames = np.full((12, 41, 61), 100.0)
    for t in range(12):
        frames[t, 10:30, 4 * t : 4 * t + 12] = 200
    path = tmp_path_factory.mktemp("films") / "film.npy"
    np.save(path, np.random.default_rng(0).normal(frames, 20).astype(np.float32))
    return path


@pytest.mark.parametrize("suffix", [".mp4", ".webp", ".gif"])
def test_before_and_after_side_by_side(run, film, trained, tmp_path, suffix):
    preview = tmp_path / f"look{suffix}"
    task = ("denoise", film, "-o", tmp_path / "clean.npy", "-m", trained, "--axes", "TYX", "--preview", preview)
    code, _, said = run(*task)
    assert code == 0, said
    assert "all 12 frames" in said.replace("\n", " ")
    shown = imageio.imread(preview, index=..., plugin="pyav" if suffix == ".mp4" else "pillow")
    assert len(shown) == 12 and shown.shape[1] in (41, 42) and shown.shape[2] in (126, 128)
    grey = shown.reshape(*shown.shape[:3], -1).mean(-1)
    pairs = ((grey[:, :41, :61], np.load(film)), (grey[:, :41, 65:126], np.load(tmp_path / "clean.npy")))
    for picture, frames in pairs:
        assert (
            np.corrcoef(*(ndimage.gaussian_filter(part, (0, 1, 1)).ravel() for part in (picture, frames)))[0, 1] > 0.9
        )
    assert not list(tmp_path.glob("*unfinished*"))


def test_colors_volumes_and_long_films_are_bounded(tmp_path):
    rng = np.random.default_rng(1)
    long = rng.normal(100, 20, (MOST_FRAMES + 11, 2, 3, 24, 900)).astype(np.float32)
    told = write_preview(tmp_path / "long.webp", io.wrap(long, "TCZYX"), io.wrap(long, "TCZYX"))
    assert f"frames 6 to {MOST_FRAMES + 5} of {MOST_FRAMES + 11}" in told
    first = imageio.imread(tmp_path / "long.webp", index=0)
    assert first.shape[1] == 804 and first.shape[2] == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preview", "look.avi"], "ends in .mp4, .webp or .gif"),
        (["--preview", "nowhere/look.gif"], "is not a folder"),
        (["--preview", "look.gif", "--axes", "ZYX"], "--preview shows a film"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(run, film, tmp_path, monkeypatch, options, sentence):
    monkeypatch.chdir(tmp_path)
    axes = [] if "--axes" in options else ["--axes", "TYX"]
    code, _, said = run("denoise", film, "-o", "clean.npy", *options, *axes)
    assert code == 2 and sentence in " ".join(said.split()) and not list(tmp_path.iterdir())


def test_several_films_have_no_common_preview(run, film, tmp_path):
    np.save(tmp_path / "other.npy", np.load(film))
    films = (film, tmp_path / "other.npy")
    code, _, said = run("denoise", *films, "-o", tmp_path / "out", "--axes", "TYX", "--preview", tmp_path / "a.gif")
    assert code == 2 and "is for one film" in " ".join(said.split())


def test_without_the_extra_it_names_it(run, film, tmp_path, monkeypatch):
    monkeypatch.setattr("noise2same.quality.preview.find_spec", lambda name: None)
    code, _, said = run("denoise", film, "-o", tmp_path / "c.npy", "--axes", "TYX", "--preview", tmp_path / "a.mp4")
    assert code == 2 and "noise2same[video]" in "".join(said.split())
