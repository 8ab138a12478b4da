"""A diagnosis in plain words, for people who are not statisticians."""

from __future__ import annotations

from noise2same.noise.diagnose import Diagnosis

KINDS = {
    "gaussian": "Gaussian noise, equally strong in dark and bright areas",
    "poisson": "photon (Poisson) noise, which grows with the brightness",
    "poisson-gaussian": "photon noise plus the detector's own (Poisson–Gaussian), which grows with the brightness",
    "impulse": "impulse noise: single pixels that have lost their values",
    "clipped": "noise that is cut off at an end of the range of values",
    "quantised": "noise no larger than the steps to which values were rounded",
    "unknown": "noise of an unknown kind",
}
STRENGTHS = ((0.1, "weak"), (0.3, "moderate"), (0.6, "strong"), (float("inf"), "very strong"))
"""Noise with a standard deviation below this share of the images' is called so."""


def paragraph(diagnosis: Diagnosis) -> str:
    """Say what the noise is and what it means for the images.

    What training makes of it is the plan's to say.
    """
    if not diagnosis.evidence:
        return f"The noise could not be diagnosed. {diagnosis.advice}"
    sentences = [
        f"The images have {KINDS[diagnosis.kind]}.",
        strength(diagnosis),
        growth(diagnosis),
        "" if diagnosis.correlated else "It is independent from pixel to pixel.",
        "It was measured by the changes from frame to frame." if diagnosis.from_frames else "",
        diagnosis.advice,
        f"Confidence: {diagnosis.confidence:.2f} of 1.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def strength(diagnosis: Diagnosis) -> str:
    """Say how strong the noise is, in gray values and as a share of the images' standard deviation."""
    share = diagnosis.sigma_normalized
    word = next(word for limit, word in STRENGTHS if share < limit)
    return (
        f"It is {word}: its standard deviation is {diagnosis.sigma:.3g} gray values, {share:.0%} of the contrast "
        "(the standard deviation of the images)."
    )


def growth(diagnosis: Diagnosis) -> str:
    """Say from what to what photon noise grows, over the brightness of the areas it was measured in."""
    if diagnosis.kind not in ("poisson", "poisson-gaussian") or not diagnosis.levels:
        return ""
    dark, bright = min(diagnosis.levels)[0], max(diagnosis.levels)[0]
    low, high = (max(0.0, diagnosis.a * intensity + diagnosis.b) ** 0.5 for intensity in (dark, bright))
    return f"It grows from {low:.3g} at intensity {dark:.3g} to {high:.3g} at intensity {bright:.3g}."
