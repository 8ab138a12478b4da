"""A diagnosis in words, for somebody who knows the images, but not statistics."""

from __future__ import annotations

from noise2same.noise.diagnose import Diagnosis

NAMES = {
    "gaussian": "Gaussian noise, equally strong in dark and bright places",
    "poisson": "photon (Poisson) noise, which grows with the brightness",
    "poisson-gaussian": "photon noise and a detector's own (Poisson–Gaussian), which grows with the brightness",
    "impulse": "impulses: single pixels that have lost their value",
    "clipped": "noise that is cut off at an end of the range of values",
    "quantised": "values rounded to steps as large as the noise",
    "unknown": "of no kind that is known",
}


def paragraph(diagnosis: Diagnosis) -> str:
    """What the noise is, and what follows."""
    if not diagnosis.evidence:
        return f"The noise could not be diagnosed. {diagnosis.advice}"
    sentences = [
        f"The noise is {NAMES[diagnosis.kind]}.",
        f"Its standard deviation is {diagnosis.sigma:.3g} grey values, {strength(diagnosis)}.",
        growth(diagnosis),
        "" if diagnosis.correlated else "It is independent from pixel to pixel.",
        diagnosis.advice,
        f"Confidence: {diagnosis.confidence:.2f} of 1.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def strength(diagnosis: Diagnosis) -> str:
    """How much of the image's contrast is noise, in words: the variance of image and noise together is 1."""
    share = diagnosis.sigma_normalized
    words = ((0.1, "weak"), (0.3, "moderate"), (0.6, "strong"), (float("inf"), "very strong"))
    return (
        f"{share:.0%} of the contrast (the standard deviation of the images): {next(w for m, w in words if share < m)}"
    )


def growth(diagnosis: Diagnosis) -> str:
    """From what to what photon noise grows, over the brightness of the measured places."""
    if diagnosis.kind not in ("poisson", "poisson-gaussian") or not diagnosis.levels:
        return ""
    dark, bright = (extreme(diagnosis.levels)[0] for extreme in (min, max))
    low, high = (max(0.0, diagnosis.a * intensity + diagnosis.b) ** 0.5 for intensity in (dark, bright))
    return f"It grows from {low:.3g} at the intensity {dark:.3g} to {high:.3g} at {bright:.3g}."
