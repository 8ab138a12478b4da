"""What every benchmark shares: the data, and results as JSON with where they came from, beside a rendered table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray

from noise2same.paper.datasets import DATASETS
from noise2same.paper.provenance import provenance

HERE = Path(__file__).parent
FAIR: dict[str, Any] = {"from_scratch": True, "early_stopping": False}
"""Settings for comparing methods: all start from random weights and train for the same time."""
DATA = Path(os.environ.get("NOISE2SAME_DATA", HERE.parent.parent / "shared" / "data"))
"""Folder of the data; docs/benchmarks.md says what it holds."""


def grey_images(folder: str) -> list[NDArray[np.float32]]:
    """All PNG files of a folder of the data, sorted, as float32 in 0 to 255."""
    return [imageio.imread(path).astype(np.float32) for path in sorted((DATA / folder).glob("*.png"))]


def bsd68() -> tuple[list[NDArray[np.float32]], ...]:
    """The field's usual test, noisy once: 396 training images and the 68 test images, each clean and with σ = 25."""
    dataset = DATASETS["bsd68"](DATA)
    test = dataset.test[""]
    return tuple(list(images) for images in (dataset.train.clean, dataset.train.noisy, test.clean, test.noisy))


def side_by_side(measure: Callable[[Any], Any], names: Iterable[Any]) -> list[Any]:
    """What `measure` makes of each name, in processes of their own, as many at once as there are cores.

    Each is printed when it and those before it are done. Ctrl-C ends it with those, so that it was not for nothing.
    """
    rows: list[Any] = []
    pool = ProcessPoolExecutor(os.cpu_count(), max_tasks_per_child=1)
    try:
        for row in pool.map(measure, names):
            rows.append(row)
            print(row, flush=True)
    except KeyboardInterrupt:
        print(f"Stopped after {len(rows)}.", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a table in Markdown."""
    columns = [name for name, value in rows[0].items() if not isinstance(value, dict)]  # raw times stay in the JSON
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join("–" if row[column] is None else str(row[column]) for column in columns) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def write(name: str, rows: list[dict[str, Any]], text: str, **more: Any) -> None:
    """Write results/NAME.json and NAME.md: `text`, the rows as a table, and the provenance with `more` of it."""
    source = provenance() | more
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"{name}.json").write_text(json.dumps({"provenance": source, "rows": rows}, indent=2) + "\n")
    origin = f"`{source['command']}`, commit {source['commit']}, {source['date']}, {source['machine']}."
    (HERE / f"{name}.md").write_text(f"{text}\n\n{table(rows)}\n\n{origin}\n")
    print(f"{text}\n\n{table(rows)}\n")
