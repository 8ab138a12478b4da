"""What the measured costs predict for terabytes on clusters that we do not have; docs/scaling.md explains the model."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

import record

from noise2same.prediction.predict import REGION_MEMORY


@dataclass(frozen=True)
class Cluster:
    """Workers, with what is assumed of them."""

    name: str
    workers: int
    speed: float
    """MPix/s that a worker writes, in 2D and with its halos."""
    price: float
    """US dollars for a worker and hour."""
    storage: float
    """GB/s that all workers together can read and write."""


GPU = 100.0
"""MPix/s of a data center's GPU: assumed, not measured. The default network has 24,200 multiplications and additions a
pixel, which are 5.5 Tflop/s then with halos: a few hundredths of what such a GPU is sold with."""
IN_3D = {"64×4096×4096": 0.79, "256×2048×2048": 0.66}
"""MPix/s of one core by benchmarks/memory.md."""


def measured(part: str) -> dict[str, Any]:
    """A row of the benchmark of the cluster."""
    rows = json.loads((record.HERE / "results" / "cluster.json").read_text())["rows"]
    return next(row for row in rows if row["part"] == part)


def hours(cluster: Cluster, terabytes: float, scheduler: float, halo: float, slower: float) -> tuple[float, str]:
    """Hours of a job of uint16, by what takes longest, and what that is. `slower` is how much 3D costs."""
    pixels = terabytes * 1e12 / 2
    times = {
        "computing": pixels / 1e6 / (cluster.speed / slower) / cluster.workers,
        "storage": terabytes * 1e3 * (halo + 4 / 3) / cluster.storage,  # read with halos; written with a pyramid, in 2D
        "the scheduler": pixels / (REGION_MEMORY / 2) * scheduler,
    }
    limit = max(times, key=lambda name: times[name])
    return times[limit] / 3600, limit


def main() -> None:
    row = measured("throughput")
    side, used = int(row["what"].split()[-2].rstrip("²")), row["raw"]["CPU s"]["1"]
    core = side**2 / 1e6 / sorted(used)[len(used) // 2]  # by CPU seconds, as the machine may be busy
    scheduler = float(measured("scheduler")["figure"].split()[0]) / 1e3
    halo = float(measured("halo")["figure"])
    clusters = [
        Cluster("one workstation, 16 cores, SSD", 16, core, 0.0, 2.0),
        Cluster("100 cores, shared file system", 100, core, 0.04, 5.0),
        Cluster("1,000 cores, shared file system", 1000, core, 0.04, 5.0),
        Cluster("1 GPU, SSD", 1, GPU, 2.0, 2.0),
        Cluster("8 GPUs, SSD", 8, GPU, 2.0, 2.0),
        Cluster("64 GPUs, parallel file system", 64, GPU, 2.0, 20.0),
    ]
    slower = core / IN_3D["64×4096×4096"]
    rows = []
    for cluster in clusters:
        line: dict[str, Any] = {"cluster": cluster.name}
        for terabytes in (1, 10, 100):
            taken, limit = hours(cluster, terabytes, scheduler, halo, 1.0)
            price = f", {taken * cluster.workers * cluster.price:,.0f} $" if cluster.price else ""
            line[f"{terabytes} TB"] = f"{taken:,.2f} h{price} ({limit})"
        taken, limit = hours(cluster, 1, scheduler, halo, slower)
        line["1 TB in 3D"] = f"{taken:,.2f} h ({limit})"
        rows.append(line)
    text = (
        "# What the model predicts\n\n"
        f"Measured here: {core:.2f} MPix for each second of a core in 2D (with the start of the worker), "
        f"{IN_3D['64×4096×4096']} in 3D (64×4096×4096), {1e3 * scheduler:.2f} ms a part for the scheduler, {halo:.2f} "
        f"times the pixels for halos in 2D. Assumed: {GPU:g} MPix/s a GPU in 2D, "
        "the same ratio of 2D to 3D, 0.04 $ a core and hour, 2 $ a GPU and hour, and storage of 2 GB/s (SSD), 5 GB/s "
        "(shared) or 20 GB/s (parallel). In brackets: what takes longest."
    )
    record.write("scaling_model", rows, text)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
