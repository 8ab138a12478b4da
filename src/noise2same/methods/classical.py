"""Non-local means and BM3D: denoisers that are not trained, called as their libraries offer them."""

from __future__ import annotations

import math
import warnings
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skimage.restoration import denoise_nl_means

from noise2same.errors import InputError
from noise2same.methods.base import Classical
from noise2same.noise.level import noise_sigma

# Of `denoise_nl_means`. 5 and 6 are those of scikit-image's example; on four pictures with σ of 10, 25 and 50, others
# gain or lose tenths of a dB. In 3D, time goes with the cube of the distance, and 3 takes thrice as long to be worse.
PATCH_SIZE = 5
PATCH_DISTANCE = {2: 6, 3: 2}
# Smallest sides for BM3D (in 2D, and in stacks of fewer than 5 planes), which crashes at 8 in colour, and BM4D.
BLOCK = {2: 9, 3: 5}
LICENCE = "bm3d and bm4d are licensed for non-commercial use only (Tampere University), unlike noise2same itself."


class ByChannel(Classical):
    """Takes channels one by one but a colour image as a whole, with σ given or estimated; what is constant stays."""

    def denoise(self, image: NDArray[Any]) -> NDArray[Any]:
        """Image of shape (C, [Z,] Y, X), in its own units -> floats of the same shape and units."""
        image = image.astype(np.result_type(image.dtype, np.float32))
        parts = [image] if self.together(image) else np.split(image, len(image))
        for part in parts:  # views of the image
            sigma = self.sigma or noise_sigma(part[None])
            if sigma > 0 and np.ptp(part) > 0:
                part[...] = self.filter(part, sigma)
        return image

    def together(self, image: NDArray[Any]) -> bool:
        """Whether the channels are those of a colour image: three, and none of their opponent colours is constant."""
        opponents = [[1, 1, 1], [1, 0, -1], [1, -2, 1]]
        return len(image) == 3 and all(np.ptp(np.tensordot(opponent, image, 1)) > 0 for opponent in opponents)

    def filter(self, image: NDArray[Any], sigma: float) -> NDArray[Any]:
        """One channel, or a colour image, denoised; sigma > 0 is in its units."""
        raise NotImplementedError


class NLM(ByChannel):
    r"""Non-local means: the mean of the pixels nearby, weighted by how alike their surroundings are.

    .. math:: \hat x_i = \frac{\sum_j w_{ij} x_j}{\sum_j w_{ij}}, \qquad
        w_{ij} = \exp\left(-\frac{\max(\|P_i - P_j\|^2 - 2\sigma^2, 0)}{h^2}\right)

    with the mean square difference of the patches P around i and j, and :math:`h = 0.8\,\sigma`, as scikit-image
    recommends for its fast mode.

    References
    ----------
    Buades, Coll, Morel: A non-local algorithm for image denoising. CVPR 2005.
    Darbon et al.: Fast nonlocal filtering applied to electron cryomicroscopy. ISBI 2008 (the fast mode).
    """

    name = "nlm"
    when = "a first look within seconds, or a baseline"

    def filter(self, image: NDArray[Any], sigma: float) -> NDArray[Any]:
        colour, distance = len(image) > 1, PATCH_DISTANCE[image.ndim - 1]
        noisy, channel_axis = (image, 0) if colour else (image[0], None)
        clean = denoise_nl_means(noisy, PATCH_SIZE, distance, 0.8 * sigma, True, sigma, channel_axis=channel_axis)
        return clean.reshape(image.shape)


class BM3D(ByChannel):
    """BM3D and, for volumes, BM4D: similar blocks are stacked, and their common spectrum is thresholded and filtered.

    Colour images are denoised with blocks matched in luminance; the channels of a volume one by one. The libraries
    compute in float32 and fail for units as small as 1e-9: the image is multiplied by the power of two that brings σ
    to between ½ and 1, which changes no digit of the result. They use as many threads as torch (OMP_NUM_THREADS); with
    more than one, the last digits vary from run to run.

    References
    ----------
    Dabov et al.: Image denoising by sparse 3-D transform-domain collaborative filtering. IEEE TIP, 2007.
    Maggioni et al.: Nonlocal transform-domain filter for volumetric data denoising and reconstruction. IEEE TIP, 2013.
    """

    name = "bm3d"
    when = "the classical yardstick for white Gaussian noise; not for commercial use"

    def together(self, image: NDArray[Any]) -> bool:
        return image.ndim == 3 and super().together(image)

    def filter(self, image: NDArray[Any], sigma: float) -> NDArray[Any]:
        bm3d, bm4d = libraries()
        flat = image.ndim == 3 or image.shape[1] < BLOCK[3]
        least = [0] * (image.ndim - 2) + [BLOCK[2 if flat else 3]] * 2
        short = [(0, max(0, side - length)) for side, length in zip(least, image.shape, strict=True)]
        sigma, exponent = math.frexp(sigma)
        scaled = np.ldexp(np.pad(image, short, "symmetric"), -exponent)
        profile = bm3d.BM3DProfile() if image.ndim == 3 else bm4d.BM4DProfile2D() if flat else bm4d.BM4DProfile()
        profile.num_threads = torch.get_num_threads()
        if image.ndim == 4 and not flat:
            clean = bm4d.bm4d(scaled[0], sigma, profile)[None]
        elif len(image) == 3:
            clean = np.moveaxis(bm3d.bm3d_rgb(np.moveaxis(scaled, 0, -1), sigma, profile), -1, 0)
        elif image.ndim == 3:
            clean = bm3d.bm3d(scaled[0], sigma, profile)[None]
        else:  # the library's flat blocks lie in the first two axes
            clean = np.moveaxis(bm4d.bm4d(np.moveaxis(scaled[0], 0, -1), sigma, profile), -1, 0)[None]
        return np.ldexp(clean, exponent)[tuple(map(slice, image.shape))]


@cache
def libraries() -> tuple[ModuleType, ModuleType]:
    """The packages bm3d and bm4d; a warning states their licence the first time."""
    try:
        import bm3d
        import bm4d
    except ImportError:
        raise InputError("bm3d is an extra that is not installed: pip install 'noise2same[bm3d]'.") from None
    except OSError as error:  # there are binaries for few systems
        raise InputError(f"bm3d does not run on this system ({error}): use another method.") from None
    warnings.warn(LICENCE, stacklevel=2)
    return bm3d, bm4d
