"""Where a run computes: device, precision, and the processes that share its work (accelerate)."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn

from noise2same.data.patches import Batch
from noise2same.device import lay_out
from noise2same.errors import InputError
from noise2same.methods import Method
from noise2same.training import launch

BFLOAT16_CAPABILITY = (8, 0)
"""NVIDIA's compute capability from which on bfloat16 is fast (Ampere)."""
LEAVE_SECONDS = 0.1
"""That gloo's threads are given to drop what they sent last; not measured, they need milliseconds."""
LOST = ("gloo", "nccl", "connection")
"""Words of torch's errors when a process does not answer; some of them are plain RuntimeErrors."""
_SETTING_UP = threading.Lock()
"""accelerate keeps its state in the class, for all threads of a process."""


class Loss(nn.Module):
    """The loss terms of a batch as one module.

    Some methods call the network twice in a step. DDP, which wraps this module, must see one forward pass.
    """

    def __init__(self, network: nn.Module, method: Method) -> None:
        super().__init__()
        self.network, self.method = network, method

    def forward(self, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Named loss terms of a batch."""
        return self.method(batch.bind(self.network), batch, generator)


@dataclass(frozen=True)
class Workers:
    """The processes that train one network together, each with patches of its own.

    Parameters
    ----------
    device : torch.device
        The one of this process.
    rank : int
        Number of this process.
    count : int
        Number of processes.
    """

    device: torch.device
    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process decides and writes."""
        return self.rank == 0

    def agree(self, values: Sequence[float]) -> list[float]:
        """The largest of all processes' values, in all of them."""
        if self.count == 1:
            return list(values)
        told = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(told, distributed.ReduceOp.MAX)
        return told.tolist()

    def gather(self, values: Tensor) -> list[Tensor]:
        """The values of each process, in all of them."""
        if self.count == 1:
            return [values]
        gathered = [torch.empty_like(values, device=self.device) for _ in range(self.count)]
        distributed.all_gather(gathered, values.to(self.device))
        return [value.to(values.device) for value in gathered]

    def agree_on(self, network: nn.Module, outcome: Any) -> Any:
        """Give a network the first process's weights, and return the first process's outcome."""
        if self.count == 1:
            return outcome
        for value in network.state_dict().values():
            told = value.detach().contiguous()
            distributed.broadcast(told, 0)
            value.copy_(told)
        outcomes = [outcome]
        distributed.broadcast_object_list(outcomes, 0, device=self.device)
        return outcomes[0]


def precision_for(
    device: torch.device, capability: tuple[int, int] | None, *, full_precision: bool
) -> Literal["bf16", "no"]:
    """What to compute a loss in, in accelerate's words: bfloat16, or 32 bits ("no" mixed precision).

    Parameters
    ----------
    device : torch.device
        Only an NVIDIA GPU computes in bfloat16; some CPUs claim to and are slower.
    capability : tuple of int, optional
        Compute capability of the GPU.
    full_precision : bool
        Whether the method needs 32 bits. A finite difference does: its response is as small as bfloat16's rounding.

    Examples
    --------
    >>> precision_for(torch.device("cuda"), (8, 6), full_precision=False)
    'bf16'
    """
    fast = device.type == "cuda" and capability is not None and capability >= BFLOAT16_CAPABILITY
    return "bf16" if fast and not full_precision else "no"


def place(network: nn.Module, method: Method, device: torch.device) -> tuple[nn.Module, Workers]:
    """Move a network to its device and wrap its loss for the precision and the processes of the run.

    Processes are those that torchrun started (`training.launch`); without it there is one. Each then has a device of
    its own of the kind asked for.

    Returns
    -------
    loss : Module
        Called with a batch and a generator, returns the loss terms.
    workers : Workers
        The processes.
    """
    from accelerate import Accelerator  # not at the top: it takes time to import
    from accelerate.state import AcceleratorState

    if device.type == "cuda" and launch.local_rank() >= torch.cuda.device_count():
        raise InputError(
            f"There are {torch.cuda.device_count()} GPU(s) for {launch.local_rank() + 1} processes on this machine, "
            "and each needs its own: start fewer, or use --device cpu."
        )
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    precision = precision_for(device, capability, full_precision=method.full_precision)
    with _SETTING_UP, _environment_restored():
        try:
            accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision=precision, device_placement=False)
            if accelerator.num_processes > 1:
                if device.type != "cpu":  # for which accelerate has a number, which torch.load does not know
                    device = accelerator.device
                atexit.register(_leave)
            workers = Workers(device, accelerator.process_index, accelerator.num_processes)
            loss = accelerator.prepare_model(Loss(lay_out(network, device), method))
            if isinstance(loss, nn.parallel.DistributedDataParallel):
                loss.broadcast_buffers = False  # those of batch norm are the same in all processes
        except (RuntimeError, ValueError) as error:
            if not launch.is_worker():
                raise
            reason = " ".join(str(error).split())[:100]
            raise InputError(f"The processes did not find each other ({reason}): start all of them again.") from error
        finally:
            AcceleratorState._reset_state(reset_partial_state=True)  # the next run may need another precision
    return loss, workers


def lost_process(error: BaseException) -> bool:
    """Whether an error says that another process of the training cannot be reached."""
    if not (launch.is_worker() and isinstance(error, RuntimeError)):
        return False
    return isinstance(error, distributed.DistError) or any(word in str(error).lower() for word in LOST)


@contextmanager
def tf32_allowed() -> Iterator[None]:
    """Let a GPU multiply in TF32 for the time of a training: the setting is that of the whole process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _leave() -> None:
    """Tell the other processes that this one ends, which a GPU's would miss.

    gloo's threads need Python's lock to drop the tensors of the last broadcast. One that asks for it while Python ends
    aborts the process (pytorch/pytorch#179291), and DDP keeps these threads alive when the group is destroyed.
    """
    if distributed.is_initialized():
        time.sleep(LEAVE_SECONDS)  # lets go of the lock
        distributed.destroy_process_group()


@contextmanager
def _environment_restored() -> Iterator[None]:
    """Take variables out of the environment that accelerate has put there."""
    before = set(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - before:
            del os.environ[name]
