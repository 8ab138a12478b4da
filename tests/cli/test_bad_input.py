"""Each bad input: one clear sentence on stderr that names the file and what to do, exit code 2, nothing left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import tifffile
import torch
from safetensors.numpy import save_file

import noise2same
from noise2same import io
from noise2same.errors import InputError

Run = Callable[..., tuple[int, str, str]]
Make = Callable[[], Any]
TINY = ("--steps", "3", "--set", "features=4", "--set", "batch=2", "--set", "patch=32")
IMAGE = np.random.default_rng(0).integers(0, 200, (40, 48)).astype(np.uint8)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Path) -> Path:
    """Work in a folder with one good image and one good model."""
    monkeypatch.chdir(tmp_path)
    np.save("good.npy", IMAGE)
    Path("m.safetensors").write_bytes(trained.read_bytes())
    return tmp_path


def everything() -> dict[str, bytes]:
    """All files and folders here, and what is in them."""
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in Path(".").rglob("*")}


def cut(name: str, share: float = 0.5) -> None:
    data = Path(name).read_bytes()
    Path(name).write_bytes(data[: int(share * len(data))])


def cut_tiff() -> None:
    tifffile.imwrite("bad.tif", IMAGE)
    cut("bad.tif")


def cut_compressed_tiff() -> None:
    tifffile.imwrite("bad.tif", np.stack([IMAGE] * 3), compression="zlib", photometric="minisblack")
    cut("bad.tif", 0.8)


def cut_picture(name: str) -> Make:
    def make() -> None:
        imageio.imwrite(name, IMAGE)
        cut(name)

    return make


def cut_npy() -> None:
    np.save("bad.npy", IMAGE)
    cut("bad.npy")


def cut_zarr() -> None:
    with io.create("bad.zarr", io.wrap(IMAGE)) as out:
        out[...] = IMAGE
    for chunk in Path("bad.zarr").rglob("c/*/*"):
        chunk.write_bytes(b"junk")


def array(*shape: int, dtype: str = "float32", value: float = 0) -> Make:
    return lambda: np.save("bad.npy", np.full(shape, value, dtype))


def colour() -> None:
    np.save("bad.npy", np.stack([IMAGE] * 3, -1))


def objects() -> None:
    np.save("bad.npy", np.array([[{}, {}], [{}, {}]], dtype=object), allow_pickle=True)


def text(name: str, content: str = "hello, this is not what you are looking for") -> Make:
    return lambda: Path(name).write_text(content)


def folder_of_zvi() -> None:
    Path("bad").mkdir()
    Path("bad/a.zvi").touch()


def twins() -> None:
    for folder in "a", "b":
        Path(folder).mkdir()
        np.save(f"{folder}/x.npy", IMAGE)


def picture() -> None:
    imageio.imwrite("bad.png", IMAGE)


def namesakes() -> None:
    twins()
    np.save("a/x.1.npy", IMAGE)
    imageio.imwrite("a/x.png", IMAGE)


def nothing() -> None:
    pass


# name, what to make, input, words expected
IMAGES: list[tuple[str, Make, str, tuple[str, ...]]] = [
    ("missing", nothing, "none.tif", ("none.tif does not exist", "check its name")),
    ("no match", nothing, "none*[1].tif", ("none*[1].tif", "matches no image")),
    ("folder without images", Path("empty").mkdir, "empty", ("empty", "without images", ".tif")),
    ("unsupported", text("bad.docx"), "bad.docx", ("bad.docx", "'.docx' is not supported", ".tif")),
    ("ZVI", text("bad.zvi"), "bad.zvi", ("bad.zvi", "'.zvi' is not supported", "export as OME-TIFF from ZEN")),
    ("folder of ZVI", folder_of_zvi, "bad", ("bad is a folder without images that can be read", "1 .zvi", "ZEN")),
    ("cut TIFF", cut_tiff, "bad.tif", ("bad.tif is truncated", "copy or export it again")),
    ("cut compressed TIFF", cut_compressed_tiff, "bad.tif", ("bad.tif is truncated", "copy or export it again")),
    ("cut PNG", cut_picture("bad.png"), "bad.png", ("bad.png is truncated", "copy or export it again")),
    ("cut JPEG", cut_picture("bad.jpg"), "bad.jpg", ("bad.jpg is truncated", "copy or export it again")),
    ("cut NPY", cut_npy, "bad.npy", ("bad.npy is truncated", "copy or export it again")),
    ("text as PNG", text("bad.png"), "bad.png", ("bad.png", "corrupt")),
    ("text as TIFF", text("bad.tif"), "bad.tif", ("bad.tif", "corrupt")),
    ("encrypted", text("bad.tif", "Salted__12345678"), "bad.tif", ("bad.tif is encrypted", "decrypt it")),
    ("damaged Zarr", cut_zarr, "bad.zarr", ("bad.zarr is damaged",)),
    ("folder as Zarr", Path("bad.zarr").mkdir, "bad.zarr", ("bad.zarr",)),
    ("complex", array(40, 40, dtype="complex64"), "bad.npy", ("bad.npy", "complex64", "convert it")),
    ("boolean", array(40, 40, dtype="bool"), "bad.npy", ("bad.npy", "bool", "convert it")),
    ("objects", objects, "bad.npy", ("bad.npy", "pickled Python objects")),
    ("empty", array(0, 40), "bad.npy", ("bad.npy is empty", "(0, 40)")),
    ("one dimension", array(40), "bad.npy", ("bad.npy has shape (40,)", "two dimensions")),
    ("unknown axes", array(5, 40, 40), "bad.npy", ("bad.npy has shape (5, 40, 40)", "pass axes", "ZYX")),
]
UNTRAINABLE: list[tuple[str, Make, str, tuple[str, ...]]] = [
    ("constant", array(40, 40, value=7), "bad.npy", ("bad.npy is constant", "nothing to learn")),
    ("all NaN", array(40, 40, value=np.nan), "bad.npy", ("bad.npy has no finite pixel", "nothing to learn")),
]


def newer_model() -> None:
    header = {"noise2same": json.dumps({"format": 99, "version": "9.9", "config": {}})}
    save_file({"w": np.zeros(3)}, "bad.safetensors", header)


def older_model() -> None:
    header = {"noise2same": json.dumps({"format": 1, "version": "0.1.0", "config": {}})}
    save_file({"w": np.zeros(3)}, "bad.safetensors", header)


def damaged_model() -> None:
    header = {"noise2same": json.dumps({"format": 2, "version": "0.2.0", "config": {"features": 4}})}
    save_file({"w": np.zeros(3)}, "bad.safetensors", header)


def cut_model(share: float) -> Make:
    def make() -> None:
        Path("bad.safetensors").write_bytes(Path("m.safetensors").read_bytes())
        cut("bad.safetensors", share)

    return make


MODELS: list[tuple[str, Make, tuple[str, ...]]] = [
    ("missing", nothing, ("does not exist", ".safetensors")),
    ("folder", Path("bad.safetensors").mkdir, ("bad.safetensors",)),
    ("text", text("bad.safetensors"), ("is not a noise2same model", "give a file")),
    ("empty", lambda: Path("bad.safetensors").touch(), ("is not a noise2same model", "give a file")),
    ("foreign", lambda: save_file({"w": np.zeros(3)}, "bad.safetensors"), ("is not a noise2same model", "give a file")),
    ("pickle", lambda: torch.save({"w": 1}, "bad.safetensors"), ("is not a noise2same model", "give a file")),
    ("cut header", cut_model(0.01), ("is truncated", "copy it again")),
    ("cut weights", cut_model(0.9), ("is truncated", "copy it again")),
    ("newer", newer_model, ("made by noise2same 9.9", "upgrade")),
    ("older", older_model, ("made by noise2same 0.1.0", "cannot open", "train it again")),
    ("damaged", damaged_model, ("is damaged", "train it again")),
]
M = ("-m", "m.safetensors")
GOOD = ("denoise", "good.npy")
TO = (*GOOD, "-o", "new/o.npy")
BAD = ("denoise", "bad.npy", "-o", "new/o.npy")
BOTH = ("denoise", "good.npy", "bad.npy", "-o", "new")
PNG = ("denoise", "bad.png")
JUDGE = ("evaluate", "good.npy")
TRAIN = ("train", "good.npy")
# name, what to make, command line, words expected
USAGE: list[tuple[str, Make, tuple[str, ...], tuple[str, ...]]] = [
    ("axes too long", nothing, (*TO, "--axes", "ZYX", *TINY), ("good.npy", "'ZYX' has 3 letters", "(40, 48)")),
    ("axes unknown letter", nothing, (*TO, "--axes", "QX", *TINY), ("good.npy", "unknown letter 'Q'", "use S")),
    ("axes twice", nothing, (*TO, "--axes", "XX", *TINY), ("good.npy", "'XX' names a letter twice")),
    ("axes without X", nothing, (*TO, "--axes", "ZY", *TINY), ("good.npy", "both Y and X")),
    ("overwrite the input", nothing, (*GOOD, "-o", "./good.npy", *M), ("good.npy would overwrite", "choose")),
    ("overwrite in folder", nothing, (*GOOD, "-o", ".", *M), ("good.npy would overwrite the input", "choose")),
    (
        "report over input",
        picture,
        (*PNG, "-o", "o.png", "--report", "./bad.png", *M),
        ("overwrite the input bad.png",),
    ),
    ("report over output", picture, (*PNG, "-o", "o.png", "--report", "o.png", *M), ("overwrite the output o.png",)),
    ("report over noisy", picture, (*JUDGE, "--noisy", "bad.png", "--report", "bad.png"), ("the input bad.png",)),
    ("report in a file", colour, (*BOTH, "--report", "bad.npy", *M), ("bad.npy: this is a file", "name a folder")),
    (
        "two reports of a name",
        namesakes,
        ("denoise", "a", "-o", "new", "--report", "p", *M),
        ("p/x.html", "rename one"),
    ),
    ("picture over input", picture, ("diagnose", "bad.png", "--picture", "bad.png"), ("overwrite the input bad.png",)),
    ("two truths", namesakes, ("evaluate", "a/x*", "a"), ("a/x.npy and a/x.png", "the truth of one image")),
    ("output below a file", text("f"), (*GOOD, "-o", "f/sub/o.npy", *M), ("f/sub cannot be made", "f is a file")),
    ("output folder is a file", text("f"), (*GOOD, "-o", "f", *M), ("f is a file", "choose")),
    ("output film", nothing, (*GOOD, "-o", "new/o.mp4", *TINY), ("new/o.mp4", "films are only read", "write .ome.tif")),
    ("output unsupported", nothing, (*GOOD, "-o", "new/o.xyz", *TINY), ("new/o.xyz", "'.xyz' is not supported")),
    ("PNG of floats", nothing, (*GOOD, "-o", "new/o.png", "--dtype", "float32", *M), ("new/o.png", "write .tif")),
    ("one file for many", colour, (*GOOD, "bad.npy", "-o", "o.tif", *M), ("o.tif is one file", "give a folder")),
    ("two of a name", twins, ("denoise", "*/x.*", "-o", "new", *M), ("Two inputs", "new/x.npy", "rename one")),
    ("wrong channels", colour, (*BAD, *M), ("bad.npy has 3 channel(s)", "the model takes 1")),
    ("mixed channels", colour, (*BOTH, *TINY), ("bad.npy has 3 channel(s)", "good.npy has 1")),
    ("2D model, 3D data", array(9, 40, 40), (*BAD, "--axes", "ZYX", *M), ("bad.npy is 3D", "S instead of Z")),
    ("steps and minutes", nothing, (*TO, "--steps", "3", "--minutes", "1"), ("steps or in minutes, not both",)),
    ("sigma and lambda", nothing, (*TO, "--sigma", "3", "--lambda-inv", "1"), ("sigma", "lambda_inv", "not both")),
    ("lambda of letters", nothing, (*TO, "--lambda-inv", "abc"), ("lambda_inv=abc", "'auto' or a valid number")),
    ("no steps", nothing, (*TO, "--steps", "0"), ("steps=0", "greater than or equal to 1")),
    ("steps of letters", nothing, (*TO, "--steps", "x"), ("'--steps'", "valid integer", "--help")),
    ("unknown preset", nothing, (*TO, "--preset", "slow"), ("preset=slow", "'fast', 'best' or 'paper'")),
    ("unknown setting", nothing, (*TO, "--set", "speed=9"), ("speed: there is no such", "there are preset, method")),
    ("setting without value", nothing, (*TO, "--set", "batch"), ("--set batch", "NAME=VALUE")),
    ("wrong setting", nothing, (*TO, "--set", "batch=few"), ("batch=few", "valid integer")),
    ("wrong patch", nothing, (*TO, "--set", "patch_3d=[8,8,9]"), ("patch_3d", "Y equal to X")),
    ("unknown method", nothing, (*TO, "--set", "method=magic"), ("no method 'magic'", "noise2same")),
    ("unknown dtype", nothing, (*TO, "--dtype", "uint9", *M), ("'uint9' is not known", "uint16")),
    ("complex dtype", nothing, (*TO, "--dtype", "complex64", *M), ("'complex64' cannot hold", "uint16")),
    ("steps with a model", nothing, (*TO, "--steps", "3", *M), ("--steps is for training", "leave out one")),
    ("seed with a model", nothing, (*TO, "--seed", "0", *M), ("--seed is for training", "leave out one")),
    ("plan with a model", nothing, (*TO, "--plan", "p.json", *M), ("--plan is for training", "leave out one")),
    ("word of fail-on", nothing, (*TO, "--fail-on", "never", *M), ("--fail-on never", "check or 'do not trust'")),
    ("fail-on without verdict", nothing, (*TO, "--fail-on", "check", "--no-verdict", *M), ("--fail-on", "--no-verd")),
    ("quiet and verbose", nothing, (*TO, "-q", "-v", *M), ("--quiet and --verbose",)),
    ("missing config", nothing, (*TO, "--config", "c.toml", *M), ("c.toml cannot be read", "No such file")),
    ("config of words", text("c.toml"), (*TO, "--config", "c.toml", *M), ("c.toml is not TOML", "minutes = 10")),
    ("log without training", nothing, (*TO, "--minutes", "0", "--log", "l"), ("--minutes 0 trains", "--log")),
    ("steps of nlm", nothing, (*TO, "--method", "nlm", "--steps", "3"), ("--steps is for training", "nlm")),
    ("tta of nlm", nothing, (*TO, "--method", "nlm", "--tta"), ("nlm is not a network", "tta")),
    ("report without verdict", nothing, (*TO, "--report", "r.html", "--no-verdict", *M), ("--report", "--no-verdict")),
    ("unknown device", nothing, (*TO, "--device", "quantum", *M), ("device 'quantum' cannot be used", "use cpu")),
    ("noise extent", nothing, (*TO, "--noise-extent", "1,2,3", *TINY), ("noise_extent=", "2 numbers, for YX")),
    ("noise extent of sure", nothing, (*TO, "--noise-extent", "1,2", "--method", "sure"), ("sure does not use",)),
    ("unknown option", nothing, (*TO, "--fast"), ("No such option: --fast", "denoise --help")),
    ("no output", nothing, GOOD, ("Missing option '--output'", "denoise --help")),
    ("unknown command", nothing, ("improve",), ("No such command 'improve'", "noise2same --help")),
    ("nothing to resume", nothing, (*TO, "--resume", *TINY), ("nothing to resume", "new/o.unfinished.ckpt")),
    ("no model to resume", nothing, (*TRAIN, "-m", "n.safetensors", "--resume"), ("nothing to resume", "n.safet")),
    ("other network", nothing, (*TRAIN, *M, "--resume", "--set", "features=8"), ("m.safetensors", "features=4")),
    ("model name", nothing, (*TRAIN, "-m", "model.pt", *TINY), ("model.pt", ".safetensors")),
    ("model in a file", text("f"), (*TRAIN, "-m", "f/n.safetensors", *TINY), ("f/n.safetensors", "not a folder")),
    ("model nowhere", nothing, (*TRAIN, "-m", "new/n.safetensors", *TINY), ("new is not a folder", "create it")),
    ("demo in a file", nothing, ("demo", "-o", "good.npy"), ("good.npy", "File exists")),
    ("demo without time", nothing, ("demo", "-o", "new", "--minutes", "0"), ("minutes=0.0", "greater than 0")),
    ("evaluate missing", nothing, ("evaluate", "good.npy", "none.npy"), ("none.npy does not exist",)),
    ("evaluate shapes", array(20, 20), ("evaluate", "good.npy", "bad.npy"), ("good.npy against bad.npy", "(20, 20)")),
]


def refused(run: Run, make: Make, arguments: tuple[str, ...], words: tuple[str, ...], lines: int = 1) -> None:
    """Assert exit code 2, one sentence with these words, an empty stdout and no change on disk."""
    make()
    before = everything()
    code, out, err = run(*arguments)
    assert (code, out) == (2, ""), err
    *others, sentence = err.splitlines()
    assert len(others) == lines - 1, err
    assert sentence.startswith("Error: ") and sentence.endswith("."), err
    for word in words:
        assert word in sentence
    assert everything() == before


def table(rows: list[Any]) -> Any:
    """Parametrise with the first column as name of the case."""
    return [pytest.param(*row[1:], id=row[0].replace(" ", "-")) for row in rows]


@pytest.mark.parametrize(("make", "name", "words"), table(IMAGES))
def test_image_that_cannot_be_read(run: Run, make: Make, name: str, words: tuple[str, ...]) -> None:
    refused(run, make, ("denoise", "good.npy", name, "-o", "out", "--strict", *TINY), words)
    refused(run, nothing, ("denoise", name, "-o", "new/folder/out.npy", "-m", "m.safetensors"), words)


NOT_FOUND = ("missing", "no match", "folder without images", "unsupported", "ZVI", "folder of ZVI")


@pytest.mark.parametrize("model", [M, TINY])
@pytest.mark.parametrize(("make", "name", "words"), table([row for row in IMAGES if row[0] not in NOT_FOUND]))
def test_a_bad_image_is_named_and_the_others_are_done(
    run: Run, make: Make, name: str, words: tuple[str, ...], model: tuple[str, ...]
) -> None:
    make()
    Path("in").mkdir()
    for item in ("good.npy", name):
        os.rename(item, f"in/{item}")
    code, out, err = run("denoise", "in", "-o", "out", "--json", "--no-verdict", *model)
    assert code == 1 and Path("out/good.npy").exists() and not Path("out", name).exists(), err
    bad, good, summary = sorted(map(json.loads, out.splitlines()), key=lambda line: line.get("input", "~"))
    assert summary["summary"]["done"] == summary["summary"]["failed"] == 1
    assert bad["input"] == f"in/{name}" and good["output"] == "out/good.npy"
    for word in words:
        assert word in bad["error"]
        assert err.count(word) >= 2 + (model is TINY)  # when it fails, at the end, and when it is left out of training
    assert "Traceback" not in err and "1 done, 1 failed." in err


@pytest.mark.parametrize(("make", "name", "words"), table(UNTRAINABLE))
def test_image_to_learn_nothing_from(run: Run, make: Make, name: str, words: tuple[str, ...]) -> None:
    refused(run, make, ("denoise", name, "-o", "new/out.npy", *TINY), words)
    refused(run, nothing, ("train", name, "-m", "new.safetensors", *TINY), words)


@pytest.mark.parametrize(("make", "words"), table(MODELS))
def test_model_that_is_none(run: Run, make: Make, words: tuple[str, ...]) -> None:
    refused(run, make, ("info", "bad.safetensors"), ("bad.safetensors", *words))
    refused(run, nothing, (*GOOD, "-o", "new/o.npy", "-m", "bad.safetensors"), ("bad.safetensors", *words))


@pytest.mark.parametrize(("make", "arguments", "words"), table(USAGE))
def test_usage(run: Run, make: Make, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(run, make, arguments, words)


def test_a_wrong_output_is_told_before_training() -> None:
    with pytest.raises(InputError, match="nowhere is not a folder"):
        noise2same.denoise(np.zeros((40, 40)), output="nowhere/out.npy")  # of which nothing could be learned


def test_all_nan_image_passes_through_a_model(run: Run) -> None:
    np.save("nan.npy", np.full((40, 40), np.nan))
    code, _, err = run("denoise", "nan.npy", "-o", "out.npy", "-m", "m.safetensors")
    assert code == 0 and "nan.npy: 1600 NaN or infinite pixels" in err
    assert np.isnan(np.load("out.npy")).all()


def test_checkpoint_that_does_not_fit(run: Run, interrupt: Callable[[int], None]) -> None:
    text("n.unfinished.ckpt")()
    words = ("n.unfinished.ckpt does not fit", "start again without")
    resume = (*TRAIN, "-m", "n.safetensors", "--resume", *TINY)
    refused(run, nothing, resume, words, lines=4)
    interrupt(2)
    assert run(*TRAIN, "-m", "n.safetensors", *TINY)[0] == 130
    refused(run, nothing, (*resume, "--set", "features=8"), words, lines=4)


def test_log_folder_that_cannot_be_made(run: Run) -> None:
    arguments = ("train", "good.npy", "-m", "n.safetensors", "--log", "good.npy/log", *TINY)
    refused(run, nothing, arguments, ("good.npy/log", "cannot be made", "choose another"), lines=4)


def test_folder_without_permission(run: Run) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        pytest.skip("root may write anywhere, and Windows has no such permissions")
    Path("locked").mkdir(mode=0o500)
    refused(run, nothing, (*GOOD, "-o", "locked/o.npy", "-m", "m.safetensors"), ("locked", "no permission"))
    refused(run, nothing, (*GOOD, "-o", "locked/new/o.npy", "-m", "m.safetensors"), ("locked", "cannot be made"))
    refused(run, nothing, ("train", "good.npy", "-m", "locked/n.safetensors"), ("locked", "no permission"))


@pytest.mark.parametrize("name", ["o.npy", "o.tif", "o.png", "o.zarr"])
def test_no_space(run: Run, name: str) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no limit on the size of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        arguments = ("denoise", "good.npy", "-o", f"new/{name}", "-m", "m.safetensors")
        refused(run, nothing, arguments, (f"{name} cannot be written", "free space"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_skipped_files_are_told_once(run: Run) -> None:
    twins()
    Path("a/y.zvi").touch()
    code, _, err = run("denoise", "a", "-o", "out", "-m", "m.safetensors")
    assert code == 0 and err.count("Warning: a: skipped 1 .zvi (y.zvi), which cannot be read; export as OME-TIFF") == 1
