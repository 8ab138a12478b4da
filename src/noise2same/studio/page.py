"""The page: what is where on it, and what happens when something is touched. `Session` does the work."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from importlib.resources import files
from pathlib import Path
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported: nothing leaves this machine
os.environ["HF_HUB_OFFLINE"] = "1"

import gradio as gr

from noise2same import io, methods
from noise2same.errors import Cancelled, InputError, UnknownAxes
from noise2same.plan import EFFORTS
from noise2same.studio import pieces
from noise2same.studio.samples import SAMPLES, write_sample
from noise2same.studio.session import READINGS, SHOWN, Place, Progress, Session

THEME = gr.themes.Base(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],
    font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "monospace"],
    radius_size="sm",
)


class Sessions:
    """The sessions of all tabs that are open."""

    def __init__(self, root: Path) -> None:
        self._root, self._open = root, dict[str, Session]()

    def of(self, request: gr.Request) -> Session:
        """The session of the tab that asks."""
        key = str(request.session_hash)
        if key not in self._open:
            self._open[key] = Session(self._root)
        return self._open[key]

    def close(self, request: gr.Request) -> None:
        """End the session of a tab that was closed."""
        session = self._open.pop(str(request.session_hash), None)
        if session is not None:
            session.close()

    def close_all(self) -> None:
        """End all sessions."""
        for session in self._open.values():
            session.close()
        self._open.clear()


def says_what_is_wrong(count: int, status: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let an event that fails for a reason the user can mend show its sentence, and leave the rest as it is.

    Parameters
    ----------
    count : int
        Number of the event's outputs.
    status : int
        Which of them shows the sentence.
    """

    def decorate(event: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        @wraps(event)
        def call(*values: Any) -> Iterator[Any]:
            try:
                yield from event(*values)
            except (InputError, OSError, MemoryError) as error:
                text = str(error) or "Memory ran out: close other programs, or use a smaller image."
                updates: list[Any] = [gr.skip()] * count
                updates[status] = pieces.problem(text)
                yield updates

        return call

    return decorate


def build(root: Path, *, local: bool = True) -> tuple[gr.Blocks, Sessions]:
    """The page, and the sessions of those who look at it.

    Parameters
    ----------
    root : path
        Folder for what is uploaded and made.
    local : bool
        Whether only this machine can reach the page. If so, files on it can be named instead of uploaded.
    """
    sessions = Sessions(root)
    with gr.Blocks(title="noise2same Studio", analytics_enabled=False, delete_cache=(3600, 86400)) as page:
        gr.HTML(
            '<div class="n2s-head"><h1>noise2same Studio</h1><p>Drop a noisy image. It is cleaned from itself '
            "alone, and stays on this machine.</p></div>"
        )
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                dropped = gr.File(label="Images, stacks or films", file_count="multiple", height=150, elem_id="drop")
                with gr.Row():
                    samples = [gr.Button(name, size="sm", elem_id=f"sample-{name.lower()}") for name in SAMPLES]
                with gr.Accordion("A file or folder on this machine", open=False, visible=local):
                    path = gr.Textbox(
                        label="Its path",
                        placeholder="/data/experiment 1",
                        elem_id="path",
                        info="For gigabytes: nothing is copied. Results go to a folder 'denoised' in it.",
                    )
                    name_path = gr.Button("Open", size="sm", elem_id="open-path")
                reading = gr.Radio(
                    [],
                    label="What are its axes?",
                    visible=False,
                    elem_id="reading",
                    info="The file does not say. T is time, Z is depth, C are channels.",
                )
                about = gr.HTML(elem_id="about")
                effort = gr.Radio(
                    list(EFFORTS),
                    value="Quick",
                    label="How well?",
                    elem_id="effort",
                    info="Up to 0, 0.5, 3 and 15 minutes of learning.",
                )
                with gr.Row():
                    start = gr.Button("Denoise", variant="primary", elem_id="denoise", interactive=False)
                    stop = gr.Button("Stop here", elem_id="stop", interactive=False)
                with gr.Accordion("Advanced", open=False):
                    axes = gr.Textbox(label="Axes", elem_id="axes", info="One letter a dimension: S, T, C, Z, Y, X.")
                    names = [
                        "auto",
                        *(name for name, found in methods.METHODS.items() if not getattr(found, "supervised", False)),
                    ]
                    method = gr.Dropdown(names, value="auto", label="Method", elem_id="method")
                    minutes = gr.Number(
                        label="Minutes", value=None, minimum=0, elem_id="minutes", info="In place of the choice above."
                    )
                    model = gr.File(
                        label="A trained model (.safetensors) to use instead of learning",
                        height=120,
                        file_types=[".safetensors"],
                        elem_id="model",
                    )
            with gr.Column(scale=3, min_width=320):
                view = gr.HTML(pieces.EMPTY, elem_id="view")
                gr.HTML(pieces.CONTROLS)
                which = gr.Dropdown([], label="File", visible=False, elem_id="which")
                frame = gr.Slider(1, 2, 1, step=1, label="Frame", visible=False, elem_id="frame")
                depth = gr.Slider(1, 2, 1, step=1, label="Slice", visible=False, elem_id="depth")
                strength = gr.Slider(
                    0,
                    1,
                    1,
                    step=0.05,
                    label="Strength",
                    visible=False,
                    elem_id="strength",
                    info="0 is the noisy image, 1 all of the denoising.",
                )
                status = gr.HTML(elem_id="status")
                with gr.Row(visible=False) as downloads:
                    clean_file = gr.DownloadButton("Clean image", variant="primary", elem_id="get-image")
                    model_file = gr.DownloadButton("Model", elem_id="get-model")
                    report_file = gr.DownloadButton("Report", elem_id="get-report")

        opened = [reading, about, view, which, frame, depth, strength, status, downloads, start, axes]
        looked_at = [which, frame, depth]

        def place(session: Session, name: Any, at: float, slice_: float) -> Place:
            found = [image.name for image in session.images]
            number = found.index(name) if name in found else 0
            return Place(
                number,
                int(at) - 1 if session.images and session.frames(number) > 1 else 0,
                int(slice_) - 1 if session.images and session.depth(number) > 1 else None,
            )

        def open_files(
            session: Session, paths: list[Path], given: str | None = None, home: Path | None = None
        ) -> Iterator[list[Any]]:
            yield _with(opened, {status: pieces.progress("Opening", None), downloads: gr.Row(visible=False)})
            try:
                session.open(paths, given, home)
            except UnknownAxes as error:
                choices = READINGS.get(len(error.shape), ())
                yield _with(
                    opened,
                    {
                        reading: gr.Radio(list(choices), value=None, visible=True),
                        view: pieces.readings(session.readings(choices)),
                        status: pieces.problem(str(error)),
                        start: gr.Button(interactive=False),
                    },
                )
                return
            image = session.images[0]
            frames, slices = session.frames(0), session.depth(0)
            yield _with(
                opened,
                {
                    reading: gr.Radio(visible=given in (READINGS.get(len(image.shape)) or ())),
                    about: pieces.facts([_size(session)]),
                    view: _view(session, Place()),
                    which: gr.Dropdown(
                        [one.name for one in session.images], value=image.name, visible=len(session.images) > 1
                    ),
                    frame: gr.Slider(1, max(2, frames), 1, visible=frames > 1),
                    depth: gr.Slider(1, max(2, slices), slices // 2 + 1, visible=slices > 1),
                    strength: gr.Slider(value=1, visible=False),
                    axes: image.axes,
                    status: pieces.progress("Looking at the noise", None),
                },
            )
            lines = session.make_plan().lines()
            yield _with(
                opened,
                {
                    about: pieces.facts([_size(session), lines[0], lines[2]]),
                    start: gr.Button(interactive=True),
                    status: pieces.progress("Making a preview", None),
                },
            )
            preview = session.preview(Place())
            part = "" if max(image.shape) <= SHOWN else f" It shows the middle {SHOWN} × {SHOWN} pixels."
            yield _with(
                opened,
                {
                    view: _view(session, Place(), preview),
                    strength: gr.Slider(value=1, visible=True),
                    status: pieces.facts([f"This is a preview, by a network that has not seen your image.{part}"]),
                },
            )

        @says_what_is_wrong(len(opened), opened.index(status))
        def drop(paths: list[str] | None, request: gr.Request) -> Iterator[list[Any]]:
            session = sessions.of(request)
            if paths:
                session.uploads.update(map(Path, paths))
                yield from open_files(session, [Path(one) for one in paths])

        @says_what_is_wrong(len(opened), opened.index(status))
        def open_path(text: str, request: gr.Request) -> Iterator[list[Any]]:
            named = Path(text.strip()).expanduser()
            is_image = not named.is_dir() or io.supported(named)
            yield from open_files(
                sessions.of(request), [named], home=(named.parent if is_image else named) / "denoised"
            )

        @says_what_is_wrong(len(opened), opened.index(status))
        def reopen(letters: str, request: gr.Request) -> Iterator[list[Any]]:
            session = sessions.of(request)
            if letters and session.files:
                yield from open_files(session, session.files, letters.upper(), session.home)

        def sample(name: str) -> Callable[..., Iterator[list[Any]]]:
            @says_what_is_wrong(len(opened), opened.index(status))
            def open_sample(request: gr.Request) -> Iterator[list[Any]]:
                session = sessions.of(request)
                yield from open_files(session, [write_sample(name, session.folder)])

            return open_sample

        ran = [view, status, strength, downloads, clean_file, model_file, report_file, start, stop]

        @says_what_is_wrong(len(ran), ran.index(status))
        def denoise(
            chosen: str, how: str, budget: float | None, name: Any, at: float, slice_: float, request: gr.Request
        ) -> Iterator[list[Any]]:
            session = sessions.of(request)
            seen = place(session, name, at, slice_)
            options: dict[str, Any] = {} if how == "auto" else {"method": how}
            if budget is not None:
                options["minutes"] = budget
            yield _with(
                ran,
                {
                    status: pieces.progress("Starting", None),
                    downloads: gr.Row(visible=False),
                    start: gr.Button(interactive=False),
                    stop: gr.Button(interactive=True),
                },
            )
            try:
                for state in _running(session, chosen, options, seen):
                    live = {} if state.live is None else {view: _compare(session, seen, *state.live)}
                    yield _with(ran, {status: pieces.progress(state.text, state.share), **live})
            except Cancelled:
                return
            finally:
                yield _with(ran, {start: gr.Button(interactive=True), stop: gr.Button(interactive=False)})
            result = session.results[seen.file]
            found = result.assessment
            yield _with(
                ran,
                {
                    view: _view(session, seen, session.clean_plane(seen)),
                    status: pieces.verdict(found.verdict) if found is not None else "",
                    strength: gr.Slider(value=1, visible=True),
                    downloads: gr.Row(visible=True),
                    clean_file: gr.DownloadButton(value=str(session.download(seen.file, 1.0))),
                    model_file: gr.DownloadButton(value=str(session.model_file), visible=session.model_file.exists()),
                    report_file: gr.DownloadButton(value=str(result.item.report)),
                },
            )

        def stop_here(request: gr.Request) -> None:
            sessions.of(request).stop()

        def look(name: Any, at: float, slice_: float, request: gr.Request) -> Any:
            session = sessions.of(request)
            if not session.images:
                return gr.skip()
            seen = place(session, name, at, slice_)
            clean = session.clean_plane(seen)
            return _view(session, seen, session.preview(seen) if clean is None else clean)

        def dial(value: float, name: Any, request: gr.Request) -> Any:
            session = sessions.of(request)
            if not session.results:
                return gr.skip()
            return gr.DownloadButton(value=str(session.download(place(session, name, 1, 1).file, value)))

        @says_what_is_wrong(1, 0)
        def use_model(file: str | None, request: gr.Request) -> Iterator[Any]:
            session = sessions.of(request)
            session.load_model(None if file is None else Path(file))
            yield [
                pieces.facts([f"The model {session.model_name} will be used." if file else "A model will be learned."])
            ]

        compute: dict[str, Any] = {"concurrency_id": "compute", "concurrency_limit": 1}
        quick: dict[str, Any] = {"concurrency_id": "quick", "concurrency_limit": 2, "show_progress": "hidden"}
        dropped.upload(drop, dropped, opened, **quick)
        for button in samples:
            button.click(sample(button.value), None, opened, **quick)
        gr.on([name_path.click, path.submit], open_path, path, opened, **quick)
        reading.input(reopen, reading, opened, **quick)
        axes.submit(reopen, axes, opened, **quick)
        start.click(
            denoise,
            [effort, method, minutes, *looked_at],
            ran,
            show_progress="minimal",
            show_progress_on=status,
            **compute,
        )
        stop.click(stop_here, None, None, queue=False)
        gr.on([which.input, frame.release, depth.release], look, looked_at, view, **quick)
        strength.release(dial, [strength, which], clean_file, **quick)
        model.change(use_model, model, [status], **quick)
        page.unload(sessions.close)
    return page, sessions


def launch(root: Path, *, host: str, port: int | None, password: str | None, browser: bool, upload: int) -> Any:
    """Start the server; it runs until its page is closed by `close`.

    Parameters
    ----------
    upload : int
        Largest file that can be uploaded, in megabytes.
    """
    page, sessions = build(root, local=host in ("127.0.0.1", "localhost"))
    folder = files("noise2same.studio")
    _, address, _ = page.queue().launch(
        server_name=host,
        server_port=port,
        auth=None if password is None else [("noise2same", password)],
        share=False,
        quiet=True,
        inbrowser=browser,
        prevent_thread_lock=True,
        show_error=False,
        ssr_mode=False,
        footer_links=[],
        run_history=False,
        max_file_size=f"{upload}mb",
        allowed_paths=[str(root)],
        theme=THEME,
        css=folder.joinpath("style.css").read_text(encoding="utf-8"),
        head=f"<script>{folder.joinpath('compare.js').read_text(encoding='utf-8')}</script>",
    )
    return page, sessions, address


def _with(outputs: list[Any], updates: dict[Any, Any]) -> list[Any]:
    """Values for all outputs of an event: those given, and no change for the others."""
    return [updates.get(one, gr.skip()) for one in outputs]


def _running(session: Session, effort: str, options: dict[str, Any], seen: Place) -> Iterator[Progress]:
    """Run a session in a thread of its own, and say how far it is. An error there is raised here."""
    told: queue.Queue[Progress | BaseException | None] = queue.Queue()

    def work() -> None:
        try:
            session.run(effort, options, told.put, seen)
            told.put(None)
        except BaseException as error:
            told.put(error)

    threading.Thread(target=work, daemon=True).start()
    while True:
        state = told.get()
        while not told.empty():  # the page need not show what is over
            if isinstance(state, BaseException):
                break
            state = told.get()
        if state is None:
            return
        if isinstance(state, BaseException):
            raise state
        yield state


def _size(session: Session) -> str:
    image = session.images[0]
    size = " × ".join(map(str, image.shape))
    name = image.path.name if image.path else "image"
    more = f", and {len(session.images) - 1} more" if len(session.images) > 1 else ""
    return f"{name}: {size} ({' '.join(image.axes)}), {image.dtype}{more}."


def _view(session: Session, seen: Place, clean: Any = None) -> str:
    return _compare(session, seen, session.noisy_plane(seen), clean)


def _compare(session: Session, seen: Place, noisy: Any, clean: Any) -> str:
    image = session.images[seen.file]
    colours = [channel.color for channel in io.channels(image)]
    return pieces.compare(noisy, clean, colours, label=image.path.name if image.path else "image")
