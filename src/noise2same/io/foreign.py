"""Files that cannot be read: how to export the ones that are images, and which are none and need no word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

_FIJI = "in Fiji (File > Import > Bio-Formats, then File > Save As > Tiff)"
# what to do, in words that follow "x.czi is not supported;": suffixes
_ADVICE = {
    f"export as OME-TIFF from ZEN, or {_FIJI}": ".zvi .lsm",
    f"export as OME-TIFF from LAS X, or {_FIJI}": ".lof .xlef",
    f"export as OME-TIFF from cellSens or FluoView, or {_FIJI}": ".oib .oif .oir .vsi",
    f"export as OME-TIFF from Imaris, or {_FIJI}": ".ims",
    f"convert to OME-TIFF with bfconvert of Bio-Formats, or {_FIJI}": (
        ".dv .r3d .stk .sif .spe .obf .msr .mvd2 .flex .lei .ics .ids .mrxs .svs .ndpi .scn .bif .qptiff .btf .sld"
    ),
    "develop to 16-bit TIFF, without denoising or sharpening, in darktable or RawTherapee": (
        ".crw .nrw .srf .sr2 .3fr .iiq .x3f"
    ),
    "save as PNG or TIFF in any picture program": (
        ".heic .heif .avif .bmp .jp2 .j2k .jxl .jxr .tga .ppm .pgm .pbm .pnm .psd .xcf .exr .hdr .jfif"
    ),
    "save as TIFF from Fiji, or in Python as .npy what SimpleITK or nibabel reads": ".mha .mhd .nrrd .mgz .mgh",
    "save as TIFF from Fiji, or in Python as .npy what ncempy reads": ".dm3 .dm4 .ser .emd .eer",
    "save the array in Python as .npy": ".npz .mat .h5 .hdf5 .hdf .nc .klb",
    "open in Fiji (File > Import > Raw) and save as TIFF": ".raw",
    "unpack first": ".gz .bz2 .xz .zst .zip .7z .tar .tgz .rar",
    "decrypt first": ".gpg .pgp .age .enc .aes .p7m",
}
ADVICE = {suffix: advice for advice, suffixes in _ADVICE.items() for suffix in suffixes.split()}
_PACKED = (".gz", ".bz2", ".xz", ".zst")
# What lies beside images: notes, tables, settings, scripts, and what this package writes itself
_SIDECARS = (
    ".txt .csv .tsv .json .xml .html .htm .pdf .md .rst .log .ini .cfg .conf .yaml .yml .toml .xmp .ome .db .lnk .url "
    ".doc .docx .odt .rtf .xls .xlsx .ods .ppt .pptx .odp .tex .bib .svg .roi .ijm .py .pyc .ipynb .m .r .sh .bat .ps1 "
    ".safetensors .ckpt .pt .pth .pkl .onnx .part .tmp .bak .md5 .sha256"
)
SIDECARS = frozenset(_SIDECARS.split())
FEW = 4  # kinds of file that a message lists
# what a file under another name is, by a part of its first bytes; for DICOM, the number is that of encrypted CMS
_DISGUISES = {
    b"Salted__": "encrypted by OpenSSL; decrypt",
    b"-----BEGIN PGP": "encrypted by PGP; decrypt",
    b"age-encryption.org": "encrypted by age; decrypt",
    b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03": "encrypted (CMS); decrypt",
    b"application/pkcs7-mime": "encrypted (S/MIME); decrypt",
    b"PK\x03\x04": "a zip archive; unpack",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack",
    b"Rar!\x1a\x07": "a RAR archive; unpack",
}
_START = 128  # bytes that are looked at


def suffix(path: Path) -> str:
    """The end of a name that says its format: '.fits.gz' of 'a.fits.gz', and '.czi' of 'b.CZI'."""
    *_, inner, last = ["", "", *(part.lower() for part in path.suffixes)]
    return inner + last if last in _PACKED and re.fullmatch(r"\.[a-z][a-z0-9]*", inner) else last


def advice(kind: str) -> str:
    """How to come from files of a suffix to ones that can be read; '' if it is not known."""
    steps = [ADVICE[part] for part in re.findall(r"\.\w+", kind) if part in ADVICE]
    return steps[0] if steps else ""


def disguise(path: Path) -> str:
    """What a file is that has the name of an image, and what to do, if its first bytes tell; '' if they do not."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        start = file.read(_START)
    if start.startswith(b"PK\x03\x04") and len(start) > 6 and start[6] & 1:
        return "an encrypted zip archive; unpack"
    return next((found for mark, found in _DISGUISES.items() if mark in start), "")


def unread(paths: Iterable[Path], *, known: bool = False) -> list[Path]:
    """Those of some unsupported files that may be images, or with `known` surely are."""
    return [path for path in paths if _is_unread(path, known)]


def _is_unread(path: Path, known: bool) -> bool:
    kind = suffix(path)
    hidden = path.name.startswith(".")
    return bool(kind) and not hidden and kind not in SIDECARS and (not known or bool(advice(kind))) and path.is_file()


def describe(paths: Sequence[Path]) -> tuple[str, str]:
    """What unread files there are, such as '12 .czi (a.czi, b.czi, ...)', and what to do about them ('' if unknown)."""
    counts = Counter(suffix(path) for path in paths)
    kinds = [kind for kind, _ in counts.most_common(FEW)]
    listed = []
    for kind in kinds:
        names = [path.name for path in paths if suffix(path) == kind]
        listed.append(f"{len(names)} {kind} ({', '.join(names[:2])}{', ...' if len(names) > 2 else ''})")
    rest = len(paths) - sum(counts[kind] for kind in kinds)
    listed += [f"{rest} of other kinds"] if rest else []
    steps: dict[str, list[str]] = {}
    for kind in filter(advice, kinds):
        steps.setdefault(advice(kind), []).append(kind)
    told = [f"for {' and '.join(group)}: {step}" if len(counts) > 1 else step for step, group in steps.items()]
    return ", ".join(listed), "; ".join(told)
