"""Peak memory of denoising files of 0.5 and 4 GB of each format that is read piece by piece and can be written here."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import record
import tifffile
import zarr
from numpy.typing import NDArray
from skimage.data import binary_blobs
from torch import Tensor, nn

import noise2same as n2s
from noise2same.errors import Cancelled

sys.path.append(str(record.HERE.parent / "tests" / "io"))  # where files of microscopes and scanners are made
import field_files
import microscope_files

SIDE, TILE = 2048, 512
"""Pixels along Y and X of a plane, and of the noisy tile that it repeats, which is also a chunk or tile of files."""
SMALL, LARGE = 64, 512
"""Planes of the files, of 0.5 and 4.3 GB as uint16."""
MORE = 0.15
"""GB that the larger file may take beyond the smaller one: two runs of 12 s with equal files differed by 0.11."""
TEXT = """# Memory for files of each format

Peak resident memory of a process that denoises a stack of planes, from disk to disk, without tta.
The pretrained network does so for {seconds:g} seconds, which shows what a block takes.
Then a network that copies its input goes through all of the larger file, which shows what files take.
A file below 1 GiB is decoded whole, unless its pixels are plain or in chunks, so that the smaller one may take more."""


def noisy_tile() -> NDArray[np.uint16]:
    clean = binary_blobs(TILE, n_dim=2, rng=0) * 500.0 + 100
    return np.random.default_rng(0).poisson(clean).astype(np.uint16)


def noisy_stack(planes: int) -> NDArray[np.uint16]:
    """Planes that share their memory."""
    plane = np.tile(noisy_tile(), (SIDE // TILE, SIDE // TILE))
    return np.broadcast_to(plane, (planes, SIDE, SIDE))


def write_zarr(path: Path, stack: NDArray[Any]) -> None:
    array = zarr.create_array(str(path), shape=stack.shape, chunks=(1, TILE, TILE), dtype=stack.dtype)
    for number, plane in enumerate(stack):
        array[number] = plane


def write_ome_zarr(path: Path, stack: NDArray[Any]) -> None:
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    axes = [{"name": letter, "type": "space", "unit": "micrometer"} for letter in "zyx"]
    levels = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 0.1, 0.1]}]}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    write_zarr(path / "0", stack)


def write_npy(path: Path, stack: NDArray[Any]) -> None:
    np.lib.format.open_memmap(path, mode="w+", dtype=stack.dtype, shape=stack.shape)[:] = stack


def write_ome_tiff(path: Path, stack: NDArray[Any], content: Any = None, **options: Any) -> None:
    what: dict[str, Any] = {"shape": stack.shape, "dtype": stack.dtype, "metadata": {"axes": "ZYX"}}
    tifffile.imwrite(path, iter(stack) if content is None else content, bigtiff=True, **what, **options)


def write_tiled_tiff(path: Path, stack: NDArray[Any]) -> None:
    tiles = repeat(imagecodecs.zstd_encode(noisy_tile()), stack.size // TILE**2)
    write_ome_tiff(path, stack, tiles, tile=(TILE, TILE), compression="zstd")


def write_mrc(path: Path, stack: NDArray[Any]) -> None:
    import mrcfile

    with mrcfile.new_mmap(path, stack.shape, mrc_mode=6) as file:
        file.data[:] = stack


def write_fits(path: Path, stack: NDArray[Any]) -> None:
    from astropy.io import fits

    header = fits.Header([("SIMPLE", True), ("BITPIX", 16), ("NAXIS", 3)])
    header.update({"NAXIS1": SIDE, "NAXIS2": SIDE, "NAXIS3": len(stack), "BSCALE": 1, "BZERO": 2**15})
    file = fits.StreamingHDU(path, header)
    shifted = (stack[0] ^ np.uint16(2**15)).view(np.int16)
    for _ in stack:
        file.write(shifted)
    file.close()


def write_nifti(path: Path, stack: NDArray[Any]) -> None:
    import nibabel

    header = nibabel.Nifti1Header()
    header.set_data_shape(stack.shape[::-1])
    header.set_data_dtype(stack.dtype)
    header["vox_offset"], header["magic"] = 352, b"n+1"
    with path.open("wb") as file:
        file.write(header.binaryblock.ljust(352, b"\0"))
        for plane in stack:
            plane.tofile(file)


def write_czi(path: Path, stack: NDArray[Any]) -> None:
    microscope_files.write_czi(path, [stack[np.newaxis, np.newaxis]])


def write_lif(path: Path, stack: NDArray[Any]) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        pixels = np.memmap(file, stack.dtype, "w+", shape=stack.shape)
        pixels[:] = stack
        microscope_files.write_lif(path, [("ZYX", pixels)])


def write_dicom(path: Path, stack: NDArray[Any]) -> None:
    path.mkdir()
    for number, plane in enumerate(stack):
        place = {"ImagePositionPatient": [0, 0, number], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}
        field_files.write_dicom(path / f"{number}.dcm", plane, InstanceNumber=number, **place)


FORMATS: dict[str, tuple[str, str, Callable[[Path, NDArray[Any]], None]]] = {
    "OME-Zarr": (".ome.zarr", ".ome.zarr", write_ome_zarr),
    "OME-TIFF, plain": (".ome.tif", ".ome.tif", write_ome_tiff),
    "OME-TIFF, tiles with Zstandard": (".ome.tif", ".ome.tif", write_tiled_tiff),
    "NumPy": (".npy", ".npy", write_npy),
    "MRC": (".mrcs", ".mrcs", write_mrc),
    "FITS": (".fits", ".fits", write_fits),
    "NIfTI": (".nii", ".nii", write_nifti),
    "CZI": (".czi", ".ome.tif", write_czi),
    "LIF": (".lif", ".ome.tif", write_lif),
    "DICOM, a folder": ("", ".ome.tif", write_dicom),
}
"""Suffix of the file, suffix of the result, and what writes the file."""


def write(name: str, path: Path, planes: int) -> None:
    """Make a file, in another process, as libraries hold on to memory."""
    FORMATS[name][2](path, noisy_stack(planes))


class Copy(nn.Module):
    """A network that takes no time, and looks as far around a pixel as another."""

    def __init__(self, like: nn.Module) -> None:
        super().__init__()
        self.multiple, self.reach, self.values_per_pixel = like.multiple, like.reach, like.values_per_pixel

    def forward(self, x: Tensor) -> Tensor:
        return x.clone()


def denoise(path: Path, output: Path, seconds: float) -> tuple[float, float]:
    """Denoise a file for so many seconds at most, or all of it by `Copy` if for none; share done, and peak in GB."""
    model = n2s.Denoiser(n2s.Config(minutes=0, blend=seconds > 0)).use_pretrained(path, "SYX")
    if seconds == 0:
        model.network = Copy(model.network)
        model.config = model.config.model_copy(update={"normalization": "dataset"})  # so that each plane is read once
    end, share = time.monotonic() + seconds, 0.0

    def on_block(done: int, total: int) -> bool:
        nonlocal share
        share = done / total
        return seconds > 0 and time.monotonic() > end

    with suppress(Cancelled):
        model.denoise(path, "SYX", output=output, tta=False, on_block=on_block)
    return share, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def row_of(name: str, seconds: float) -> dict[str, Any]:
    """Peaks of a format. Each file is written, and each time denoised, in a process of its own."""
    suffix, result, _ = FORMATS[name]
    row: dict[str, Any] = {"file": name, "result": result}
    for planes in (SMALL, LARGE):
        size = f"{planes * SIDE**2 * 2 / 1e9:.1f} GB"
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, max_tasks_per_child=1) as pool:
            path, output = Path(folder) / f"noisy{suffix}", Path(folder) / f"clean{result}"
            pool.submit(write, name, path, planes).result()
            share, peak = pool.submit(denoise, path, output, seconds).result()
            row |= {f"{size}: peak GB": round(peak, 2), f"{size}: MPix done": round(share * planes * SIDE**2 / 1e6)}
            if planes == LARGE:
                share, peak = pool.submit(denoise, path, output, 0).result()
                row |= {f"{size} copied: peak GB": round(peak, 2), f"{size} copied: done": f"{share:.0%}"}
    return row


def check(row: dict[str, Any]) -> None:
    """That the larger file takes no more than the smaller one."""
    small, large, copied = (peak for column, peak in row.items() if column.endswith("peak GB"))
    assert max(large, copied) <= small + MORE, row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="for each file with the pretrained network")
    parser.add_argument("formats", nargs="*", default=list(FORMATS), help="which, by default all", metavar="format")
    given = parser.parse_args()
    rows = []
    for one in given.formats:
        rows.append(row_of(one, given.seconds))
        print(rows[-1], flush=True)
    record.write("format_memory", rows, TEXT.format(seconds=given.seconds))
    for one in rows:
        check(one)
