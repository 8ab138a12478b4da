"""Films: each frame at its place, from whatever frame on it is asked for, and few of them in memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from field_files import write_video as write
from PIL import Image as Pillow
from roundtrip import copy, noise

from noise2same import io
from noise2same.errors import InputError

av = pytest.importorskip("av")


def numbered(count: int = 60) -> np.ndarray:
    """Frames with their numbers in them, as bars of a binary code that no compression takes away; in colors."""
    bits = np.arange(count)[:, None] >> np.arange(8) & 1
    rows = np.repeat(bits, 8, 1)[:, None, :, None] * np.array([200, 100, 150]) + 20
    return np.broadcast_to(rows, (count, 48, 64, 3)).astype("uint8")


def numbers(frames: np.ndarray) -> list[int]:
    bits = frames[:, 24, 4::8, 0] > 120
    return (bits << np.arange(8)).sum(1).tolist()


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {"g": "12", "bf": "3", "crf": "10"}),
        ("a.mov", "libx264", {"g": "250", "bf": "2", "crf": "10"}),
        ("a.mkv", "libx264", {"g": "12", "bf": "3", "crf": "10"}),
        ("a.avi", "mpeg4", {"qscale": "2", "g": "12"}),
        ("a.mpg", "mpeg2video", {"qscale": "2", "g": "12", "bf": "2"}),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_each_frame_is_at_its_place(
    name: str, codec: str, options: dict, lazy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lazy:
        monkeypatch.setattr("noise2same.io.image.LAZY_BYTES", 100)
    frames = numbered()
    image = io.read(write(tmp_path / name, frames, codec, "yuv420p", "rgb24", **options))
    assert (image.axes, image.shape, image.dtype) == ("TYXC", frames.shape, np.uint8)
    assert image.pixel_size == pytest.approx({"T": 0.04})
    assert isinstance(image.data, io.Pieces) is lazy
    for start, stop in ((0, 3), (17, 19), (30, 60), (59, 60), (5, 6)):
        assert numbers(image.data[start:stop]) == list(range(start, stop))


@pytest.mark.parametrize(
    ("kind", "dtype", "axes"),
    [("gray", "uint8", "TYX"), ("gray16le", "uint16", "TYX"), ("bgr0", "uint8", "TYXC"), ("rgb48le", "uint16", "TYXC")],
)
def test_lossless_films(kind: str, dtype: str, axes: str, tmp_path: Path) -> None:
    frames = noise((8, 40, 50, 3)[: len(axes)], dtype)
    source = {"TYX8": "gray", "TYX16": "gray16le", "TYXC8": "rgb24", "TYXC16": "rgb48le"}[f"{axes}{dtype[4:]}"]
    image = io.read(write(tmp_path / "a.mkv", frames, "ffv1", kind, source, rate=10))
    assert (image.axes, image.dtype, image.pixel_size) == (axes, np.dtype(dtype), {"T": 0.1})
    np.testing.assert_array_equal(image.data[...], frames)


def test_gray_films_in_colors_are_gray(tmp_path: Path) -> None:
    frames = np.repeat(noise((8, 40, 50, 1), "uint8"), 3, -1)
    image = io.read(write(tmp_path / "a.avi", frames, "rawvideo", "bgr24", "rgb24"))
    assert image.axes == "TYX"
    np.testing.assert_array_equal(image.data[2:5, 3], frames[2:5, 3, :, 0])


def test_one_colored_frame_is_enough(tmp_path: Path) -> None:
    frames = np.repeat(noise((8, 40, 50, 1), "uint8"), 3, -1)
    frames[-1, 0, 0] = (255, 0, 0)
    assert io.read(write(tmp_path / "a.avi", frames, "rawvideo", "bgr24", "rgb24")).axes == "TYXC"


@pytest.mark.parametrize(("name", "options"), [("a.gif", {}), ("a.webp", {"lossless": True})])
def test_animations(name: str, options: dict, tmp_path: Path) -> None:
    frames = noise((5, 40, 50), "uint8")
    first, *rest = (Pillow.fromarray(frame) for frame in frames)
    first.save(tmp_path / name, save_all=True, append_images=rest, duration=200, **options)
    image = io.read(tmp_path / name)
    assert (image.axes, image.shape, image.dtype, image.pixel_size) == ("TYX", (5, 40, 50), np.uint8, {"T": 0.2})
    np.testing.assert_array_equal(image.data[...], frames)
    assert io.output_name(tmp_path / name) == "a.ome.tif"
    copied = copy(image, tmp_path / "b.ome.tif")
    assert (copied.axes, copied.pixel_size) == ("TYX", {"T": 0.2})
    first.save(tmp_path / name, **options)
    assert io.read(tmp_path / name).axes == "YX"


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noise2same.io.image.LAZY_BYTES", 100)
    image = io.read(write(tmp_path / "a.avi", np.zeros((300, 240, 320, 3), "uint8"), "mjpeg", "yuvj420p", "rgb24"))
    tracemalloc.start()
    for start in range(0, 300, 50):
        image.data[start : start + 10, :32, :32]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 240 * 320 * 3  # 69 MB are in the film


def test_from_the_command_line(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    write(tmp_path / "a.avi", noise((3, 64, 64), "uint8"), "ffv1", "gray", "gray")
    fast = ("--steps", 2, "--set", "features=4", "--set", "patch=32", "--set", "batch=2")
    (tmp_path / "clean").mkdir()
    code, _, errors = run("denoise", tmp_path / "a.avi", "-o", tmp_path / "clean", *fast)
    assert code == 0, errors
    assert io.read(tmp_path / "clean" / "a.ome.tif").axes == "TYX"


def test_what_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, codec in (("a.mp4", "libx264"), ("a.avi", "mjpeg"), ("a.mkv", "libx264"), ("a.gif", "")):
        path = tmp_path / name
        if codec:
            write(path, noise((60, 48, 64, 3), "uint8"), codec, "yuvj420p" if codec == "mjpeg" else "yuv420p", "rgb24")
        else:
            pictures = [Pillow.fromarray(frame) for frame in noise((20, 48, 64), "uint8")]
            pictures[0].save(path, save_all=True, append_images=pictures[1:])
        whole = path.read_bytes()
        for length in (0, 1, 30, len(whole) // 2):
            path.write_bytes(whole[:length])
            with pytest.raises(InputError, match=f"{name} is (truncated|damaged)"):
                io.read(path).data[...]
        path.write_bytes(b"This is no film. " * 100)
        with pytest.raises(InputError, match=f"{name} is truncated or corrupt"):
            io.read(path)
    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), "float32"), format="fltp", layout="mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    with pytest.raises(InputError, match=r"sound.mp4 has no pictures, but only audio"):
        io.read(tmp_path / "sound.mp4")
    with pytest.raises(InputError, match=r"b.mp4: films are only read.*write .ome.tif"):
        io.check_output(tmp_path / "b.mp4", [])
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(InputError, match=r"sound.mp4 needs av.*pip install 'noise2same\[video\]'"):
        io.read(tmp_path / "sound.mp4")
