"""BSD68, σ = 25: Noise2Same against the same network trained on clean targets for the same minutes (Noise2True)."""

from __future__ import annotations

import argparse

import numpy as np
import record

from noise2same import Config, Denoiser
from noise2same.metrics import psnr
from noise2same.noise.synthesise import gaussian


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    minutes = parser.parse_args().minutes
    rng = np.random.default_rng(0)
    clean, test = record.grey_images("bsd/Train400")[:396], record.grey_images("bsd/BSD68")
    noisy, test_noisy = ([gaussian(image, 25, rng) for image in images] for images in (clean, test))
    config = Config(minutes=minutes)
    models = {
        "noisy input": None,
        "noise2same": Denoiser(config).fit(noisy),
        "noise2true": Denoiser(Config(minutes=minutes, method="noise2true")).fit(noisy, target=clean),
    }
    rows = []
    for name, model in models.items():
        for augment in (False, True) if model else (False,):
            outputs = [model.denoise(x, augment=augment) if model else x for x in test_noisy]
            score = np.mean([psnr(y, out, data_range=255) for y, out in zip(test, outputs, strict=True)])
            summary = model.summary if model else {}
            row = {"method": name + " + 8-fold augmentation" * augment, "PSNR (dB)": round(float(score), 2)}
            rows.append(row | {"steps": summary.get("steps"), "lambda_inv": summary.get("lambda_inv")})
    record.write(
        "bsd68",
        rows,
        f"# BSD68, σ = 25\n\nMean PSNR of the 68 test images. Trained on 396 images of Train400, each noisy once, "
        f"for {minutes:g} minutes each with the fast preset; the noise level is not told.",
    )


if __name__ == "__main__":
    main()
