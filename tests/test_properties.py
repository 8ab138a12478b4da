"""Any array: the output has its shape and dtype and is finite where the input was, or the error is ours."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import noise2same as n2s
from noise2same import Denoiser
from noise2same.errors import InputError

MOST_PIXELS = 20_000
"""Of one array, so that many can be tried."""
DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
NOT_PIXELS = ["?", "c8", "U3", "M8[s]", "O"]
SPECIAL = ["noise", "constant", "zeros", "huge", "tiny", "negative", "nan", "inf", "one", "all nan", "steps", "edge"]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[NDArray[Any], str | None]:
    """An array of 1 to 6 axes of any kind, and axes for it: none, right, or wrong."""
    count = draw(st.sampled_from([1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6]))
    shape: list[int] = []
    left = MOST_PIXELS
    for _ in range(count):
        shape.append(draw(st.integers(1, max(1, min(200, left)))))
        left //= shape[-1]
    shape = list(draw(st.permutations(shape)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = random.normal(100, 20, shape)
    kind = draw(st.sampled_from(SPECIAL))
    match kind:
        case "constant" | "zeros":
            values[...] = 100 * (kind == "constant")
        case "huge" | "tiny":
            values *= 1e300 if kind == "huge" else 1e-300
        case "negative":
            values = -values
        case "nan" | "inf":
            values[random.random(shape) < 0.2] = np.nan if kind == "nan" else random.choice([np.inf, -np.inf])
        case "one":
            values[...] = 0
            values.flat[random.integers(values.size)] = 1e6
        case "all nan":
            values[...] = np.nan
        case "steps":
            values = np.round(values / 50)
    dtype = np.dtype(draw(st.sampled_from(4 * DTYPES + NOT_PIXELS)))
    if kind == "edge" and dtype.kind in "fiu":  # of what the type can hold
        values /= np.abs(values).max()
        values *= float(np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = values.astype(dtype, casting="unsafe")
    if draw(st.booleans()):
        array = array.astype(array.dtype.newbyteorder())
    match draw(st.sampled_from(["plain", "strided", "fortran", "reversed", "read-only", "broadcast"])):
        case "strided":
            array = np.repeat(array, 2, axis=-1)[..., ::2]
        case "fortran":
            array = np.asfortranarray(array)
        case "reversed":
            array = array[..., ::-1]
        case "read-only":
            array.flags.writeable = False
        case "broadcast":
            array = np.broadcast_to(array, array.shape)
    right = st.permutations("STCZYX"[-count:] if draw(st.booleans()) else "CSZTYX"[-count:]).map("".join)
    wrong = st.text("STCZYX", min_size=count, max_size=count) | st.text("STCZYXq", max_size=7)
    return array, draw(st.sampled_from([right] * 6 + [wrong, st.none()]).flatmap(lambda one: one))


def check(noisy: NDArray[Any], clean: NDArray[Any]) -> None:
    """What is promised of every result."""
    assert clean.shape == noisy.shape and clean.dtype == noisy.dtype
    if noisy.dtype.kind == "f":
        finite = np.isfinite(noisy)
        assert np.isfinite(clean[finite]).all()
        np.testing.assert_array_equal(clean[~finite], noisy[~finite])


def trial(examples: int) -> Any:
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


def denoise_by(model: Denoiser, case: tuple[NDArray[Any], str | None]) -> None:
    noisy, axes = case
    before = noisy.copy()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        try:
            clean = model.denoise(noisy, axes, tta=False)
        except InputError as error:
            assert len(str(error)) < 400 and "\n" not in str(error)
            return
    check(noisy, clean)
    assert before.tobytes() == noisy.tobytes()


def learn_from(case: tuple[NDArray[Any], str | None], **options: Any) -> None:
    noisy, axes = case
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        try:
            clean = n2s.denoise(noisy, axes=axes, progress=False, **options)
        except InputError as error:
            assert len(str(error)) < 400 and "\n" not in str(error)
            return
    check(noisy, clean)


TINY: dict[str, Any] = {"steps": 1, "features": 2, "levels": 1, "patch": 16, "patch_3d": (4, 16, 16), "batch": 1}


@pytest.fixture(scope="module")
def model(trained: Path) -> Denoiser:
    return Denoiser.load(trained)


@trial(120)
@given(arrays())
def test_any_array_with_a_model(model, case):
    denoise_by(model, case)


@trial(40)
@given(arrays())
def test_any_array_is_trained_on(case):
    learn_from(case, **TINY)


@trial(40)
@given(arrays())
def test_any_array_with_the_pretrained_network(case):
    learn_from(case, minutes=0)


@pytest.mark.long
@trial(1200)
@given(arrays())
def test_many_arrays_with_a_model(model, case):
    denoise_by(model, case)


@pytest.mark.long
@trial(400)
@given(arrays())
def test_many_arrays_are_trained_on(case):
    learn_from(case, **TINY)


@pytest.mark.long
@trial(400)
@given(arrays())
def test_many_arrays_with_the_pretrained_network(case):
    learn_from(case, minutes=0)
