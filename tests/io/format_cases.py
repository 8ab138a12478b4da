"""One case a format: how its own library writes a file of it, and what that file says. The table in docs/formats.md is
made of what `test_format_table.py` measures with these; a new format is one more entry of `CASES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile
import zarr
from field_files import write_dicom, write_dng, write_video
from microscope_files import write_czi, write_lif
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageCms

Facts = Mapping[str, Any]
"""What a file says, by names for people: {"channel names": ["DAPI", "GFP"], "date": "2020-09-13"}."""


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    row: str
    """Name of the format, as people call it."""
    suffix: str
    """Of the file to make."""
    make: Callable[[Path, NDArray[Any]], None] | None
    """Writes pixels of `shape` to a file; None if there is no library that can: then `real` is a file."""
    axes: str
    """Of the file, as they are read; '' where it does not say."""
    shape: tuple[int, ...]
    dtypes: tuple[str, ...] = ("uint8", "uint16", "int16", "float32")
    """Of pixels that the library can write."""
    size: Mapping[str, float] = field(default_factory=dict)
    """Pixel size that the file has."""
    told: Callable[[Path], Facts] = lambda path: {}
    """What the file says."""
    found: Callable[[Path], Facts] = lambda path: {}
    """What the result says, a file of the same format or, if that is only read, of the one it becomes."""
    needs: str = ""
    """Extra to install."""
    exact: bool = True
    """Whether the pixels come back as they were written."""
    real: str = ""
    """File of the shared data sets, where nothing can write one."""
    names: tuple[str, ...] = ()
    """Suffixes of the row, if they are not all of the format."""


SIZE = {"Z": 0.5, "Y": 0.2, "X": 0.1}
COLORS = ["#0000ff", "#00ff00"]


def facts_of_ome(path: Path) -> Facts:
    """What an OME-TIFF says, by a reader of others."""
    import ome_types

    told = ome_types.from_xml(tifffile.tiffcomment(path), validate=False)
    image, pixels = told.images[0], told.images[0].pixels
    lenses = [lens for one in told.instruments for lens in one.objectives]
    annotations = told.structured_annotations
    kept = [] if annotations is None else [*annotations.map_annotations, *annotations.xml_annotations]
    return {
        "name": image.name,
        "date": image.acquisition_date and image.acquisition_date.isoformat()[:19],
        "channel names": [channel.name for channel in pixels.channels],
        "colors": [channel.color and channel.color.as_hex(format="long")[:7] for channel in pixels.channels],
        "wavelengths": [(one.excitation_wavelength, one.emission_wavelength) for one in pixels.channels],
        "objective": [(lens.model, lens.nominal_magnification, lens.lens_na) for lens in lenses],
        "positions of planes": [(plane.position_x, plane.delta_t) for plane in pixels.planes],
        "annotations": sorted(one.namespace for one in kept if one.namespace and "noise2same" not in one.namespace),
    }


def make_ome_tiff(path: Path, pixels: NDArray[Any]) -> None:
    from ome_types import model, to_xml

    planes = [
        model.Plane(the_z=z, the_c=c, the_t=0, position_x=float(z), delta_t=float(c))
        for c in range(2)
        for z in range(3)
    ]
    told = model.Pixels(
        dimension_order="XYZCT",
        type={"float32": "float"}.get(pixels.dtype.name, pixels.dtype.name),
        **{f"size_{k}": n for k, n in zip("tczyx", (1, *pixels.shape), strict=True)},
        **{f"physical_size_{k.lower()}": v for k, v in SIZE.items()},
        channels=[
            model.Channel(name=name, color=color, excitation_wavelength=ex, emission_wavelength=ex + 50)
            for name, color, ex in (("DAPI", "blue", 405), ("GFP", "lime", 488))
        ],
        tiff_data_blocks=[model.TiffData(ifd=0, plane_count=6)],
        planes=planes,
    )
    lens = model.Objective(id="Objective:0", model="Plan 60x", nominal_magnification=60, lens_na=1.4)
    note = model.MapAnnotation(id="Annotation:0", namespace="lab.org", value={"mouse": "7"})
    image = model.Image(
        name="cells",
        acquisition_date="2020-09-13T12:26:40",
        pixels=told,
        annotation_refs=[model.AnnotationRef(id="Annotation:0")],
    )
    ome = model.OME(
        images=[image],
        instruments=[model.Instrument(objectives=[lens])],
        structured_annotations=model.StructuredAnnotations(map_annotations=[note]),
    )
    tifffile.imwrite(path, pixels, description=to_xml(ome).encode(), metadata=None, photometric="minisblack")


LUTS = [np.stack([np.arange(256, dtype=np.uint8) * on for on in rgb]) for rgb in ((0, 0, 1), (0, 1, 0))]


def make_imagej(path: Path, pixels: NDArray[Any]) -> None:
    metadata = {
        "axes": "ZCYX",
        "spacing": 0.5,
        "unit": "um",
        "mode": "composite",
        "Ranges": (10.0, 200.0, 20.0, 250.0),
        "LUTs": LUTS,
        "Labels": [f"slice {n}" for n in range(6)],
        "Info": "Lens=60x\nmouse=7\n",
        "Overlays": [b"Iout" + bytes(range(60)), b"Iout" + bytes(range(70))],
        "ROI": b"Iout" + bytes(range(80)),
    }
    tifffile.imwrite(path, pixels, imagej=True, resolution=(10, 5), metadata=metadata)


def facts_of_imagej(path: Path) -> Facts:
    with tifffile.TiffFile(path) as file:
        told = dict(file.imagej_metadata or {})
    luts = [np.asarray(table)[:, -1].tolist() for table in told.get("LUTs", [])]
    info = [line for line in str(told.get("Info", "")).splitlines() if line and "noise2same" not in line]
    return {
        "look-up tables": luts,
        "display ranges": [float(value) for value in told.get("Ranges", ())],
        "labels": list(told.get("Labels", [])),
        "info": info,
        "overlays": told.get("Overlays"),
        "selection": told.get("ROI"),
    }


def make_plain_tiff(path: Path, pixels: NDArray[Any]) -> None:
    tags = [(315, "s", 0, "Ä. Person".encode(), True), (306, "s", 0, "2020:09:13 12:26:40", True)]
    tags += [(274, "H", 1, 6, True), (34675, 7, 9, b"a profile", True), (700, 1, 6, b"<xmp/>", True)]
    options = {"resolution": (100_000, 50_000), "resolutionunit": "CENTIMETER", "extratags": tags, "metadata": None}
    tifffile.imwrite(path, pixels, description="cells of mouse 7", software="scope 1.0", **options)


def facts_of_tiff(path: Path) -> Facts:
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        tags = {tag.code: tag.value for tag in page.tags.values()}
    names = {"artist": 315, "date": 306, "orientation": 274, "color profile": 34675, "XMP": 700}
    told = {"description": page.description, "software": "scope 1.0" in page.software}
    return told | {name: tags.get(code) for name, code in names.items()}


def camera_words() -> dict[str, Any]:
    """What a camera says of a photograph."""
    exif = Pillow.Exif()
    exif[34665] = {34855: 6400, 42036: "50 mm f/1.8"}  # ISO, lens
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return {"icc_profile": profile, "exif": exif.tobytes(), "dpi": (300, 200)}


WORDS = camera_words()


def make_png(path: Path, pixels: NDArray[Any]) -> None:
    from PIL.PngImagePlugin import PngInfo

    path.write_bytes(imagecodecs.png_encode(pixels))
    if pixels.dtype == np.uint8:  # Pillow has no colors of 16 bits
        texts = PngInfo()
        texts.add_text("Title", "cells")
        Pillow.fromarray(pixels).save(path, pnginfo=texts, **WORDS)


def make_jpeg(path: Path, pixels: NDArray[Any]) -> None:
    Pillow.fromarray(pixels).save(path, quality=95, **WORDS)


def make_ome_zarr(path: Path, pixels: NDArray[Any]) -> None:
    group = zarr.open_group(path, mode="w", zarr_format=3)
    axes = [{"name": "c", "type": "channel"}]
    axes += [{"name": letter, "type": "space", "unit": "micrometer"} for letter in "zyx"]
    scale = {"type": "scale", "scale": [1.0, *SIZE.values()]}
    window = {"start": 0.0, "end": 100.0, "min": 0.0, "max": 255.0}
    channels = [{"label": name, "color": c[1:].upper(), "window": window} for name, c in zip("ab", COLORS, strict=True)]
    datasets = [
        {"path": "0", "coordinateTransformations": [scale, {"type": "translation", "translation": [0, 1, 2, 3]}]}
    ]
    told = {"name": "cells", "axes": axes, "datasets": datasets}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [told], "omero": {"channels": channels}}
    group.create_array("0", data=pixels, chunks=(1, 2, 16, 16))


def facts_of_zarr(path: Path) -> Facts:
    told: Any = zarr.open_group(path, mode="r").attrs["ome"]
    (image,) = told["multiscales"]
    channels = told.get("omero", {}).get("channels", [])
    return {
        "name": image.get("name"),
        "channel names": [channel["label"] for channel in channels],
        "colors": [channel["color"] for channel in channels],
        "display ranges": [channel["window"] for channel in channels],
        "transformations": image["datasets"][0]["coordinateTransformations"],
    }


def make_czi(path: Path, pixels: NDArray[Any]) -> None:
    write_czi(path, [pixels[np.newaxis]])


def make_lif(path: Path, pixels: NDArray[Any]) -> None:
    write_lif(path, [("CZYX", pixels)])


def facts_of_nd2(path: Path) -> Facts:
    import nd2

    with nd2.ND2File(path) as file:
        told = file.metadata
    channels = [one.channel for one in told.channels]
    lens = told.channels[0].microscope
    return {
        "name": path.stem,
        "date": "2014-06-18T13:55:23",  # as NIS-Elements shows it
        "channel names": [one.name for one in channels],
        "colors": [one.color.as_hex()[:7].lower() for one in channels],
        "wavelengths": [(one.excitationLambdaNm, one.emissionLambdaNm) for one in channels],
        "objective": [(lens.objectiveName, lens.objectiveMagnification, lens.objectiveNumericalAperture)],
        "positions of planes": facts_of_ome_planes(path),
    }


def facts_of_ome_planes(path: Path) -> list[tuple[float | None, float | None]]:
    import nd2

    with nd2.ND2File(path) as file:
        return [(one.position_x, one.delta_t) for one in file.ome_metadata().images[0].pixels.planes]


def make_fits(path: Path, pixels: NDArray[Any]) -> None:
    from astropy.io import fits

    header = fits.Header({"OBJECT": "M31", "CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN", "CRVAL1": 10.7, "CRVAL2": 41.3})
    image = fits.ImageHDU(pixels, header, name="SCI")
    table = fits.BinTableHDU.from_columns([fits.Column("star", "J", array=[1, 2])], name="CATALOG")
    fits.HDUList([fits.PrimaryHDU(), image, fits.ImageHDU(np.ones((4, 4)), name="ERR"), table]).writeto(path)


def facts_of_fits(path: Path) -> Facts:
    from astropy.io import fits
    from astropy.wcs import WCS

    with fits.open(path) as hdus:
        header = hdus["SCI"].header
        others = [(hdu.name, hdu.data.tobytes()) for hdu in hdus if hdu.name in ("ERR", "CATALOG")]
        return {"header": header.tostring(), "WCS": WCS(header).wcs.crval.tolist(), "other HDUs": others}


def make_mrc(path: Path, pixels: NDArray[Any]) -> None:
    import mrcfile

    with mrcfile.new(path, pixels) as mrc:
        mrc.voxel_size = (1.0, 2.0, 5.0)
        mrc.add_label("made by a microscope")
        mrc.set_extended_header(np.frombuffer(b"tilt angles" + bytes(21), "V1"))
        mrc.header.origin = (3, 4, 5)


def facts_of_mrc(path: Path) -> Facts:
    import mrcfile

    with mrcfile.open(path) as mrc:
        origin = [float(mrc.header.origin[letter]) for letter in "xyz"]
        return {"labels": mrc.get_labels(), "origin": origin, "extended header": mrc.extended_header.tobytes()}


def make_nifti(path: Path, pixels: NDArray[Any]) -> None:
    import nibabel

    volume = nibabel.Nifti1Image(pixels.T, np.diag([0.1, 0.2, 0.5, 1.0]) + np.eye(4, k=3) * 7)
    volume.header.set_xyzt_units("mm", "sec")
    volume.header.set_zooms((0.1, 0.2, 0.5, 2.0))
    volume.header["descrip"] = b"a brain"
    volume.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"asleep"))
    nibabel.save(volume, path)


def facts_of_nifti(path: Path) -> Facts:
    import nibabel

    volume = nibabel.load(path)
    header = volume.header
    extensions = [one.get_content() for one in header.extensions]
    return {"affine": volume.affine.tolist(), "header": bytes(header["descrip"]), "extensions": extensions}


def make_dicom(path: Path, pixels: NDArray[Any]) -> None:
    write_dicom(path, pixels)


def make_dng(path: Path, pixels: NDArray[Any]) -> None:
    mosaic = np.zeros([2 * length for length in pixels.shape[1:]], pixels.dtype)
    for (row, column), plane in zip([(0, 0), (0, 1), (1, 1), (1, 0)], pixels, strict=True):
        mosaic[row::2, column::2] = plane
    write_dng(path, mosaic, orientation=6)


def facts_of_dng(path: Path) -> Facts:
    import rawpy

    with rawpy.imread(str(path)) as raw, tifffile.TiffFile(path) as tif:
        told = {tag.name: tag.value for tag in tif.pages.first.tags.values()}
        return {
            "black level": list(raw.black_level_per_channel),
            "white level": raw.white_level,
            "white balance": [round(gain, 4) for gain in raw.camera_whitebalance],
            "color matrix": told["ColorMatrix1"],
            "orientation": told["Orientation"],
            "camera": (told["Make"], told["Model"]),
            "date": told["DateTime"],
        }


def make_video(path: Path, pixels: NDArray[Any]) -> None:
    kind = "gray" if pixels.dtype == np.uint8 else "gray16le"
    write_video(path, pixels, "ffv1", kind, kind, rate=10)


def make_animation(path: Path, pixels: NDArray[Any]) -> None:
    first, *rest = (Pillow.fromarray(frame) for frame in pixels)
    first.save(path, save_all=True, append_images=rest, duration=100, lossless=True)


def facts_of_picture(path: Path) -> Facts:
    with Pillow.open(path) as picture:
        picture.load()
        exif, told = picture.getexif(), picture.info
        resolution = tuple(round(float(value)) for value in told.get("dpi", ()))
        facts = {"color profile": told.get("icc_profile"), "EXIF": dict(exif.get_ifd(34665))}
        return {**facts, "resolution": resolution, "texts": told.get("Title")}


def known(**facts: Any) -> Callable[[Path], Facts]:
    """What every file of a case says."""
    return lambda path: {name.replace("_", " "): value for name, value in facts.items()}


CASES = [
    Case("OME-TIFF", ".ome.tif", make_ome_tiff, "CZYX", (2, 3, 32, 40), size=SIZE,
         told=facts_of_ome, found=facts_of_ome, names=(".ome.tif", ".ome.tiff")),
    Case("TIFF of ImageJ", ".tif", make_imagej, "ZCYX", (3, 2, 32, 40), ("uint8", "uint16", "float32"), SIZE,
         told=facts_of_imagej, found=facts_of_imagej),
    Case("TIFF, other", ".tif", make_plain_tiff, "YX", (32, 40), size={"Y": 2e-5, "X": 1e-5},
         told=facts_of_tiff, found=facts_of_tiff),
    Case("PNG", ".png", make_png, "YXC", (32, 40, 3), ("uint16", "uint8"),
         told=facts_of_picture, found=facts_of_picture),
    Case("JPEG", ".jpg", make_jpeg, "YXC", (32, 40, 3), ("uint8",), {"Y": 1 / 200, "X": 1 / 300}, exact=False,
         told=facts_of_picture, found=facts_of_picture),
    Case("NumPy", ".npy", lambda path, pixels: np.save(path, pixels), "", (3, 32, 40)),
    Case("OME-Zarr", ".ome.zarr", make_ome_zarr, "CZYX", (2, 3, 32, 40), size=SIZE,
         told=facts_of_zarr, found=facts_of_zarr, names=(".ome.zarr", ".zarr")),
    Case("CZI", ".czi", make_czi, "CZYX", (2, 3, 32, 40), ("uint8", "uint16", "float32"), SIZE, needs="microscopes",
         told=known(channel_names=["DAPI", "GFP"], colors=COLORS, annotations=["zeiss.com/czi"]), found=facts_of_ome),
    Case("ND2", ".nd2", None, "TCZYX", (3, 2, 10, 31, 38), ("uint16",), {"Z": 0.5, "Y": 0.167809, "X": 0.167809},
         needs="microscopes", real="formats/cluster.nd2", told=facts_of_nd2, found=facts_of_ome),
    Case("LIF", ".lif", make_lif, "CZYX", (2, 3, 32, 40), ("uint8", "uint16", "float32"), SIZE, needs="microscopes",
         told=known(name="Series000", date="2020-09-13T12:26:40", channel_names=["dye 0", "dye 1"],
                    colors=["#00ff00", "#ff0000"], objective=[("HC PL APO 63x", 63.0, 1.4)],
                    annotations=["leica-microsystems.com/lif"]), found=facts_of_ome),
    Case("MRC", ".mrc", make_mrc, "ZYX", (3, 32, 40), ("int8", "int16", "uint16", "float16", "float32"),
         {"Z": 5.0, "Y": 2.0, "X": 1.0}, needs="microscopes", told=facts_of_mrc, found=facts_of_mrc),
    Case("FITS", ".fits", make_fits, "YX", (32, 40),
         ("uint8", "int8", "int16", "uint16", "int32", "float32", "float64"), needs="astronomy",
         told=facts_of_fits, found=facts_of_fits),
    Case("NIfTI", ".nii", make_nifti, "TZYX", (2, 3, 32, 40), ("uint8", "int16", "uint16", "int32", "float32"),
         SIZE | {"T": 2.0}, needs="medicine", told=facts_of_nifti, found=facts_of_nifti),
    Case("DICOM, also a folder of slices", ".dcm", make_dicom, "YX", (32, 40), ("uint8", "int16", "uint16"),
         {"Y": 0.5, "X": 0.25}, needs="medicine"),
    Case("Camera raw", ".dng", make_dng, "CYX", (4, 16, 20), ("uint16",), needs="camera",
         told=facts_of_dng, found=facts_of_dng),
    Case("Video", ".mkv", make_video, "TYX", (3, 32, 40), ("uint8", "uint16"), {"T": 0.1}, needs="video"),
    Case("Animated GIF and WebP", ".webp", make_animation, "TYX", (3, 32, 40), ("uint8",), {"T": 0.1}),
]  # fmt: skip
