"""JPEG Lossless and JPEG-LS, the usual compressions of scanners, for pydicom, which needs other packages for them.

A module as pydicom asks for it: https://pydicom.github.io/pydicom/stable/guides/decoding/decoder_plugins.html
"""

from __future__ import annotations

from typing import Any

import imagecodecs

DECODERS = {
    "1.2.840.10008.1.2.4.57": imagecodecs.ljpeg_decode,
    "1.2.840.10008.1.2.4.70": imagecodecs.ljpeg_decode,
    "1.2.840.10008.1.2.4.80": imagecodecs.jpegls_decode,
    "1.2.840.10008.1.2.4.81": imagecodecs.jpegls_decode,
}
DECODER_DEPENDENCIES = dict.fromkeys(DECODERS, ("imagecodecs",))
_LABEL = "noise2same"


def is_available(uid: str) -> bool:
    """Whether a transfer syntax is decoded here."""
    return uid in DECODERS


def decode_frame(source: bytes, runner: Any) -> bytes:
    """The pixels of a frame."""
    pixels = DECODERS[runner.transfer_syntax](source)
    runner.set_option("bits_allocated", 8 * pixels.dtype.itemsize)
    runner.set_option("planar_configuration", 0)
    return bytes(pixels.tobytes())


def register(get_decoder: Any) -> None:
    """Add these decoders to those of pydicom."""
    for uid in DECODERS:
        decoder = get_decoder(uid)
        if _LABEL not in decoder.available_plugins:
            decoder.add_plugin(_LABEL, (__name__, "decode_frame"))
