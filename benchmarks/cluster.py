"""What it costs to share one image among workers: throughput, halos, bytes, memory, and Dask's own scheduler.

Each part is measured by itself (`python cluster.py halo scheduler`), and keeps the rows of the others.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import record
import zarr

from noise2same import Config, Denoiser
from noise2same.errors import Cancelled
from noise2same.prediction.blend import Blend
from noise2same.prediction.cluster import connect
from noise2same.prediction.predict import Prediction
from noise2same.prediction.workers import run_on

NAME = "cluster"
Row = dict[str, Any]
SHAPES: dict[str, tuple[int, ...]] = {
    "2D, 1 GPix": (32768, 32768),
    "2D, 4 GPix": (65536, 65536),
    "2D, 16 GPix": (131072, 131072),
    "3D, 64×4096×4096": (64, 4096, 4096),
    "3D, 512×2048×2048": (512, 2048, 2048),
}
CHUNKS = {2: (1024, 1024), 3: (32, 256, 256)}
NOISE = 100, 20
"""Mean and standard deviation of the images."""


def model_of(dims: int) -> Denoiser:
    """The default network, untrained: it costs what a trained one does."""
    model = Denoiser(Config(method="projected"))
    model.axes = "ZYX"[-dims:]
    model.network = model.new_network()
    model.normalization = type(model.normalization)((float(NOISE[0]),), (float(NOISE[1]),))
    return model


def write_store(path: Path, shape: tuple[int, ...]) -> None:
    """A Zarr of uint16, each chunk of which is a link to one of eight that have noise, so that it takes no space."""
    chunks = CHUNKS[len(shape)]
    array = zarr.create_array(
        str(path), shape=shape, chunks=chunks, dtype="uint16", attributes={"axes": "ZYX"[-len(shape) :]}
    )
    few = zarr.create_array(str(path) + ".few", shape=(8, *chunks), chunks=(1, *chunks), dtype="uint16")
    few[...] = np.random.default_rng(0).normal(*NOISE, few.shape).astype(np.uint16)
    zeros = "/".join("0" * len(chunks))
    counts = [-(-n // step) for n, step in zip(shape, chunks, strict=True)]
    for number in range(math.prod(counts)):
        place = path / array.metadata.encode_chunk_key(tuple(map(int, np.unravel_index(number, counts))))
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(f"{path}.few/c/{number % 8}/{zeros}", place)


def cpu_of_children() -> float:
    """Seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def throughput(options: argparse.Namespace) -> Iterator[Row]:
    """MPix/s of one worker and of two, one thread each, without the start; several times in turn."""
    side, rates, efforts = options.side, dict[int, list[float]](), dict[int, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.zarr"
        write_store(source, (side, side))
        for _ in range(options.repeats):
            for workers in (1, 2):
                seen: list[tuple[float, float]] = []

                def on_block(done: int, total: int, seen: list[tuple[float, float]] = seen) -> None:
                    seen.append((time.perf_counter(), done / total))

                before = cpu_of_children()
                model_of(2).denoise(source, output=Path(folder) / "out.zarr", workers=workers, on_block=on_block)
                (start, first), (end, last) = seen[0], seen[-1]
                rates.setdefault(workers, []).append((last - first) * side**2 / 1e6 / (end - start))
                efforts.setdefault(workers, []).append(cpu_of_children() - before)
    pairs = [two / one for one, two in zip(rates[1], rates[2], strict=True)]
    effort = np.median(efforts[2]) / np.median(efforts[1])
    yield {
        "what": f"throughput of 2 workers / 1 worker, {side}² pixels",
        "figure": f"{np.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f})",
        "reach": "≥ 1.8",
        "more": f"{np.median(rates[1]):.2f} and {np.median(rates[2]):.2f} MPix/s; load of the machine "
        f"{os.getloadavg()[0]:.1f}; CPU seconds of 2 workers / 1 worker {effort:.2f}",
        "raw": {"MPix/s": rates, "CPU s": efforts},
    }


def halo(options: argparse.Namespace) -> Iterator[Row]:
    """Pixels computed / pixels written at the default memory, and at others."""
    for name, shape in SHAPES.items():
        dims, found = len(shape), {}
        network = model_of(dims).network
        assert network is not None
        for memory in (2**29, 2**30, 2**31, 2**32):
            out = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint16), shape, (0,) * dims)
            work = Prediction(
                network, out, "ZYX"[-dims:], Chunks(out, CHUNKS[dims]), normalization=None, memory=memory, blend=BLEND
            )
            windows = (work.grid.window(block) for part in work.parts() for block in work.blocks(part))
            found[memory] = sum(math.prod(cut.stop - cut.start for cut in one) for one in windows) / math.prod(shape)
        default = {2: 2**29, 3: 2**30}[dims]
        yield {
            "what": f"halo overhead, {name}",
            "figure": f"{found[default]:.2f}",
            "reach": "≤ 1.25" if dims == 2 else "≤ 1.6",
            "more": "with blocks of "
            + ", ".join(f"{memory / 2**30:g} GB: {value:.2f}" for memory, value in found.items()),
        }


class Chunks:
    """An array that has chunks."""

    def __init__(self, array: Any, chunks: tuple[int, ...]) -> None:
        self.shape, self.dtype, self.chunks = array.shape, array.dtype, chunks


BLEND: Any = type("", (), {"reach": staticmethod(Blend.reach)})()


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(at.stat().st_size for at in folder.rglob("*") if at.is_file())


def written(options: argparse.Namespace) -> Iterator[Row]:
    """Bytes that this process writes / bytes of the store, with a pyramid and without."""

    def count() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("wchar")))

    for levels in (1, 4):
        with tempfile.TemporaryDirectory() as folder:
            source, out = Path(folder) / "in.zarr", Path(folder) / "out.zarr"
            pixels = np.random.default_rng(0).normal(*NOISE, (4096, 4096)).astype(np.uint16)
            group = zarr.open_group(source, mode="w")
            datasets = []
            for level in range(levels):
                side = 4096 >> level
                group.create_array(str(level), data=pixels[:side, :side], chunks=(512, 512))
                scale = {"type": "scale", "scale": [2.0**level] * 2}
                datasets.append({"path": str(level), "coordinateTransformations": [scale]})
            axes = [{"name": name, "type": "space"} for name in "yx"]
            group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
            model, before = model_of(2), count()
            model.denoise(source, output=out)
            wrote = count() - before
            sizes = {level: size_of(out / str(level)) for level in range(levels)}
        yield {
            "what": f"bytes written / bytes of the output, {levels} level{'s' * (levels > 1)}",
            "figure": f"{wrote / sum(sizes.values()):.3f}",
            "reach": "1.0",
            "more": f"further levels are {1 - sizes[0] / sum(sizes.values()):.1%} of the output",
        }


def memory(options: argparse.Namespace) -> Iterator[Row]:
    """Peak memory of a worker while it denoises huge images, each for some time."""
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder, connect(workers=1) as client:
            source = Path(folder) / "in.zarr"
            write_store(source, shape)
            end, share = time.monotonic() + 60 * options.minutes, 0.0

            def on_block(done: int, total: int, end: float = end) -> bool:
                nonlocal share
                share = done / total
                return time.monotonic() > end

            ways: dict[str, Any] = {"scheduler": client.scheduler.address, "on_block": on_block}
            with suppress(Cancelled):
                model_of(len(shape)).denoise(source, output=Path(folder) / "out.zarr", **ways)
            (peak,) = client.run(peak_memory).values()
        yield {
            "what": f"peak memory of a worker, {name}",
            "figure": f"{peak:.2f} GB",
            "reach": "≤ 1.2 GB, flat within 10 %",
            "more": f"{share:.1%} of the image in {options.minutes:g} minutes; this process {peak_memory():.2f} GB",
        }


def peak_memory() -> float:
    """Of this process in GB, as Linux tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e9


def scheduler(options: argparse.Namespace) -> Iterator[Row]:
    """Time of an item that costs nothing, with two workers."""
    done = 0

    def count(items: list[Any]) -> None:
        nonlocal done
        done += len(items)

    with connect(workers=2) as client:
        start, used, before = time.perf_counter(), time.process_time(), peak_memory()
        run_on(client, abs, range(options.items), count)
        taken, used = time.perf_counter() - start, time.process_time() - used
    assert done == options.items
    yield {
        "what": f"cost of the scheduler for a block, {options.items} blocks",
        "figure": f"{1e3 * taken / options.items:.2f} ms",
        "reach": "≤ 2 ms",
        "more": f"{1e3 * used / options.items:.2f} ms of CPU in client and scheduler, which share a process; "
        f"its memory grew by {1e3 * (peak_memory() - before):.0f} MB; load of the machine {os.getloadavg()[0]:.1f}",
    }


def nap(number: int) -> int:
    """Cheap in place of a network: half a second."""
    time.sleep(0.5)
    return number


def simulation(options: argparse.Namespace) -> Iterator[Row]:
    """Many workers in one process, of which some end without a word every second, through Dask's own scheduler."""
    from distributed import Client, LocalCluster

    results: set[int] = set()
    twice = lost = 0
    cluster = LocalCluster(
        n_workers=options.workers,
        processes=False,
        threads_per_worker=1,
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    )
    with cluster, Client(cluster) as client:
        stop = threading.Event()

        def fail() -> None:
            nonlocal lost
            while not stop.wait(1.0) and lost < options.failures:
                alive = [worker for worker in cluster.workers.values() if worker.status.name == "running"]
                for worker in random.sample(alive, min(len(alive) - 1, max(1, options.failures // 20))):
                    lose = cluster.scheduler.remove_worker  # which it calls when the connection to a worker breaks
                    client.sync(lose, worker.address, stimulus_id="failure", close=True)
                    lost += 1

        def note(items: list[tuple[int, int]]) -> None:
            nonlocal twice
            for item, result in items:
                assert item == result
                twice += item in results
                results.add(item)

        thread = threading.Thread(target=fail, daemon=True)
        thread.start()
        start, used = time.perf_counter(), time.process_time()
        run_on(client, nap, range(options.naps), note)
        taken, used = time.perf_counter() - start, time.process_time() - used
        stop.set()
        thread.join()
    assert results == set(range(options.naps)) and not twice
    yield {
        "what": f"simulation: {options.workers} workers, {options.naps} blocks, {lost} workers lost",
        "figure": "all blocks done, each counted once",
        "reach": "done",
        "more": f"{taken:.0f} s; {1e3 * used / options.naps:.2f} ms of CPU for a block in one process that is client, "
        "scheduler and all workers",
    }


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "throughput": throughput,
    "halo": halo,
    "written": written,
    "memory": memory,
    "scheduler": scheduler,
    "simulation": simulation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which to measure; all by default")
    parser.add_argument("--side", type=int, default=8192, help="of the image for the throughput")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=3.0, help="after which the memory of an image is known")
    parser.add_argument("--items", type=int, default=100_000, help="for the scheduler")
    parser.add_argument("--workers", type=int, default=1000, help="of the simulation")
    parser.add_argument("--naps", type=int, default=20_000, help="of the simulation")
    parser.add_argument("--failures", type=int, default=100, help="of the simulation")
    options = parser.parse_args()
    kept = record.HERE / "results" / f"{NAME}.json"
    rows: list[Row] = json.loads(kept.read_text())["rows"] if kept.exists() and options.parts else []
    for name in options.parts or PARTS:
        rows = [row for row in rows if row["part"] != name]
        for row in PARTS[name](options):
            rows.append({"part": name, **row})
            print(rows[-1], flush=True)
    rows.sort(key=lambda row: list(PARTS).index(row["part"]))
    record.write(NAME, rows, "# One image, many workers\n\nEach part may be measured by itself, at another time.")


if __name__ == "__main__":
    main()
