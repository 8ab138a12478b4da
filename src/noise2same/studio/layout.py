"""What is where on the page, and how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from noise2same import methods
from noise2same.plan import EFFORTS
from noise2same.studio import pieces
from noise2same.studio.samples import SAMPLES

HEAD = (
    '<div class="n2s-head"><h1>noise2same Studio</h1><p>Drop a noisy image. It is cleaned from itself alone, and '
    "stays on this machine.</p></div>"
)
THEME = gr.themes.Base(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],  # those that are there: none is fetched
    font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "monospace"],
    radius_size="sm",
).set(  # texts with a contrast of 4.5 or more
    body_text_color_subdued="*neutral_600",
    body_text_color_subdued_dark="*neutral_400",
    block_info_text_color="*neutral_600",
    block_info_text_color_dark="*neutral_400",
    block_label_text_color="*neutral_700",
    block_label_text_color_dark="*neutral_300",
    block_title_text_color="*neutral_700",
    block_title_text_color_dark="*neutral_300",
    button_primary_background_fill="*primary_700",
    button_primary_background_fill_dark="*primary_700",
    button_primary_background_fill_hover="*primary_800",
    button_primary_background_fill_hover_dark="*primary_800",
    input_placeholder_color="*neutral_600",
    input_placeholder_color_dark="*neutral_400",
    link_text_color="*primary_700",
    link_text_color_dark="*primary_300",
)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The left side: which files, and how to denoise them."""

    dropped: Any
    samples: list[Any]
    path: Any
    open_path: Any
    reading: Any
    about: Any
    effort: Any
    start: Any
    stop: Any
    axes: Any
    method: Any
    minutes: Any
    model: Any


@dataclass(frozen=True, eq=False)
class Outputs:
    """The right side: the image, before and after, and what there is to take away."""

    view: Any
    file: Any
    frame: Any
    depth: Any
    strength: Any
    status: Any
    downloads: Any
    clean: Any
    model: Any
    report: Any


def lay_out(*, local: bool) -> tuple[Inputs, Outputs]:
    """Make all parts of the page; `local` if files on this machine can be named."""
    gr.HTML(HEAD)
    with gr.Row():
        with gr.Column(scale=2, min_width=320):
            left = _inputs(local)
        with gr.Column(scale=3, min_width=320):
            right = _outputs()
    return left, right


def _inputs(local: bool) -> Inputs:
    dropped = gr.File(label="Images, stacks or films", file_count="multiple", height=150, elem_id="drop")
    with gr.Row():
        samples = [gr.Button(name, size="sm", min_width=90) for name in SAMPLES]
    with gr.Accordion("A file or folder on this machine", open=False, visible=local):
        path = gr.Textbox(
            label="Its path",
            placeholder="/data/experiment 1",
            info="For gigabytes: nothing is copied. Results go to a folder 'denoised' in it.",
            elem_id="path",
        )
        open_path = gr.Button("Open", size="sm", elem_id="open-path")
    reading = gr.Radio(
        [],
        label="What are its axes?",
        info="The file does not say. T is time, Z is depth, C are channels.",
        visible=False,
        elem_id="reading",
    )
    about = gr.HTML(elem_id="about")
    minutes = ", ".join(f"{minutes:g}" for minutes in EFFORTS.values())
    effort = gr.Radio(
        list(EFFORTS),
        value="Quick",
        label="How well?",
        info=f"At most {minutes} minutes of learning.",
        elem_id="effort",
    )
    with gr.Row():
        start = gr.Button("Denoise", variant="primary", elem_id="denoise", interactive=False)
        stop = gr.Button("Stop here", elem_id="stop", interactive=False)
    with gr.Accordion("Advanced", open=False):
        axes = gr.Textbox(label="Axes", info="One letter a dimension: S, T, C, Z, Y, X.", elem_id="axes")
        names = [name for name, found in methods.METHODS.items() if not getattr(found, "supervised", False)]
        method = gr.Dropdown(["auto", *names], value="auto", label="Method", elem_id="method")
        given = gr.Number(
            label="Minutes", value=None, minimum=0, info="In place of the choice above.", elem_id="minutes"
        )
        model = gr.File(
            label="A trained model to use instead of learning",
            height=120,
            file_types=[".safetensors"],
            elem_id="model",
        )
    return Inputs(dropped, samples, path, open_path, reading, about, effort, start, stop, axes, method, given, model)


def _outputs() -> Outputs:
    view = gr.HTML(pieces.EMPTY, elem_id="view")
    gr.HTML(pieces.CONTROLS)
    file = gr.Dropdown([], label="File", visible=False, elem_id="file")
    frame = gr.Slider(1, 2, 1, step=1, label="Frame", visible=False, elem_id="frame")
    depth = gr.Slider(1, 2, 1, step=1, label="Slice", visible=False, elem_id="depth")
    strength = gr.Slider(
        0,
        1,
        1,
        step=0.05,
        label="Strength",
        info="0 is the noisy image, 1 all of the denoising.",
        visible=False,
        elem_id="strength",
    )
    status = gr.HTML(elem_id="status")
    with gr.Row(visible=False) as downloads:
        clean = gr.DownloadButton("Clean image", variant="primary", elem_id="get-image")
        model = gr.DownloadButton("Model", elem_id="get-model")
        report = gr.DownloadButton("Report", elem_id="get-report")
    return Outputs(view, file, frame, depth, strength, status, downloads, clean, model, report)
