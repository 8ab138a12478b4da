"""OME-TIFF: what a file says of its image is in the file that is made of it, and only what changed is rewritten."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import tifffile
from roundtrip import copy, noise

from noise2same import io
from noise2same.io import ome, tiff

NS = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
Node = tuple[str, dict[str, str], str]


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """Only those tests may lose metadata that say so."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*OME metadata")
        yield


def channels(image: int, count: int, samples: int = 1) -> str:
    return "".join(
        f'<Channel ID="Channel:{image}:{c}" Name="dye {c} ß" SamplesPerPixel="{samples}" Color="{-65536 - c}"'
        f' Fluor="GFP" EmissionWavelength="{509 + c}" EmissionWavelengthUnit="nm" ExcitationWavelength="488.5">'
        f'<DetectorSettings ID="Detector:0:0" Gain="2.5"/><AnnotationRef ID="Annotation:1"/></Channel>'
        for c in range(count)
    )


def planes(sizes: dict[str, int]) -> str:
    return "".join(
        f'<Plane TheZ="{z}" TheC="{c}" TheT="{t}" DeltaT="{t + 0.25}" ExposureTime="0.1" PositionX="{z}.5" '
        f'PositionZ="{-z}" PositionZUnit="µm"><HashSHA1>{"0" * 40}</HashSHA1></Plane>'
        for t in range(sizes["T"])
        for c in range(sizes["C"])
        for z in range(sizes["Z"])
    )


def image_xml(number: int, axes: str, shape: tuple[int, ...], kind: str, order: str, pixels: str, first: int) -> str:
    written = dict(zip(axes, shape, strict=True))
    samples = written.pop("S", 1)
    sizes = {letter: written.get(letter, 1) for letter in "XYZCT"}
    count = sizes["Z"] * sizes["C"] * sizes["T"]
    all_sizes = " ".join(f'Size{k}="{size * samples if k == "C" else size}"' for k, size in sizes.items())
    return (
        f'<Image ID="Image:{number}" Name="cells &amp; more µ{number}"><AcquisitionDate>2021-03-04T05:06:07'
        '</AcquisitionDate><ExperimenterRef ID="Experimenter:0"/><Description>first line\nsecond  line</Description>'
        '<InstrumentRef ID="Instrument:0"/><ObjectiveSettings ID="Objective:0" RefractiveIndex="1.51"/>'
        '<ImagingEnvironment Temperature="37.0"/><StageLabel Name="left" X="1.5"/>'
        f'<Pixels ID="Pixels:{number}" DimensionOrder="{order}" Type="{kind}" {all_sizes} BigEndian="true" '
        f'PhysicalSizeX="0.25" PhysicalSizeY="0.25" PhysicalSizeZ="1500" PhysicalSizeZUnit="nm" {pixels}>'
        f'{channels(number, sizes["C"], samples)}<TiffData IFD="{first}" PlaneCount="{count}">'
        f'<UUID FileName="in.ome.tif">urn:uuid:11111111-1111-1111-1111-111111111111</UUID></TiffData>'
        f"{planes(sizes)}</Pixels>"
        '<ROIRef ID="ROI:0"/><AnnotationRef ID="Annotation:0"/></Image>'
    )


def document(*images: str) -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><!-- by hand --><OME xmlns="{NS}" '
        f'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="{NS} {NS}/ome.xsd" '
        'UUID="urn:uuid:11111111-1111-1111-1111-111111111111" Creator="a microscope">'
        '<Dataset ID="Dataset:0" Name="set"><ImageRef ID="Image:0"/><ImageRef ID="Image:1"/></Dataset>'
        '<Experimenter ID="Experimenter:0" FirstName="Rosalind" LastName="Frånklin"/>'
        '<Instrument ID="Instrument:0"><Detector ID="Detector:0:0" Model="EM"/>'
        '<Objective ID="Objective:0" NominalMagnification="63" LensNA="1.4"/></Instrument>'
        f"{''.join(images)}<StructuredAnnotations>"
        '<XMLAnnotation ID="Annotation:0" Namespace="example.org/a"><Value><x:settings xmlns:x="urn:x" x:gain="2">'
        '<plain xmlns="">text &lt;b&gt;</plain><Image xmlns="urn:y" ID="Image:1"/></x:settings></Value></XMLAnnotation>'
        '<MapAnnotation ID="Annotation:1" Namespace="example.org/b"><Value><M K="laser">488 nm</M></Value>'
        '</MapAnnotation></StructuredAnnotations><ROI ID="ROI:0"><Union><Point ID="Shape:0" X="1" Y="2"/></Union></ROI>'
        "</OME>"
    )


def write(path: Path, xml: str | bytes, *arrays: np.ndarray[Any, Any], **options: Any) -> None:
    with tifffile.TiffWriter(
        path, **{key: options.pop(key) for key in ("bigtiff", "byteorder") if key in options}
    ) as t:
        for array in arrays:
            text = xml.encode() if isinstance(xml, str) else xml
            t.write(array, **{"photometric": "minisblack"} | options, description=text, metadata=None)
            xml = ""


def nodes(path: Path) -> list[Node]:
    """Every element of a file's OME-XML with its attributes and text, in order."""
    text = tifffile.tiffcomment(path)
    assert isinstance(text, str)
    return [(n.tag, dict(n.attrib), (n.text or "").strip()) for n in ElementTree.fromstring(text).iter()]


def changed(path: Path, *, removed: tuple[str, ...] = ("UUID", "HashSHA1"), **pixels: str | None) -> list[Node]:
    """The nodes of a file as they are expected of a copy: without some, and with other attributes of Pixels."""
    expected = []
    for tag, attributes, text in nodes(path):
        name = tag.removeprefix(f"{{{NS}}}")
        if name in removed:
            continue
        if name == "Pixels":
            attributes = {k: v for k, v in (attributes | pixels | {"BigEndian": "false"}).items() if v is not None}
        expected.append((tag, attributes, text))
    return expected


def assert_carried(path: Path, expected: list[Node]) -> None:
    found = nodes(path)
    identity = found[0][1].pop("UUID")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", identity) and identity != expected[0][1].pop("UUID")
    assert found == expected


# name: axes as tifffile has them, shape, dtype, DimensionOrder, options of writing
CASES: dict[str, tuple[str, tuple[int, ...], str, str, dict[str, Any]]] = {
    "2D": ("YX", (20, 30), "uint16", "XYCZT", {}),
    "volume": ("ZYX", (4, 20, 30), "uint16", "XYCZT", {}),
    "all axes": ("TCZYX", (2, 3, 4, 20, 30), "uint16", "XYZCT", {}),
    "another order": ("CTZYX", (2, 3, 4, 20, 30), "uint8", "XYZTC", {}),
    "channels inside": ("TZCYX", (2, 3, 2, 20, 30), "int16", "XYCZT", {}),
    "film": ("TYX", (5, 20, 30), "float", "XYZCT", {}),
    "bigtiff": ("CYX", (2, 20, 30), "uint16", "XYZCT", {"bigtiff": True}),
    "big-endian": ("CYX", (2, 20, 30), "uint16", "XYZCT", {"byteorder": ">"}),
    "compressed": ("ZYX", (4, 20, 30), "double", "XYZCT", {"compression": "zlib"}),
    "tiles": ("CYX", (2, 64, 64), "uint16", "XYZCT", {"tile": (16, 16)}),
    "rgb": ("YXS", (20, 30, 3), "uint8", "XYCZT", {"photometric": "rgb"}),
    "rgb volume": ("ZYXS", (4, 20, 30, 3), "uint8", "XYCZT", {"photometric": "rgb"}),
    "rgb in planes": ("SYX", (3, 20, 30), "uint8", "XYCZT", {"photometric": "rgb", "planarconfig": "separate"}),
    "samples in planes": ("SYX", (2, 20, 30), "uint8", "XYCZT", {"planarconfig": "separate"}),
    "rgba": ("YXS", (20, 30, 4), "uint8", "XYCZT", {"photometric": "rgb", "extrasamples": ["unassalpha"]}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["same", "float32"])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_everything_is_carried_over(
    case: str, lazy: bool, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes, shape, kind, order, options = CASES[case]
    if case == "rgba" and dtype != "same":
        pytest.skip("alpha is kept with its type")
    monkeypatch.setattr(tiff, "LAZY_BYTES", 100 if lazy else 2**30)
    source, target = tmp_path / "in.ome.tif", tmp_path / "out.ome.tif"
    xml = document(image_xml(0, axes, shape, kind, order, 'SignificantBits="7"', 0))
    pixels = noise(shape, {"float": "float32", "double": "float64"}.get(kind, kind))
    write(source, xml, pixels, **options)
    image = io.read(source)
    assert isinstance(image.data, io.Pieces) == (lazy and case != "rgba")  # of which a part is the image
    copied = copy(image, target, None if dtype == "same" else dtype)
    assert (copied.axes, copied.shape, copied.unit) == (image.axes, image.shape, image.unit)
    assert copied.pixel_size == image.pixel_size
    np.testing.assert_array_equal(tifffile.imread(target), pixels.astype(copied.dtype))
    new: dict[str, str | None] = {} if dtype == "same" else {"Type": "float"}
    if new and kind != "float":
        new["SignificantBits"] = None
    if "S" in axes:
        new["Interleaved"] = "true" if axes.endswith("S") else "false"
    assert_carried(target, changed(source, **new))
    # and once more: nothing is lost on the way
    again = tmp_path / "again.ome.tif"
    copy(io.read(target), again)
    assert_carried(again, nodes(target))


def test_alpha_that_goes_is_not_counted(tmp_path: Path) -> None:
    xml = document(image_xml(0, "YXS", (20, 30, 4), "uint8", "XYCZT", "", 0))
    write(tmp_path / "in.ome.tif", xml, noise((20, 30, 4), "uint8"), photometric="rgb", extrasamples=["unassalpha"])
    copied = copy(io.read(tmp_path / "in.ome.tif"), tmp_path / "out.ome.tif", "float32")
    assert (copied.axes, copied.shape) == ("YXC", (20, 30, 3))
    text = tifffile.tiffcomment(tmp_path / "out.ome.tif")
    assert 'SizeC="3"' in text and 'SamplesPerPixel="3"' in text and 'Name="dye 0 ß"' in text


def test_of_several_images_the_first_is_carried_over(tmp_path: Path) -> None:
    source, target = tmp_path / "in.ome.tif", tmp_path / "out.ome.tif"
    one, other = (2, 20, 30), (3, 25, 35)
    first = image_xml(0, "CYX", one, "uint16", "XYZCT", "", 0)
    xml = document(first, image_xml(1, "ZYX", other, "uint16", "XYZCT", "", 2))
    write(source, xml, noise(one), noise(other))
    image = io.read(source)
    assert image.others == 1
    copy(image, target)
    (tmp_path / "alone").mkdir()
    alone = document(first).replace('<ImageRef ID="Image:1"/>', "")
    write(tmp_path / "alone" / "in.ome.tif", alone, noise(one))
    assert_carried(target, changed(tmp_path / "alone" / "in.ome.tif"))


def test_of_a_pyramid_the_full_resolution_is_described(tmp_path: Path) -> None:
    levels = (
        '<MapAnnotation ID="Annotation:9" Namespace="openmicroscopy.org/PyramidResolution"><Value><M K="1">32 32</M>'
        "</Value></MapAnnotation></StructuredAnnotations>"
    )
    plain = document(image_xml(0, "YX", (64, 64), "uint16", "XYZCT", "", 0))
    xml = plain.replace("</StructuredAnnotations>", levels).replace(
        '<AnnotationRef ID="Annotation:0"/></Image>',
        '<AnnotationRef ID="Annotation:9"/><AnnotationRef ID="Annotation:0"/></Image>',
    )
    pixels = noise((64, 64))
    with tifffile.TiffWriter(tmp_path / "in.ome.tif", ome=False) as writer:
        writer.write(pixels, subifds=1, tile=(16, 16), description=xml.encode(), metadata=None)
        writer.write(pixels[::2, ::2], subfiletype=1, tile=(16, 16), metadata=None)
    copied = copy(io.read(tmp_path / "in.ome.tif"), tmp_path / "out.ome.tif")
    np.testing.assert_array_equal(copied.data, pixels)
    (tmp_path / "plain").mkdir()
    write(tmp_path / "plain" / "in.ome.tif", plain, pixels)
    assert_carried(tmp_path / "out.ome.tif", changed(tmp_path / "plain" / "in.ome.tif"))


def test_prefixes_and_old_schemas(tmp_path: Path) -> None:
    xml = document(image_xml(0, "ZYX", (4, 20, 30), "uint16", "XYZCT", "", 0)).replace("2016-06", "2011-06")
    xml = re.sub(r"<(/?)(?!x:|plain|/plain|Image xmlns|[?!])(\w)", r"<\1ome:\2", xml).replace("xmlns=", "xmlns:ome=", 1)
    xml = xml.replace("</ome:plain>", "</plain>")
    write(tmp_path / "in.ome.tif", xml, noise((4, 20, 30)))
    assert copy(io.read(tmp_path / "in.ome.tif"), tmp_path / "out.ome.tif").axes == "ZYX"
    found = tifffile.tiffcomment(tmp_path / "out.ome.tif")
    assert found.count("<ome:") == xml.count("<ome:") - 1 - 4 and '<ome:TiffData IFD="0" PlaneCount="4"/>' in found
    assert "2011-06" in found and '<plain xmlns="">' in found and "<!-- by hand -->" in found


def test_a_set_of_files_becomes_one(tmp_path: Path) -> None:
    xml = document(image_xml(0, "ZYX", (2, 20, 30), "uint16", "XYZCT", "", 0))
    data = re.search(r"<TiffData.*</TiffData>", xml)
    assert data
    uuids = ["urn:uuid:11111111-1111-1111-1111-111111111111", "urn:uuid:22222222-2222-2222-2222-222222222222"]
    parts = "".join(
        f'<TiffData IFD="0" FirstZ="{z}" PlaneCount="1"><UUID FileName="{"ab"[z]}.ome.tif">{uuids[z]}</UUID></TiffData>'
        for z in range(2)
    )
    pixels = noise((2, 20, 30))
    write(tmp_path / "a.ome.tif", xml.replace(data[0], parts), pixels[0])
    write(tmp_path / "b.ome.tif", xml.replace(data[0], parts).replace(uuids[0], uuids[1], 1), pixels[1])
    copied = copy(io.read(tmp_path / "a.ome.tif"), tmp_path / "out.ome.tif")
    np.testing.assert_array_equal(copied.data, pixels)
    found = nodes(tmp_path / "out.ome.tif")
    assert [n for n in found if n[0].endswith("TiffData")] == [
        (f"{{{NS}}}TiffData", {"IFD": "0", "PlaneCount": "2"}, "")
    ]
    assert not [n for n in found if n[0].endswith("}UUID")] and len([n for n in found if n[0].endswith("}Plane")]) == 2


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    xml = document(image_xml(0, "ZYX", (4, 20, 30), "uint16", "XYZCT", "", 0))
    write(tmp_path / "in.ome.tif", xml, noise((4, 20, 30)))
    return tmp_path / "in.ome.tif"


def test_plane_by_plane_it_is_still_a_volume(volume: Path, tmp_path: Path) -> None:
    copied = copy(io.read(volume, "SYX"), tmp_path / "out.ome.tif")
    assert (copied.axes, copied.pixel_size["Z"]) == ("ZYX", 1.5)
    assert_carried(tmp_path / "out.ome.tif", changed(volume))


def test_other_axes_than_the_file_says(volume: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.ome.tif"
    with pytest.warns(UserWarning, match=r"in.ome.tif: its OME metadata of each Plane .* other axes \(TYX\)"):
        assert copy(io.read(volume, "TYX"), target).axes == "TYX"
    assert_carried(target, changed(volume, removed=("UUID", "HashSHA1", "Plane"), SizeZ="1", SizeT="4"))
    with pytest.warns(UserWarning, match=r"in.ome.tif: its OME metadata of each Channel and Plane"):
        assert copy(io.read(volume, "CYX"), target).axes == "CYX"
    assert "AcquisitionDate" in tifffile.tiffcomment(target)


def test_what_ome_cannot_hold_is_told(volume: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"in.ome.tif: its OME metadata .* no place for .* float16"):
        assert copy(io.read(volume), tmp_path / "out.tif", "float16").details["flavour"] == "plain"
    with io.create(tmp_path / "out.zarr", io.read(volume)):  # without a word: other formats never had it
        pass


BOMB = "<!DOCTYPE b [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
GOOD = document(image_xml(0, "YX", (20, 30), "uint16", "XYZCT", "", 0))
ODD: dict[str, str | bytes] = {
    "bomb": GOOD.replace("<OME", BOMB + "]><OME", 1).replace("first line", "&j;"),
    "external": GOOD.replace("<OME", '<!DOCTYPE b [<!ENTITY j SYSTEM "file:///etc/passwd">]><OME', 1).replace(
        "first", "&j;"),
    "cut": GOOD[: len(GOOD) // 2] + "</OME>",
    "unbound prefix": GOOD.replace("<Description>", "<q:D/><Description>"),
    "latin": GOOD.encode("latin1", "replace"),
    "binary only": f'<OME xmlns="{NS}"><BinaryOnly MetadataFile="a.companion.ome" UUID="urn:uuid:1"/></OME>',
    "nothing": f'<OME xmlns="{NS}"></OME>',
    "only a tag": "OME>",
    "no data": re.sub("<TiffData.*</TiffData>", "", GOOD),
    "deep": GOOD.replace("<Value>", "<Value>" + "<a>" * 3000, 1).replace("</Value>", "</a>" * 3000 + "</Value>", 1),
    "no number": GOOD.replace('PhysicalSizeX="0.25"', 'PhysicalSizeX="0,25"'),
    "a megabyte": GOOD.replace("first line", "x" * 2**20),
    "circular": GOOD.replace("</StructuredAnnotations>", '<TagAnnotation ID="T"><AnnotationRef ID="T"/></TagAnnotation>'
                                                         "</StructuredAnnotations>"),
}  # fmt: skip
FINE = ("latin", "no number", "a megabyte", "circular")


@pytest.mark.parametrize("case", ODD)
def test_odd_xml_does_no_harm(case: str, tmp_path: Path) -> None:
    pixels = noise((20, 30))
    write(tmp_path / "in.ome.tif", ODD[case], pixels)
    image = io.read(tmp_path / "in.ome.tif")
    if case in FINE:
        copied = copy(image, tmp_path / "out.ome.tif")
        assert "AcquisitionDate" in tifffile.tiffcomment(tmp_path / "out.ome.tif")
    else:
        with pytest.warns(UserWarning, match=r"in.ome.tif: its OME metadata .* is not in the output"):
            copied = copy(image, tmp_path / "out.ome.tif")
    assert (copied.axes, copied.details["flavour"]) == ("YX", "ome")
    np.testing.assert_array_equal(copied.data, pixels)
    assert "root:" not in tifffile.tiffcomment(tmp_path / "out.ome.tif")


def test_xml_of_another_image_is_refused() -> None:
    with pytest.raises(ValueError, match="no image of this size"):
        ome.carry(GOOD, [ome.Written(20 * 30, "YX", (30, 20), "uint16")])
    with pytest.raises(ValueError, match="characters"):
        ome.carry(" " * (ome.MOST + 1), [ome.Written(1, "YX", (1, 1), "uint16")])
