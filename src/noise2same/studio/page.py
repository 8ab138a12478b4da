"""The page: what happens when something on it is touched. `Session` does the work, `layout` says what is where."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported: nothing leaves this machine
os.environ["HF_HUB_OFFLINE"] = "1"

import gradio as gr

from noise2same import io
from noise2same.errors import Cancelled, InputError, UnknownAxes
from noise2same.studio import pieces
from noise2same.studio.layout import THEME, lay_out
from noise2same.studio.samples import write_sample
from noise2same.studio.session import READINGS, SHOWN, Place, Progress, Session

Updates = dict[Any, Any]
"""What changes on the page, by the part of it."""
USER = "noise2same"
"""Name that goes with the password."""


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


class Studio:
    """The page and its sessions.

    Parameters
    ----------
    root : path
        Folder for what is uploaded and made.
    local : bool
        Whether only this machine can reach the page. If so, files on it can be named instead of uploaded.
    """

    def __init__(self, root: Path, *, local: bool) -> None:
        self.root, self.sessions = root, Sessions(root)
        with gr.Blocks(title="noise2same Studio", analytics_enabled=False) as self.page:
            self.left, self.right = lay_out(local=local)
            self._connect()

    def launch(self, *, host: str, port: int | None, password: str | None, browser: bool, upload: int) -> str:
        """Start the server, and return the address of the page.

        Parameters
        ----------
        host, port : str and int, optional
            Where to listen; by default at the first free port.
        password : str, optional
            That is asked for.
        browser : bool
            Whether to open the page in the browser.
        upload : int
            Largest file that can be uploaded, in megabytes.
        """
        own = files("noise2same.studio")
        script = own.joinpath("compare.js").read_text(encoding="utf-8")
        _, address, _ = self.page.queue().launch(
            server_name=host,
            server_port=port,
            auth=None if password is None else [(USER, password)],
            share=False,
            quiet=True,
            inbrowser=browser,
            prevent_thread_lock=True,
            ssr_mode=False,
            footer_links=[],
            run_history=False,
            max_file_size=f"{upload}mb",
            allowed_paths=[str(self.root)],
            theme=THEME,
            css=own.joinpath("style.css").read_text(encoding="utf-8"),
            head=f"<script>{script}</script>",
        )
        return str(address)

    def close(self) -> None:
        """End all sessions and the server."""
        self.sessions.close_all()
        self.page.close(verbose=False)

    def _connect(self) -> None:
        """Say which event does what."""
        left, right = self.left, self.right
        every = [getattr(side, field.name) for side in (left, right) for field in fields(side)]
        parts = [part for part in every if not isinstance(part, list)]
        seen = [right.file, right.frame, right.depth]
        quick: dict[str, Any] = {"concurrency_id": "quick", "concurrency_limit": 2, "show_progress": "hidden"}
        compute: dict[str, Any] = {"concurrency_id": "compute", "concurrency_limit": 1}  # the others wait in a queue
        event = self._event
        left.dropped.upload(event(self.drop), left.dropped, parts, **quick)
        for button in left.samples:
            button.click(event(partial(self.open_sample, button.value)), None, parts, **quick)
        gr.on([left.open_path.click, left.path.submit], event(self.open_path), left.path, parts, **quick)
        left.reading.input(event(self.open_again), left.reading, parts, **quick)
        left.axes.submit(event(self.open_again), left.axes, parts, **quick)
        left.model.change(event(self.use_model), left.model, parts, **quick)
        left.start.click(
            event(self.denoise),
            [left.effort, left.method, left.minutes, *seen],
            parts,
            show_progress="minimal",
            show_progress_on=right.status,
            **compute,
        )
        left.stop.click(event(self.stop), None, parts, queue=False, show_progress="hidden")
        gr.on([right.file.input, right.frame.release, right.depth.release], event(self.look), seen, parts, **quick)
        right.strength.release(event(self.dial), [right.strength, *seen], parts, **quick)
        self.page.unload(self.sessions.close)

    def _event(self, method: Callable[..., Iterator[Updates]]) -> Callable[..., Iterator[Updates]]:
        """A method as an event of the page: it is given the session of its tab, and its errors become a sentence."""

        def call(request: gr.Request, *values: Any) -> Iterator[Updates]:
            session = self.sessions.of(request)
            try:
                yield from method(session, *values)
            except (InputError, OSError, MemoryError) as error:
                text = str(error) or "Memory ran out: close other programs, or use a smaller image."
                for path in session.files:
                    text = text.replace(str(path), path.name)
                yield {self.right.status: pieces.problem(text)}

        return call

    # Events. Each yields what changes.

    def drop(self, session: Session, paths: list[str] | None) -> Iterator[Updates]:
        """Files were dropped on the page."""
        if paths:
            yield from self._open(session, [session.take(Path(one)) for one in paths])

    def open_sample(self, name: str, session: Session) -> Iterator[Updates]:
        """A sample was chosen."""
        yield from self._open(session, [write_sample(name, session.folder)])

    def open_path(self, session: Session, text: str) -> Iterator[Updates]:
        """A file or folder on this machine was named."""
        named = Path(text.strip()).expanduser()
        folder = named if named.is_dir() and not io.supported(named) else named.parent
        yield from self._open(session, [named], home=folder / "denoised")

    def open_again(self, session: Session, axes: str | None) -> Iterator[Updates]:
        """Axes were given for the files that are open."""
        if axes and session.files:
            yield from self._open(session, session.files, axes.upper(), session.home)

    def _open(
        self, session: Session, paths: list[Path], axes: str | None = None, home: Path | None = None
    ) -> Iterator[Updates]:
        left, right = self.left, self.right
        no_result = {right.downloads: gr.Row(visible=False), left.start: gr.Button(interactive=False)}
        yield {
            right.status: pieces.progress("Opening", None),
            left.reading: gr.Radio(visible=axes is not None),
        } | no_result
        try:
            session.open(paths, axes, home)
        except UnknownAxes as error:
            shown = session.readings(READINGS.get(len(error.shape), ()))
            yield {
                left.reading: gr.Radio(list(shown), value=None, visible=bool(shown)),
                right.view: pieces.readings(shown),
            }
            raise
        image = session.images[0]
        frames, slices = session.frames(0), session.depth(0)
        yield {
            left.about: pieces.facts([_size(session)]),
            left.axes: image.axes,
            right.view: _view(session, Place()),
            right.file: gr.Dropdown(_names(session), value=_names(session)[0], visible=len(session.images) > 1),
            right.frame: gr.Slider(1, max(2, frames), 1, visible=frames > 1),
            right.depth: gr.Slider(1, max(2, slices), slices // 2 + 1, visible=slices > 1),
            right.strength: gr.Slider(value=1, visible=False),
            right.status: pieces.progress("Looking at the noise", None),
        }
        noise, method, *_ = session.make_plan().lines()
        yield {
            left.about: pieces.facts([_size(session), noise, method]),
            left.start: gr.Button(interactive=True),
            right.status: pieces.progress("Making a preview", None),
        }
        part = f" It is of the middle {SHOWN} × {SHOWN} pixels." if max(image.shape) > SHOWN else ""
        yield {
            right.view: _view(session, Place(), session.preview(Place())),
            right.strength: gr.Slider(value=1, visible=True),
            right.status: pieces.facts(
                [f"This is a preview, by a network that has not learned from your image.{part}"]
            ),
        }

    def use_model(self, session: Session, file: str | None) -> Iterator[Updates]:
        """A trained model was given, or taken away."""
        session.load_model(None if file is None else Path(file))
        said = (
            "A network will learn from your images." if file is None else f"{session.model_name} will be used as it is."
        )
        yield {self.right.status: pieces.facts([said])}

    def denoise(
        self, session: Session, effort: str, method: str, minutes: float | None, *seen: Any
    ) -> Iterator[Updates]:
        """Denoise was pressed."""
        left, right, place = self.left, self.right, _place(session, *seen)
        options: dict[str, Any] = {} if method == "auto" else {"method": method}
        if minutes is not None:
            options["minutes"] = minutes
        yield {
            left.start: gr.Button(interactive=False),
            left.stop: gr.Button(interactive=True),
            right.downloads: gr.Row(visible=False),
            right.status: pieces.progress("Starting", None),
        }
        try:
            for state in _running(session, effort, options, place):
                live = {} if state.live is None else {right.view: _compare(session, place, *state.live)}
                yield {right.status: pieces.progress(state.text, state.share)} | live
        except Cancelled:
            return
        finally:
            yield {left.start: gr.Button(interactive=True), left.stop: gr.Button(interactive=False)}
        yield self._result(session, place)

    def _result(self, session: Session, place: Place) -> Updates:
        right, result = self.right, session.results[place.file]
        if result.error:
            raise InputError(result.error)
        found = [] if result.verdict is None else [pieces.verdict(result.verdict)]
        if session.home is not None:
            found.append(pieces.facts([f"All results are in {session.home}."]))
        return {
            right.view: _view(session, place, session.clean_plane(place)),
            right.status: "".join(found),
            right.strength: gr.Slider(value=1, visible=True),
            right.downloads: gr.Row(visible=session.home is None),
            right.clean: gr.DownloadButton(value=str(session.download(place.file, 1.0))),
            right.model: gr.DownloadButton(value=str(session.model_file), visible=session.model_file.exists()),
            right.report: gr.DownloadButton(value=str(result.item.report)),
        }

    def stop(self, session: Session) -> Iterator[Updates]:
        """Stop here was pressed."""
        session.stop()
        yield {self.left.stop: gr.Button(interactive=False)}

    def look(self, session: Session, *seen: Any) -> Iterator[Updates]:
        """Another file, frame or slice is to be shown."""
        if not session.images:
            return
        place = _place(session, *seen)
        if place.file < len(session.results):
            yield self._result(session, place)
        else:
            yield {self.right.view: _view(session, place, session.preview(place))}

    def dial(self, session: Session, strength: float, *seen: Any) -> Iterator[Updates]:
        """The strength was changed. The page shows it by itself; the file to download is made here."""
        if session.results:
            yield {
                self.right.clean: gr.DownloadButton(value=str(session.download(_place(session, *seen).file, strength)))
            }


def _running(session: Session, effort: str, options: dict[str, Any], place: Place) -> Iterator[Progress]:
    """Run a session in a thread of its own, and say how far it is. An error there is raised here."""
    told: queue.Queue[Progress | BaseException | None] = queue.Queue()

    def work() -> None:
        try:
            session.run(effort, options, told.put, place)
            told.put(None)
        except BaseException as error:
            told.put(error)

    threading.Thread(target=work, daemon=True).start()
    while True:
        state = told.get()
        while isinstance(state, Progress) and not told.empty():  # what is over need not be shown
            state = told.get()
        if state is None:
            return
        if isinstance(state, BaseException):
            raise state
        yield state


def _names(session: Session) -> list[str]:
    return [image.label if image.path else "image" for image in session.images]


def _place(session: Session, file: Any, frame: float, depth: float) -> Place:
    """What is looked at, by the values of the three parts that say so."""
    names = _names(session)
    at = names.index(file) if file in names else 0
    if not session.images:
        raise InputError("Open an image first.")
    slice_ = int(depth) - 1 if session.depth(at) > 1 else None
    return Place(at, int(frame) - 1 if session.frames(at) > 1 else 0, slice_)


def _size(session: Session) -> str:
    image = session.images[0]
    size = " × ".join(map(str, image.shape))
    more = f", and {len(session.images) - 1} more" if len(session.images) > 1 else ""
    return f"{_names(session)[0]}: {size} ({' '.join(image.axes)}), {image.dtype}{more}."


def _view(session: Session, place: Place, clean: Any = None) -> str:
    return _compare(session, place, session.noisy_plane(place), clean)


def _compare(session: Session, place: Place, noisy: Any, clean: Any) -> str:
    colours = [channel.color for channel in io.channels(session.images[place.file])]
    return pieces.compare(noisy, clean, colours, label=_names(session)[place.file])
