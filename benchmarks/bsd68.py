"""BSD68, σ = 25: Noise2Same against the same network trained on clean targets for the same minutes (Noise2True)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import record

from noise2same import Config, Denoiser
from noise2same.metrics import psnr
from noise2same.noise.synthesise import gaussian


def main() -> None:
    minutes = record.minutes_option(20)
    rng = np.random.default_rng(0)
    clean, test = record.grey_images("bsd/Train400")[:396], record.grey_images("bsd/BSD68")
    noisy, test_noisy = ([gaussian(image, 25, rng) for image in images] for images in (clean, test))
    rows: list[dict[str, Any]] = []

    def score(name: str, denoise: Callable[[Any], Any], summary: dict[str, Any]) -> None:
        value = np.mean([psnr(y, denoise(x), data_range=255) for y, x in zip(test, test_noisy, strict=True)])
        rows.append({"method": name, "PSNR (dB)": round(float(value), 2), "steps": summary.get("steps")})
        print(rows[-1], flush=True)

    score("noisy input", lambda x: x, {})
    for method, target in (("noise2same", None), ("noise2true", clean)):
        model = Denoiser(Config(minutes=minutes, method=method)).fit(noisy, target=target)
        score(method, model.denoise, model.summary)
        score(f"{method} + 8-fold augmentation", partial(model.denoise, augment=True), model.summary)
    record.write(
        "bsd68",
        rows,
        f"# BSD68, σ = 25\n\nMean PSNR of the 68 test images. Trained on 396 images of Train400, each noisy once, "
        f"for {minutes:g} minutes each with the fast preset; the noise level is not told.",
    )


if __name__ == "__main__":
    main()
