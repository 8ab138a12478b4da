"""Each export against our own engine: the largest difference, and the time of one call, in one run.

The networks are those of the fast preset, hardly trained, which changes neither.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch
from numpy.typing import NDArray

from noise2same import train
from noise2same.data import axes as ax
from noise2same.denoiser import Denoiser
from noise2same.noise.samples import samples
from noise2same.one_image import Tuned
from noise2same.prediction.engines import folded, import_openvino

Run = Callable[[NDArray[np.float32]], NDArray[Any]]


def torchscript(path: Path) -> Run:
    module = torch.jit.load(path)

    def run(x: NDArray[np.float32]) -> NDArray[Any]:
        with torch.no_grad():
            result: NDArray[Any] = module(torch.from_numpy(x)).numpy()
        return result

    return run


def onnx(path: Path) -> Run:
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = InferenceSession(path, options)
    return lambda x: session.run(None, {"image": x})[0]


def openvino(path: Path) -> Run:
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = import_openvino().Core().compile_model(path, "CPU", options)
    return lambda x: compiled(x)[0]


PROGRAMS = {"torchscript": (".pt", torchscript), "onnx": (".onnx", onnx), "openvino": (".xml", openvino)}


def own(model: Denoiser, axes: str) -> Run:
    """Our engine, which is OpenVINO's on a CPU where that is installed."""
    tuned = Tuned(model, torch.device("cpu"))
    return lambda image: tuned.denoise(image, axes, tta=False)


def plain(model: Denoiser, axes: str) -> Run:
    """Our own prediction with PyTorch."""
    other = model._with(model.network)
    other._prepared = torch.device("cpu"), folded(other.network)
    return own(other, axes)


def fastest(runs: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
    """Seconds of the fastest call of each, in turns, so that a busy moment meets all of them."""
    found = dict.fromkeys(runs, np.inf)
    for _ in range(times):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - began)
    return found


def measure(kind: str, times: int) -> list[dict[str, Any]]:
    """A row for each program."""
    sample = samples()[kind]
    image, axes = sample.noisy.astype(np.float32), sample.axes
    model = train(image, axes, steps=3, channels="joint", progress=False)
    x = np.ascontiguousarray(ax.to_network(image, axes), np.float32)
    ours = own(model, axes)(image)
    runs: dict[str, Callable[[], Any]] = {"ours": lambda: own(model, axes)(image)}
    reference = plain(model, axes)
    runs["ours, PyTorch"] = lambda: reference(image)
    differences: dict[str, float] = {"ours": 0.0}
    differences["ours, PyTorch"] = float(np.abs(reference(image) - ours).max() / np.ptp(image))
    with tempfile.TemporaryDirectory() as folder:
        for name, (suffix, opened) in PROGRAMS.items():
            run = opened(model.export(Path(folder) / f"model{suffix}").path)
            differences[name] = float(np.abs(run(x) - ax.to_network(ours, axes)).max() / np.ptp(image))
            runs[name] = lambda run=run: run(x)
        seconds = fastest(runs, times)
    return [
        {
            "image": kind,
            "size": " × ".join(map(str, image.shape)),
            "program": name,
            "largest difference": f"{differences[name]:.1e}",
            "time, ours = 1": round(seconds[name] / seconds["ours"], 2),
            "raw": {"seconds": seconds[name], "threads": torch.get_num_threads()},
        }
        for name in runs
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="calls of each, of which the fastest counts")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [row for kind in samples() for row in measure(kind, arguments.times)]
    text = (
        "# Exports\n\nOne pass over an image without a blend, by what was exported and by ourselves. The difference is "
        "a share of the image's range; the time is that of the fastest of several calls, in units of our own engine's "
        f"(OpenVINO, block by block), on {torch.get_num_threads()} thread(s)."
    )
    record.write("exports", rows, text)


if __name__ == "__main__":
    main()
