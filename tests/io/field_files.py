"""Files of cameras, scanners and films, as their own programs write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile

SERIES = "1.2.826.0.1.3680043.8.498.1"
PLAIN, JPEG_LOSSLESS, JPEG_LS = "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.4.70", "1.2.840.10008.1.2.4.80"
"""Transfer syntaxes of DICOM."""
MATRIX = [0.9, -0.2, -0.1, -0.4, 1.2, 0.2, 0.0, 0.1, 0.6]
NEUTRAL = [0.5, 1.0, 0.7]


def write_dng(
    path: Path, mosaic: np.ndarray, pattern: tuple[int, ...] = (0, 1, 1, 2), orientation: int = 1, size: int = 2
) -> Path:
    """A DNG. Colors of its pattern are 0 (red), 1 (green) and 2 (blue), row by row."""

    def fractions(values: list[float]) -> tuple[int, ...]:
        return tuple(part for value in values for part in (round(value * 1000), 1000))

    tags = [
        (271, "s", 0, "Maker", True),
        (272, "s", 0, "Camera 1", True),
        (274, "H", 1, orientation, True),
        (306, "s", 0, "2026:11:18 12:00:00", True),
        (33421, "H", 2, (size, size), True),
        (33422, "B", size * size, pattern, True),
        (50706, "B", 4, (1, 4, 0, 0), True),
        (50708, "s", 0, "Maker Camera 1", True),
        (50713, "H", 2, (2, 2), True),
        (50714, "2I", 4, fractions([60, 61, 62, 63]), True),
        (50717, "I", 1, 4095, True),
        (50721, "2i", 9, fractions(MATRIX), True),
        (50728, "2I", 3, fractions(NEUTRAL), True),
        (50778, "H", 1, 21, True),
    ]
    tifffile.imwrite(path, mosaic, photometric=32803, metadata=None, extratags=tags)
    return path


def write_dicom(path: Path, pixels: np.ndarray, syntax: str = PLAIN, **values: Any) -> Path:
    """A slice as a scanner writes it."""
    import pydicom
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.uid import CTImageStorage, generate_uid

    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID = CTImageStorage
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID = generate_uid()
    dataset.Modality, dataset.SeriesInstanceUID, dataset.PixelSpacing = "CT", SERIES, [0.5, 0.25]
    dataset.Rows, dataset.Columns = pixels.shape[-2:] if pixels.shape[-1] != 3 else pixels.shape[:2]
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    if pixels.shape[-1] == 3:
        dataset.SamplesPerPixel, dataset.PhotometricInterpretation, dataset.PlanarConfiguration = 3, "RGB", 0
    dataset.BitsAllocated = dataset.BitsStored = 8 * pixels.dtype.itemsize
    dataset.HighBit, dataset.PixelRepresentation = dataset.BitsStored - 1, int(pixels.dtype.kind == "i")
    encode = {JPEG_LOSSLESS: imagecodecs.ljpeg_encode, JPEG_LS: imagecodecs.jpegls_encode}.get(syntax)
    dataset.PixelData = encapsulate([encode(pixels)]) if encode else pixels.tobytes()
    dataset["PixelData"].VR = "OB" if encode else "OW"
    for name, value in values.items():
        setattr(dataset, name, value)
    pydicom.dcmwrite(path, dataset, enforce_file_format=True)
    return path


def write_video(
    path: Path, frames: np.ndarray, codec: str, kind: str, source: str, rate: int = 25, **options: str
) -> Path:
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], kind
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format=source)
            frame.pts = number
            container.mux(stream.encode(frame.reformat(format=kind)))
        container.mux(stream.encode())
    return path
