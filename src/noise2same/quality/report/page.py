"""The report as one HTML page, which holds all of its pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from noise2same.noise.describe import paragraph
from noise2same.quality.report import charts
from noise2same.quality.report.film import show_film
from noise2same.quality.report.pictures import Picture, around_zero, data_uri, fitted, orthogonal, picture
from noise2same.quality.report.views import ReportViews, Zoom, grey_range

if TYPE_CHECKING:
    from noise2same.noise.diagnose import Diagnosis
    from noise2same.quality.assess import Assessment
    from noise2same.quality.checks import Check, Verdict

HEADLINES = {
    "trust": "Trust this result",
    "check": "Check this result before you use it",
    "do not trust": "Do not trust this result",
}
SIGNS = {"do not trust": "✕", "check": "!", "trust": "✓"}
"""The worst first."""
LABELS = {
    "alpha": "share of pixels replaced by impulses",
    "batch": "patches per step",
    "blend": "weight of the network in the result",
    "block": "building block of the network",
    "clip": "largest gradient norm",
    "ema": "decay of the averaged weights",
    "features": "feature maps at the finest level",
    "fill": "what replaces masked pixels",
    "fill_sigma": "standard deviation of the fill",
    "from_scratch": "started from random weights",
    "gain": "variance of the noise per intensity",
    "images": "training images",
    "lambda_inv": "weight of the invariance term",
    "levels": "resolutions of the network",
    "mask_density": "share of masked pixels",
    "method_settings": "settings of the method",
    "minutes": "training budget in minutes",
    "noise2same": "version of noise2same",
    "noise_extent": "extent of correlated noise in pixels",
    "noise_model": "noise model",
    "pretrained": "started from a pretrained network",
    "patch": "side of a patch in 2D",
    "patch_3d": "size of a patch in 3D",
    "seconds": "training time in seconds",
    "seed": "seed of the random numbers",
    "separate_passes": "separate forward passes",
    "sigma": "standard deviation of the noise",
    "steps": "training steps",
    "stopped_early": "ended by early stopping",
    "terms": "terms of the loss at the end",
    "unchanged": "the weights that it began with were the best",
}
"""Words for the names of settings and of what training reports; other names are shown with spaces for underscores."""
HALF_WIDTH = 768
"""Longest side in pixels of a picture that takes half of the page's width."""
FEW_PIXELS = 512
"""Pictures with shorter sides are magnified without smoothing."""


def page(
    views: ReportViews,
    assessment: Assessment,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    scores: Mapping[str, tuple[float, float]],
) -> str:
    """HTML of the whole report. `scores`: before and after, by name; others as for `write_report`."""
    verdict = assessment.verdict
    template = Template(files("noise2same.quality.report").joinpath("page.html").read_text(encoding="utf-8"))
    name = _name(assessment)
    return template.substitute(
        title=escape(f"{name} – {verdict.word}"),
        name=escape(name),
        facts=_facts(assessment),
        word_class=_css(verdict.word),
        sign=SIGNS[verdict.word],
        headline=HEADLINES[verdict.word],
        reason=escape(verdict.reason),
        advice=f'<p class="advice"><b>What to do next</b> {escape(verdict.advice)}</p>' if verdict.advice else "",
        numbers=_numbers(assessment, scores),
        checks=_checks(verdict),
        slider=_slider(views, assessment),
        film="" if assessment.film is None else show_film(assessment.film, assessment, colours(assessment)),
        zooms="".join(_zoom(views, zoom, colours(assessment)) for zoom in views.zooms),
        projections=_projections(views, colours(assessment)),
        residual=_residual(views),
        noise=_noise(views, assessment.diagnosis),
        training=_training(training.get("history") or []),
        settings=_settings(views, assessment.source, settings, training),
    )


def _css(word: str) -> str:
    return word.replace(" ", "-")


def _name(assessment: Assessment) -> str:
    """Name of the file, and of the frame if there are several."""
    image = Path(assessment.source.get("image", "The array")).name
    return f"{image}, {assessment.frame}" if len(assessment.frames) > 1 else image


def _facts(assessment: Assessment) -> str:
    """Say in a line how large the image is."""
    sizes = " × ".join(f"{length}" for length in assessment.sizes.values())
    return f"{sizes} ({' '.join(assessment.sizes)}), report by noise2same"


def _numbers(assessment: Assessment, scores: Mapping[str, tuple[float, float]]) -> str:
    items = []
    if assessment.verdict.psnr is not None:
        value, low, high = assessment.verdict.psnr
        items.append(("Estimated PSNR", f"{value:.1f} dB <small>95 % interval: {low:.1f} to {high:.1f} dB</small>"))
    for name, (before, after) in scores.items():
        digits, unit = (2, " dB") if name == "psnr" else (3, "")
        text = f"{after:.{digits}f}{unit} <small>noisy: {before:.{digits}f}{unit}</small>"
        items.append((f"{name.upper()} against the truth", text))
    for channel, share in zip(assessment.channels, assessment.input_share, strict=False):
        where = f" <small>{escape(channel.name)}</small>" if len(assessment.channels) > 1 else ""
        items.append(("Noisy input in the result", f"{share:.0%}{where}"))
    rows = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in items)
    return f'<dl class="numbers">{rows}</dl>' if rows else ""


def _checks(verdict: Verdict) -> str:
    ordered = sorted(verdict.checks, key=lambda check: list(SIGNS).index(check.word))
    if not ordered:
        return ""
    passed = sum(check.word == "trust" for check in ordered)
    return (
        f"<details><summary>Checks <small>{passed} of {len(ordered)} passed</small></summary>"
        f'<ul class="checks">{"".join(map(_check, ordered))}</ul></details>'
    )


def _check(check: Check) -> str:
    advice = f"<p>{escape(check.advice)}</p>" if check.advice else ""
    return (
        f'<li class="{_css(check.word)}"><span class="sign" role="img" aria-label="{check.word}">'
        f'{SIGNS[check.word]}</span><strong class="name">{escape(check.name)}</strong>'
        f'<div class="text"><p>{escape(check.sentence)}</p>{advice}</div></li>'
    )


def _img(image: Picture, alt: str, *, lossless: bool = False, classes: str = "") -> str:
    height, width = image.shape[:2]
    if max(height, width) < FEW_PIXELS:
        classes += " pixels"
    return (
        f'<img src="{data_uri(image, lossless=lossless)}" alt="{escape(alt)}" width="{width}" height="{height}" '
        f'class="{classes}" draggable="false">'
    )


def _slider(views: ReportViews, assessment: Assessment) -> str:
    height, width = views.clean.shape[:2]
    before, after = (picture(fitted(plane), views.grey, colours(assessment)) for plane in (views.noisy, views.clean))
    scale = width / after.shape[1]
    smaller = f"The picture is reduced {scale:.1f} times, which hides some of the noise. " if scale > 1 else ""
    return f"""<figure class="slider" style="--ratio: {width / height:.4f}">
<div class="compare" id="compare">
{_img(after, "The denoised image")}
{_img(before, "The noisy image", classes="before")}
{"".join(_mark(zoom, height, width) for zoom in views.zooms)}
<span class="tag left">noisy</span><span class="tag right">denoised</span><span class="line"></span>
</div>
<input type="range" id="split" min="0" max="100" step="0.5" value="50" aria-label="Part that shows the noisy image">
<figcaption>{_what(views, assessment)}{smaller}Both sides have the same contrast. Drag over the image, or use the arrow
keys on the slider.{_key(assessment)}</figcaption>
</figure>"""


def _key(assessment: Assessment) -> str:
    """Channels by name and color, if the file has them; of a photograph they go without saying."""
    if not colours(assessment) or [channel.name for channel in assessment.channels] == ["red", "green", "blue"]:
        return ""
    items = (f'<li><i style="background: {one.color}"></i>{escape(one.name)}</li>' for one in assessment.channels)
    return f'<ul class="key">{"".join(items)}</ul>'


def colours(assessment: Assessment) -> tuple[str, ...]:
    """Colours of the channels in the file; none if one is missing or all are alike."""
    found = tuple(channel.color for channel in assessment.channels)
    return found if all(found) and len(set(found)) > 1 else ()


def _mark(zoom: Zoom, height: int, width: int) -> str:
    rows, columns = zoom.box
    place = {
        "left": columns.start / width,
        "top": rows.start / height,
        "width": (columns.stop - columns.start) / width,
        "height": (rows.stop - rows.start) / height,
    }
    style = "; ".join(f"{name}: {share:.3%}" for name, share in place.items())
    return f'<span class="mark" style="{style}"><b>{zoom.letter}</b></span>'


def _what(views: ReportViews, assessment: Assessment) -> str:
    """Say what of the image is shown, if it is not all."""
    sizes = dict(zip(views.axes, views.shape, strict=True))
    parts = [str(assessment.frame)] if len(assessment.frames) > 1 else []
    if "Z" in sizes:
        parts.append("the middle slice")
    names = [channel.name for channel in assessment.channels]
    if not colours(assessment) and len(names) == 2:
        parts.append(f"{names[0]} in magenta and {names[1]} in green")
    if not colours(assessment) and len(names) > 3:
        parts.append(f"{names[0]} in red, {names[1]} in green and {names[2]} in blue, of {len(names)} channels")
    return escape(f"This is {', '.join(parts)}. ") if parts else ""


def _zoom(views: ReportViews, zoom: Zoom, colours: Sequence[str]) -> str:
    shown = {name: picture(plane[zoom.box], views.grey, colours) for name, plane in views.images().items()}
    shown["removed"] = picture(views.residual[zoom.box], around_zero(views.residual))
    figures = "".join(
        f"<figure>{_img(image, f'Zoom {zoom.letter}, {name}', lossless=True)}<figcaption>{name}</figcaption></figure>"
        for name, image in shown.items()
    )
    four = " four" if len(shown) == 4 else ""
    return f"""<h3>{zoom.letter}: {zoom.why}</h3>
<div class="zoom{four}" style="--count: {len(shown)}">{figures}</div>"""


def _projections(views: ReportViews, colours: Sequence[str]) -> str:
    if not views.projections:
        return ""
    grey = grey_range(views.projections["denoised"]["XY"])
    figures = ""
    for name, parts in views.projections.items():
        whole, repeats = orthogonal(parts, np.mean(grey, axis=0, dtype=np.float32))
        stretched = f"; Z is stretched {repeats} times" if repeats > 1 else ""
        alt = f"Maximum projections of the {name} volume on XY, on YZ at the right and on XZ below"
        image = _img(picture(fitted(whole, HALF_WIDTH), grey, colours), alt)
        figures += f"<figure>{image}<figcaption>{name}{stretched}</figcaption></figure>"
    return f'<h3>Maximum projections: XY, with YZ at its right and XZ below</h3><div class="pair">{figures}</div>'


def _residual(views: ReportViews) -> str:
    shown = fitted(views.residual, HALF_WIDTH)
    grey = around_zero(shown)
    image = _img(picture(shown, grey), "What was removed, noisy minus denoised")
    spread = ", ".join(f"{value:.3g}" for value in grey[1][:3])
    correlation = charts.svg(
        partial(charts.draw_autocorrelation, residual=views.relative), "Autocorrelation of what was removed, as a map"
    )
    histogram = charts.svg(
        partial(charts.draw_histogram, relative=views.relative), "Histogram of what was removed, and of noise alone"
    )
    return f"""<div class="columns">
<figure>{image}<figcaption>Mid-grey is 0, black and white are −/+ {spread}.</figcaption></figure>
<figure>{correlation}<figcaption>How similar the removed values of two pixels are, by the distance between
them. Color beside the center means correlated noise or lost structure.</figcaption></figure>
<figure>{histogram}<figcaption>If the bars are narrower than the line, noise is left in the image. If they are
wider, more than noise was removed.</figcaption></figure>
</div>"""


def _noise(views: ReportViews, diagnosis: Diagnosis) -> str:
    if diagnosis.sigma == 0:
        return f"<p>{escape(diagnosis.advice)}</p>"
    variance = charts.svg(
        partial(charts.draw_variance, diagnosis=diagnosis, views=views), "Variance of the noise against intensity"
    )
    correlation = charts.svg(
        partial(charts.draw_correlation, correlation=diagnosis.correlation), "Correlation of the noise along each axis"
    )
    return f"""<p>{escape(paragraph(diagnosis))}</p>
<div class="pair">
<figure>{variance}<figcaption>The line is the noise as estimated in flat areas of the noisy image, the dots are what was
removed. Dots below the line mean that noise is left, dots above it that signal was lost.</figcaption></figure>
<figure>{correlation}<figcaption>How similar the noise of two pixels is, by the distance between them. Noise that is
independent from pixel to pixel has 0 at every distance but 0.</figcaption></figure>
</div>"""


def _training(history: list[Mapping[str, Any]]) -> str:
    curves = charts.curves_of(history)
    if not curves:
        return ""
    chart = charts.svg(partial(charts.draw_training, curves=curves), f"Curves of {', '.join(curves)} over the training")
    return f"""<section aria-labelledby="training-title">
<h2 id="training-title">Training</h2>
<div class="pair"><figure>{chart}<figcaption>Terms of the loss, and the estimated error against the unknown clean
image where there is one, in units of the image's variance.</figcaption></figure></div>
</section>"""


def _settings(
    views: ReportViews, source: Mapping[str, Any], settings: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    shown = {"size": " × ".join(map(str, views.shape)), "axes": views.axes, "pixel type": views.dtype}
    known = {
        name: value
        for name, value in training.items()
        if name != "history" and value not in ("", None) and value is not False
    }
    groups = {"Image": source, "Shown here": shown, "Training": known, "Settings": settings}
    return "".join(f"<h3>{title}</h3><table>{_rows(group)}</table>" for title, group in groups.items() if group)


def _rows(group: Mapping[str, Any]) -> str:
    return "".join(
        f'<tr><th scope="row">{escape(_label(name))}</th><td>{escape(_value(value))}</td></tr>'
        for name, value in group.items()
    )


def _label(name: str) -> str:
    return LABELS.get(name, str(name).replace("_", " "))


def _value(value: Any) -> str:
    """A value for a person to read."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_label(name)} {_value(item)}" for name, item in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value)) or "–"
    return str(value)
