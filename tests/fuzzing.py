"""A child process that opens damaged files, many of them, within limits of memory and time (`test_fuzz.py`).

Each case is said before it is tried, so that the parent knows which one ended the process.
"""

from __future__ import annotations

import faulthandler
import json
import random
import resource
import shutil
import signal
import sys
import traceback
import warnings
import zlib
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import tifffile
import torch
import zarr

from noise2same import Config, Denoiser, io, train
from noise2same.data.sampling import read_boxes
from noise2same.errors import InputError

SECONDS = 10
"""Of the CPU that one file may take."""
PATIENCE = 60
"""Seconds by the clock, on a busy machine."""
MEMORY = 2**30
"""Bytes that one file may take."""
UNFINISHED = Config(steps=3, features=2, levels=1, batch=1, patch=16)
"""Of the run whose checkpoint is damaged."""
NUMBERS = [0, 1, 2, 7, 255, 256, 65535, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]
"""What lying headers say."""


def make_seeds(folder: Path) -> list[Path]:
    """Small files of every kind that is opened."""
    folder.mkdir()
    random_values = np.random.default_rng(0)
    gray = random_values.integers(0, 60000, (24, 20)).astype(np.uint16)
    color = random_values.integers(0, 255, (20, 24, 3)).astype(np.uint8)
    stack = random_values.integers(0, 60000, (5, 16, 16)).astype(np.uint16)
    tifffile.imwrite(folder / "plain.tif", gray)
    tifffile.imwrite(folder / "deflate.tif", gray, compression="zlib", tile=(16, 16))
    tifffile.imwrite(folder / "lzw.tif", color, compression="lzw", photometric="rgb")
    tifffile.imwrite(folder / "big.tif", gray, bigtiff=True)
    tifffile.imwrite(folder / "imagej.tif", stack, imagej=True, metadata={"axes": "ZYX"})
    tifffile.imwrite(folder / "ome.ome.tif", stack, metadata={"axes": "ZYX", "PhysicalSizeX": 0.1})
    imageio.imwrite(folder / "gray.png", gray)
    imageio.imwrite(folder / "color.png", color)
    imageio.imwrite(folder / "color.jpg", color)
    np.save(folder / "gray.npy", gray.astype(np.float32))
    with io.create(folder / "stack.ome.zarr", io.Image(stack, "ZYX")) as out:
        out[...] = stack
    old = zarr.create_array(folder / "old.zarr", shape=gray.shape, chunks=(8, 8), dtype=gray.dtype, zarr_format=2)
    old[...] = gray
    model = train(gray.astype(np.float32), steps=1, features=2, levels=1, batch=1, patch=16, progress=False)
    model.save(folder / "model.safetensors")
    Denoiser(UNFINISHED).fit(
        gray.astype(np.float32), checkpoint=folder / "run.ckpt", progress=False, on_step=lambda state: True
    )
    return sorted(folder.iterdir())


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Damage a file: flip bits, cut, repeat, or let numbers lie."""
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if not damaged:
            break
        # headers are where the harm is
        at = chance.randrange(min(len(damaged), chance.choice([64, 512, len(damaged)])))
        match chance.choice(["flip", "flip", "byte", "cut", "drop", "repeat", "number", "text"]):
            case "flip":
                damaged[at] ^= 1 << chance.randrange(8)
            case "byte":
                damaged[at] = chance.choice([0, 1, 127, 128, 255])
            case "cut":
                del damaged[at if chance.random() < 0.5 else chance.randrange(len(damaged)) :]
            case "drop":
                del damaged[at : at + chance.randrange(1, 32)]
            case "repeat":
                damaged[at:at] = damaged[at : at + chance.randrange(1, 64)]
            case "number":
                size, order = chance.choice([2, 4, 8]), chance.choice(["little", "big"])
                number = (chance.choice(NUMBERS) % 256**size).to_bytes(size, order)
                damaged[at : at + size] = number
            case "text":  # numbers in JSON and XML
                digits = [i for i, byte in enumerate(damaged[:4096]) if 48 <= byte <= 57]
                if digits:
                    at = chance.choice(digits)
                    damaged[at : at + 1] = chance.choice(
                        [b"1000000000000", b"-1", b"0", b"NaN", b'"a"', b"1e99", b"null"]
                    )
    return bytes(damaged)


def damage(seed: Path, target: Path, chance: random.Random) -> None:
    """A damaged copy of a file, or of a folder with one or two damaged files."""
    if seed.is_file():
        target.write_bytes(mutate(seed.read_bytes(), chance))
        return
    shutil.copytree(seed, target)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    metadata = [path for path in files if path.suffix == ".json" or path.name.startswith(".z")]
    for path in chance.sample(metadata if chance.random() < 0.7 else files, chance.choice([1, 2])):
        if chance.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(mutate(path.read_bytes(), chance))


def open_file(path: Path, gray: Any) -> None:
    """Do with a file what the package does with it: read some of it, or load it and denoise with it."""
    if path.suffix == ".safetensors":
        result = Denoiser.load(path).denoise(gray, tta=False)
        assert np.isfinite(result).all(), "the result is not finite"
    elif path.suffix == ".ckpt":
        Denoiser(UNFINISHED).fit(gray, checkpoint=path, resume=True, progress=False)
    else:
        image = io.read(path, fallback="YX")
        boxes = read_boxes([image], 2**16)
        assert boxes


def lies(folder: Path) -> list[Path]:
    """Tiny files that claim to hold 10¹² pixels."""
    folder.mkdir()
    (folder / "short.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00")
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    (folder / "lie.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.ljust(117).encode() + b"\n")
    pickled = "{'descr': '|O', 'fortran_order': False, 'shape': (3, 3), }"
    (folder / "object.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + pickled.ljust(117).encode() + b"\ncos\nsystem\n")
    png = bytearray(imageio.imwrite("<bytes>", np.zeros((4, 4), np.uint8), extension=".png"))
    png[16:24] = (1_000_000).to_bytes(4, "big") * 2
    png[29:33] = zlib.crc32(png[12:29]).to_bytes(4, "big")
    (folder / "lie.png").write_bytes(bytes(png))
    for name, big in (("lie.tif", False), ("lie_big.tif", True)):
        tifffile.imwrite(folder / name, np.zeros((8, 8), np.uint8), bigtiff=big)
        with tifffile.TiffFile(folder / name, mode="r+b") as file:
            for tag in ("ImageWidth", "ImageLength", "RowsPerStrip"):
                file.pages[0].tags[tag].overwrite(1_000_000)  # type: ignore[union-attr]
    store = zarr.create_array(folder / "lie.zarr", shape=(1_000_000, 1_000_000), chunks=(1024, 1024), dtype="u2")
    store[:4, :4] = 1
    zarr.create_array(folder / "chunk.zarr", shape=(1_000_000, 1_000_000), chunks=(1_000_000, 1_000_000), dtype="u2")
    (folder / "lie.safetensors").write_bytes((10**12).to_bytes(8, "little") + b"{}")
    (folder / "lie.ckpt").write_bytes(b"PK\x03\x04" + bytes(6))
    torch.save({"step": torch.empty(1).expand(10**12)}, folder / "wide.ckpt")
    return sorted(folder.iterdir())


class Late(BaseException):
    """A file took too long."""


def late(number: int, frame: Any) -> None:
    raise Late


def memory(field: str) -> int:
    """Bytes: of addresses that this process has (VmSize), or held at most since `forget_peak` (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def forget_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmHWM")


def try_one(path: Path, gray: Any) -> str:
    """What happened with a file, in one word and a reason."""
    before = forget_peak()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        open_file(path, gray)
        outcome = "read"
    except InputError as error:
        outcome = "refused" if len(str(error)) < 500 and "\n" not in str(error) else f"BAD SENTENCE {error}"
    except Late:
        outcome = "BAD: too slow"
    except BaseException as error:
        outcome = f"BAD {type(error).__name__}: {error} {traceback.format_exc()[-600:]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    taken = memory("VmHWM") - before
    return f"BAD: {taken / 2**20:.0f} MB" if taken > MEMORY else outcome


def main(work: Path, first: int, count: int) -> None:
    """Try files number `first` and on, or the lies if there is no number; a line of JSON before and after each."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, late)
    signal.signal(signal.SIGPROF, late)
    seeds = sorted((work / "seeds").iterdir())
    gray = np.load(work / "seeds" / "gray.npy")
    open_file(work / "seeds" / "model.safetensors", gray)  # loads libraries
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + 2 * MEMORY,) * 2)  # beyond it, an allocation fails
    for number in range(first, first + count):
        seed = seeds[number % len(seeds)]
        target = work / f"case{number}-{seed.name}"
        damage(seed, target, random.Random(number))
        tell(number, seed.name)
        outcome = try_one(target, gray)
        tell(number, seed.name, outcome)
        if not outcome.startswith("BAD"):
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    for number, path in enumerate(sorted((work / "lies").iterdir()) if not count else []):
        tell(number, path.name)
        tell(number, path.name, try_one(path, gray))


def tell(number: int, name: str, outcome: str | None = None) -> None:
    print(json.dumps({"number": number, "file": name, "outcome": outcome}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
