"""How much of the machine reaches the network: training and prediction against bare PyTorch, interleaved in one run."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import record
import torch

from noise2same import Config, Denoiser, training
from noise2same.device import pick
from noise2same.masking import FILLS, stratified
from noise2same.methods.method import Facts, mean_square
from noise2same.methods.noise2same import Noise2Same, root
from noise2same.networks.engines import folded, ready
from noise2same.patches import Patches
from noise2same.prediction import BATCH_PIXELS, OVERLAP, TILE, Tiles, predict


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def training_case(dims: int, steps: int, repeats: int) -> dict[str, list[float]]:
    """Seconds per step of our training, of a bare loop of the same two passes on ready tensors, of the data path."""
    config = Config(steps=steps)
    model = Denoiser(config)
    model.axes = "ZYX"[3 - dims :]
    image = torch.randn(1, 1, *((512, 512) if dims == 2 else (48, 128, 128)))
    patches = Patches([image], patch=config.patch_of(dims), batch=config.batch_of(dims))
    generator = torch.Generator().manual_seed(0)

    def data_path() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = patches.draw(generator).x
        part = x[: max(1, round(config.masked_fraction * len(x)))]
        j = stratified(part.shape, config.mask_density, generator)
        return x, FILLS["donut"](part, j, generator), j

    def bare() -> None:
        network = model.new_network()
        optimizer = torch.optim.Adam(network.parameters(), fused=True)
        for _ in range(steps):
            f_x, f_masked = network(torch.cat([x, masked])).split([len(x), len(masked)])
            loss = mean_square(f_x - x, None) + root(mean_square(f_x[: len(masked)] - f_masked, j))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def ours() -> float:
        method = Noise2Same(config, Facts(dims, 1, sigma=0.5))
        return training.fit(model.new_network(), method, patches, config, device=pick(), progress=False).seconds

    x, masked, j = data_path()
    times: dict[str, list[float]] = {"bare": [], "ours": [], "data": []}
    for _ in range(repeats):
        times["bare"].append(seconds(bare) / steps)
        times["ours"].append(ours() / steps)
        times["data"].append(seconds(lambda: [data_path() for _ in range(20)]) / 20)
    return times


def prediction_case(size: int, repeats: int) -> dict[str, list[float]]:
    """Seconds to predict a grey image of size² by both engines, and to push its tiles, ready in memory, through one."""
    model = Denoiser()
    network = folded(model.new_network())
    compiled = ready(network, pick())
    image = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    out = np.empty_like(image)
    plan = Tiles(size, TILE[2][0], OVERLAP[2][0], network.multiple[0])
    tiles = torch.randn(len(plan.starts) ** 2, 1, plan.length, plan.length)
    batches = tiles.split(max(1, BATCH_PIXELS["cpu"] // plan.length**2))

    @torch.inference_mode()
    def bare() -> None:
        for batch in batches:
            network(batch)

    bare()  # the first pass is cold
    times: dict[str, list[float]] = {"bare": [], "ours": [], "openvino": []}
    for _ in range(repeats):
        times["bare"].append(seconds(bare))
        for name, engine in (("ours", network), ("openvino", compiled)):
            run = partial(predict, engine, image, "YX", out, normalization=model.normalization)
            times[name].append(seconds(run))
    return times


def spread(values: list[float]) -> float:
    return round((max(values) - min(values)) / median(values), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    for dims in (2, 3):
        times = training_case(dims, arguments.steps, arguments.repeats)
        bare, ours, data = (median(times[key]) for key in ("bare", "ours", "data"))
        name = f"training {dims}D, share of a bare loop's throughput"
        rows.append({"what": name, "ratio": round(bare / ours, 3), "spread": spread(times["ours"]), "times": times})
        name = f"training {dims}D, patches and masks as a share of a step"
        rows.append({"what": name, "ratio": round(data / ours, 3), "spread": spread(times["data"]), "times": times})
    times = prediction_case(2048, arguments.repeats)
    bare, ours = median(times["bare"]), median(times["ours"])
    name = "prediction 2048², share of the bare folded network on ready tiles"
    rows.append({"what": name, "ratio": round(bare / ours, 3), "spread": spread(times["ours"]), "times": times})
    fast = median(times["openvino"])
    name = "prediction 2048² with OpenVINO, throughput over PyTorch's"
    rows.append({"what": name, "ratio": round(ours / fast, 3), "spread": spread(times["openvino"]), "times": times})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rates = [2048**2 / 1e6 / seconds for seconds in (ours, fast)]
    text = (
        f"# Speed\n\nPreset fast; medians of {arguments.repeats} interleaved repeats, spread = (max − min) / median. "
        f"Prediction runs at {rates[0]:.2f} MPix/s with PyTorch and {rates[1]:.2f} MPix/s with OpenVINO; peak memory "
        f"of the whole process {peak:.0f} MB."
    )
    record.write("speed", rows, text)


if __name__ == "__main__":
    main()
