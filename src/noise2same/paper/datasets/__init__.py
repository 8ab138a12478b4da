"""The paper's data sets, and some of the world outside it. Each is one function and one line in `DATASETS`."""

from __future__ import annotations

from collections.abc import Callable

from noise2same.paper.datasets.bsd68 import bsd68
from noise2same.paper.datasets.dataset import Dataset, Split
from noise2same.paper.datasets.fluorescence import fmd, w2s
from noise2same.paper.datasets.hanzi import hanzi
from noise2same.paper.datasets.imagenet import imagenet
from noise2same.paper.datasets.planaria import planaria, planaria_like

__all__ = ["DATASETS", "Dataset", "Split"]

DATASETS: dict[str, Callable[..., Dataset]] = {
    "bsd68": bsd68,
    "hanzi": hanzi,
    "imagenet": imagenet,
    "planaria": planaria,
    "planaria-like": planaria_like,
    "w2s": w2s,
    "fmd": fmd,
}
