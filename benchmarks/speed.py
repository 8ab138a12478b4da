"""How fast it is: against CAREamics, against bare PyTorch and against the machine, interleaved in one run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import chain
from statistics import median
from typing import Any

import numpy as np
import plots
import record
import scaling
import timing
import torch
from careamics_peer import PATCH, Peer
from torch.utils.flop_counter import FlopCounterMode

from noise2same import Config, Denoiser
from noise2same.config import batch_of
from noise2same.data.patches import Patches
from noise2same.device import lay_out
from noise2same.methods import DataProfile
from noise2same.methods.base import mean_square
from noise2same.methods.masking import FILLS, stratified
from noise2same.methods.projected import Projected
from noise2same.noise.model import NoiseModel
from noise2same.plan import LEARNING_RATE, PATCHES, RECIPES, Recipe, architecture_of
from noise2same.prediction.engines import OpenVINO, folded
from noise2same.prediction.predict import predict
from noise2same.training.loop import fit

Row = dict[str, Any]
PEER_FEATURES = 32
"""Features of CAREamics' default network, which also is as deep as ours."""
CPU = torch.device("cpu")


def untrained(dims: int, features: int, **options: Any) -> Denoiser:
    model = Denoiser(Config.of(features=features, **options))
    model.axes = "ZYX"[3 - dims :]
    return model


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def prediction_rows(shape: tuple[int, ...], features: int, repeats: int, peer: Peer | None) -> list[Row]:
    """Throughput of both engines, beside CAREamics' if it is there, or else the bare network's on tiles that are ready.

    Warm: networks are built, and have predicted the image once.
    """
    model = untrained(len(shape), features)
    network, image, out = lay_out(folded(model.new_network()), CPU), noise(*shape), np.empty(shape, np.float32)
    batches: list[torch.Tensor] = []

    def ours(engine: torch.nn.Module) -> float:
        run = partial(predict, engine, image, model.axes, out, normalization=model.normalization)
        return timing.seconds(run)

    @torch.inference_mode()
    def bare() -> None:
        for batch in batches:
            network(batch)

    hook = network.register_forward_pre_hook(lambda _, inputs: batches.append(inputs[0].clone()))
    with hook, FlopCounterMode(display=False) as counter:
        ours(network)
    compiled = OpenVINO(network)
    ours(compiled)
    names = [f"{timing.OURS}, OpenVINO", f"{timing.OURS}, PyTorch"]
    run = (counter.get_total_flops(), sum(batch.numel() for batch in batches))
    tiles: dict[str, tuple[float, int]] = dict.fromkeys(names, run)
    works: dict[str, Callable[[], float]] = {names[0]: partial(ours, compiled), names[1]: partial(ours, network)}
    if peer is None:
        works["the bare network"] = partial(timing.seconds, bare)
    else:
        peer.train("N2V", [image], steps=1)
        answer, best = peer.best_tiles("N2V", image)
        tiles["CAREamics N2V"] = (answer["flops"], answer["pixels"])
        works["CAREamics N2V"] = lambda: peer.predict("N2V", image, best)["seconds"]
    case = f"prediction of {'×'.join(map(str, shape))}, {features} features"
    return timing.throughputs(case, image.size, timing.interleaved(works, repeats), tiles)


def training_rows(image: torch.Tensor, features: int, steps: int, repeats: int, peer: Peer | None) -> list[Row]:
    """Throughput of our training, of a bare loop of the same two passes on tensors that are ready, of CAREamics'."""
    dims = image.ndim - 2
    model = untrained(dims, features, method="projected")
    config, settings = model.config, Projected.Settings()
    batch = batch_of(PATCHES // Projected.passes, config, dims)
    patches = Patches([image], patch=config.patch_of(dims), batch=batch)
    recipe = Recipe(
        steps=steps,
        minutes=None,
        learning_rate=LEARNING_RATE,
        early_stopping=False,
        pretrained=False,
        seed=0,
        **RECIPES["fast"],
    )
    generator = torch.Generator().manual_seed(0)

    def data_path() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = patches.draw(generator).x
        j = stratified(x.shape, settings.mask_density, generator)
        return x, FILLS["donut"](x, j, generator), j

    def bare() -> None:
        network = lay_out(model.new_network(), CPU)
        optimizer = torch.optim.Adam(network.parameters(), fused=True)
        for _ in range(steps):
            f_x, f_masked = network(torch.cat([x, masked])).chunk(2)
            loss = mean_square(f_x - x, None) + mean_square(f_x - f_masked, j)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def ours() -> float:
        profile = DataProfile(dims, 1, noise=NoiseModel(a=(0.0,), b=(0.25,), mean=(0.0,), std=(1.0,)))
        method = Projected(settings, profile, architecture_of(config))
        return fit(model.new_network(), method, patches, recipe, held_out=None, device=CPU).seconds / steps

    def careamics(n2v2: bool) -> float:
        assert peer is not None
        name = "N2V2" if n2v2 else "N2V"
        return float(peer.train(name, [image[0, 0].numpy()], n2v2=n2v2, steps=steps)["seconds a step"])

    x, masked, j = data_path()
    share = "patches and masks"
    works: dict[str, Callable[[], float]] = {
        timing.OURS: ours,
        "a bare loop": lambda: timing.seconds(bare) / steps,
        share: lambda: timing.seconds(lambda: [data_path() for _ in range(20)]) / 20,
    }
    if peer is not None:
        works["CAREamics N2V"] = partial(careamics, n2v2=False)
        works |= {"CAREamics N2V2": partial(careamics, n2v2=True)} if dims == 2 else {}
    times = timing.interleaved(works, repeats)
    data = times.pop(share)
    case = f"training in {dims}D, {features} features"
    rows = timing.throughputs(case, x.numel() + masked.numel(), times)
    part = 100 * median(data) / median(times[timing.OURS])
    return [*rows, timing.row(case, share, part, "% of a step", {}, data)]


def ceiling_row(rows: list[Row]) -> Row:
    """The machine's best, from all the moments at which it was measured; it goes first."""
    found = {one["raw"]["case"]: one["raw"]["ceiling"] for one in rows if "ceiling" in one["raw"]}
    values = list(chain(*found.values()))
    return timing.row("machine", timing.CEILING, median(values), "GFLOP/s", {}, values)


def sizes_text(peer: Peer) -> str:
    """Parameters of the networks that are compared."""
    counts = []
    for dims, images in ((2, noise(256, 256)), (3, noise(16, 128, 128))):
        network = untrained(dims, PEER_FEATURES).new_network()
        own = sum(weights.numel() for weights in network.parameters())
        counts.append(f"{own:,} and {peer.train('N2V', [images], steps=1)['parameters']:,} in {dims}D")
    return f"Parameters of our network and of CAREamics': {', '.join(counts)}."


def measure(
    repeats: int,
    gigapixel: int | None,
    steps: int = 30,
    side: int = 2048,
    volume: tuple[int, int, int] = (50, 256, 256),
    sides: tuple[int, ...] = (1024, scaling.REFERENCE, 4096, 8192),
) -> None:
    """Measure everything and write it; the sizes are arguments for the sake of trying the script out."""
    rows: list[Row] = []
    fast = Config().features
    plane, block = torch.from_numpy(noise(1, 1, side, side)), torch.from_numpy(noise(1, 1, 64, *volume[1:]))
    with Peer() as peer:
        versions = peer.ask("versions")
        sizes = sizes_text(peer)
        rows += training_rows(plane, PEER_FEATURES, steps, repeats, peer)
        rows += prediction_rows((side, side), PEER_FEATURES, repeats, peer)
        rows += training_rows(block, PEER_FEATURES, steps, repeats, peer)
        rows += prediction_rows(volume, PEER_FEATURES, repeats, peer)
    rows += training_rows(plane, fast, steps, repeats, None)
    rows += prediction_rows((side, side), fast, repeats, None)
    rows.insert(0, ceiling_row(rows))
    rows += scaling.cost_rows(sides, repeats, gigapixel)
    rows += scaling.startup_rows(repeats)
    patches = " and ".join(f"{batch} patches of {'×'.join(map(str, patch))}" for patch, batch in PATCH.values())
    text = (
        f"# Speed\n\nMedians of {repeats} interleaved repeats on {torch.get_num_threads()} threads; spread is "
        f"(max − min) / median. CAREamics {versions['careamics']} runs on PyTorch {versions['torch']}, ours on "
        f"{torch.__version__}. {sizes} Training has {patches} a step, of which "
        "our loss (projected) has half as many, masked twice; pixels are counted as often as they pass the network. "
        "CAREamics predicts with the tiles that were fastest for it. "
        "The ceiling is the best that PyTorch gets out of the machine in a large matrix product or "
        "convolution; shares of it count the work of all tiles, overlaps included. The cost of prediction is that of "
        "the fast preset, from uint8 to uint8. "
        f"{timing.verdict(rows)}"
    )
    record.write("speed", rows, text, peer=versions)
    plots.speed(rows, record.HERE / "results" / "speed.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--gigapixel", action="store_true", help="also denoise a gigapixel on disk (six minutes)")
    arguments = parser.parse_args()
    measure(arguments.repeats, scaling.GIGAPIXEL if arguments.gigapixel else None)


if __name__ == "__main__":
    main()
