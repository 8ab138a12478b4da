"""Several processes have the loss, the gradients and the batch statistics of one process with all of their patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, multiprocessing, nn

from noise2same import ranks
from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.methods import DataProfile, Method, find, masked, masking, settings_of, sure
from noise2same.noise.model import NoiseModel
from noise2same.training.placement import Loss

PARTS = [(0, 3), (3, 4)]
"""Which patches of the global batch each process has; not equally many."""
NOISE = NoiseModel.gaussian(0.5, 0.8)
CASES: dict[str, dict[str, Any]] = {
    "noise2same": {"lambda_inv": "auto"},
    "noise2same, paper": {"lambda_inv": 2.0, "separate_passes": True},
    "noise2same, 3D": {},
    "projected": {},
    "sure": {},
    "noise2self": {"fill": "donut"},
    "noise2true": {},
    "laine": {"noise_model": "gaussian"},
}


def global_batch(dims: int) -> Batch:
    """Four patches of two channels, brighter and with more pixels that do not count from one to the next."""
    generator = torch.Generator().manual_seed(1)
    shape = (4, 2, *(16,) * dims)
    grow = torch.arange(1.0, 5.0).reshape(-1, *[1] * (dims + 1))
    x = (torch.randn(shape, generator=generator) * grow + grow).double()
    valid = torch.rand(shape, generator=generator) > 0.1 * grow
    return Batch(x, target=0.8 * x, valid=valid)


def part_of(batch: Batch, start: int, stop: int) -> Batch:
    return Batch(*(None if value is None else value[start:stop] for value in batch))


def cut_draws(start: int, stop: int, patch: pytest.MonkeyPatch) -> None:
    """Let masks and perturbations be drawn for the global batch, and be cut to the patches of this process."""

    def cut(values: torch.Tensor) -> torch.Tensor:
        return values.unflatten(0, (-1, 4))[:, start:stop].flatten(0, 1)

    def whole(shape: Any) -> tuple[int, ...]:
        return (4 * shape[0] // (stop - start), *shape[1:])

    stratified, perturb = masking.stratified, sure.perturb

    def cut_mask(shape: Any, density: float, generator: torch.Generator) -> torch.Tensor:
        return cut(stratified(whole(shape), density, generator))

    def cut_change(variance: Any, correlation: Any, valid: Any, generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
        unit = torch.full(whole(variance.shape), 1.0, dtype=variance.dtype)
        sign = cut(perturb(unit, correlation, None, generator)[0])
        change = sign * variance.sqrt() * (1 if valid is None else valid)
        return change, change

    patch.setattr(masking, "stratified", cut_mask)
    patch.setattr(masked, "stratified", cut_mask)
    patch.setattr(sure, "perturb", cut_change)


def network_and_loss(case: str) -> tuple[nn.Module, Method, int]:
    name, _, kind = case.partition(", ")
    dims = 3 if kind == "3D" else 2
    method = find(name)
    assert issubclass(method, Method)
    config = Config.of(
        method=name, features=4, levels=2, block="residual" if kind == "paper" else "plain", **CASES[case]
    )
    made = method(settings_of(method, config), DataProfile(dims, 2, NOISE))
    torch.manual_seed(0)
    return made.network().double(), made, dims


def step(case: str, part: tuple[int, int], *, together: bool) -> dict[str, torch.Tensor]:
    """Terms, gradients and buffers after one loss of this process's patches, in 64 bits."""
    network, method, dims = network_and_loss(case)
    with pytest.MonkeyPatch.context() as patch:
        cut_draws(*part, patch)
        loss: nn.Module = Loss(network.train(), method)
        if together:
            loss = nn.parallel.DistributedDataParallel(loss, broadcast_buffers=False)
        terms = loss(part_of(global_batch(dims), *part), torch.Generator().manual_seed(5))
        torch.stack(list(terms.values())).sum().backward()
    gradients = {name: value.grad for name, value in network.named_parameters() if value.grad is not None}
    return {
        **{f"term {name}": value.detach() for name, value in terms.items()},
        **gradients,
        **dict(network.named_buffers()),
    }


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save({case: step(case, PARTS[rank], together=True) for case in CASES}, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, torch.Tensor]]]:
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(work, (str(folder),), nprocs=2)
    return [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_are_one_with_the_global_batch(together, case):
    assert not ranks.several()
    alone = step(case, (0, 4), together=False)
    for found in together:
        assert found[case].keys() == alone.keys()
        for name, value in alone.items():
            torch.testing.assert_close(found[case][name], value, rtol=1e-6, atol=1e-9)
