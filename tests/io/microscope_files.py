"""Files of microscopes: CZI by Zeiss's library; LIF, for which there is no library that writes, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray


def write_czi(path: Path, scenes: Sequence[NDArray[np.generic]], *, tile: int = 0) -> None:
    """CZI of scenes (T, C, Z, Y, X), or (Y, X, 3) in color; with `tile`, each plane is a mosaic of such columns."""
    from pylibCZIrw import czi

    color = scenes[0].ndim == 3
    with czi.create_czi(str(path), exist_ok=True) as file:
        for number, scene in enumerate(scenes):
            left = 10_000 * number + 7  # scenes lie apart on the stage
            if color:
                file.write(scene[..., ::-1].copy(), scene=number, location=(left, 5))
                continue
            for t, c, z in np.ndindex(scene.shape[:3]):
                plane, pixels = {"T": t, "C": c, "Z": z}, scene[t, c, z]
                step = tile or pixels.shape[1]
                for start in range(0, pixels.shape[1], step):
                    part = np.ascontiguousarray(pixels[:, start : start + step])
                    file.write(part, plane=plane, scene=number, location=(left + start, 5))
        shown = [
            czi.ChannelDisplaySettingsDataClass(True, czi.TintingMode.Color, czi.Rgb8Color(*rgb), 0.0, 1.0)
            for rgb in ((0, 0, 255), (0, 255, 0))
        ]
        names = {0: "DAPI"} if color or scenes[0].shape[1] == 1 else {0: "DAPI", 1: "GFP"}
        scale = {"scale_x": 1e-7, "scale_y": 2e-7, "scale_z": 5e-7}
        colors = {} if color else {n: shown[n] for n in names}
        file.write_metadata(document_name="cells", channel_names=names, display_settings=colors, **scale)


DIMENSIONS = {"X": 1, "Y": 2, "Z": 3, "T": 4, "M": 10}
STEPS = {"X": 1e-7, "Y": 2e-7, "Z": 5e-7, "T": 1.5, "M": 1.0}


def write_lif(path: Path, images: Sequence[tuple[str, NDArray[np.generic]]]) -> None:
    """LIF of images, each with the axes of its array, the slowest first."""
    described = "".join(_element(n, axes, pixels) for n, (axes, pixels) in enumerate(images))
    text = (
        '<LMSDataContainerHeader Version="2"><Element Name="project" Visibility="1" CopyOption="1"><Data/>'
        f'<Memory Size="0" MemoryBlockID="MemBlock_none"/><Children>{described}</Children></Element>'
        "</LMSDataContainerHeader>"
    )
    with path.open("wb") as file:
        file.write(struct.pack("<IIBI", 0x70, 2 * len(text) + 5, 0x2A, len(text)) + text.encode("utf-16-le"))
        for number, (_, pixels) in enumerate(images):
            name = f"MemBlock_{number}"
            head = struct.pack("<IIBQBI", 0x70, 2 * len(name) + 14, 0x2A, pixels.nbytes, 0x2A, len(name))
            file.write(head + name.encode("utf-16-le"))
            pixels.tofile(file)  # which may be more than fits into memory


def _element(number: int, axes: str, pixels: NDArray[np.generic]) -> str:
    strides = dict(zip(axes, pixels.strides, strict=True))
    sizes = dict(zip(axes, pixels.shape, strict=True))
    kind = 'DataType="1"' if pixels.dtype.kind == "f" else 'DataType="0"'
    channels = "".join(
        f'<ChannelDescription {kind} ChannelTag="0" Resolution="{pixels.dtype.itemsize * 8}" '
        f'NameOfMeasuredQuantity="" Min="0" Max="255" Unit="" LUTName="{("Green", "Red")[c % 2]}" IsLUTInverted="0" '
        f'BytesInc="{c * strides.get("C", 0)}" BitInc="0"><ChannelProperty><Key>DyeName</Key>'
        f"<Value>dye {c}</Value></ChannelProperty></ChannelDescription>"
        for c in range(sizes.get("C", 1))
    )
    dimensions = "".join(
        f'<DimensionDescription DimID="{DIMENSIONS[k]}" NumberOfElements="{sizes[k]}" Origin="0" '
        f'Length={quoteattr(str(STEPS[k] * (sizes[k] - 1)))} Unit="{"s" if k == "T" else "m"}" BitInc="0" '
        f'BytesInc="{strides[k]}"/>'
        for k in reversed(axes)
        if k != "C"
    )
    stamp = (1_600_000_000 + 11_644_473_600) * 10_000_000  # 2020-09-13T12:26:40, as Windows counts
    return (
        f'<Element Name="Series{number:03}" Visibility="1" CopyOption="1" UniqueID="u{number}"><Data><Image '
        f'TextDescription=""><ImageDescription><Channels>{channels}</Channels><Dimensions>{dimensions}</Dimensions>'
        f'</ImageDescription><TimeStampList NumberOfTimeStamps="1">{stamp:x}</TimeStampList>'
        '<Attachment Name="HardwareSetting"><ATLConfocalSettingDefinition ObjectiveName="HC PL APO 63x" '
        'NumericalAperture="1.4" Magnification="63"/></Attachment></Image></Data>'
        f'<Memory Size="{pixels.nbytes}" MemoryBlockID="MemBlock_{number}"/><Children/></Element>'
    )
