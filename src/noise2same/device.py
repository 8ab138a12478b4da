"""Which processor to use: CUDA, then Apple's GPU, then the CPU."""

from __future__ import annotations

import torch
from torch import nn

from noise2same.errors import InputError

Device = str | torch.device | None
"""Name of a device such as "cuda:1" or "cpu"; None for the fastest there is."""


def pick(device: Device = None) -> torch.device:
    """The device of a name, or the fastest there is.

    Raises InputError for a name that torch does not know, or a device that is not there.
    """
    if device is not None:
        try:
            chosen = torch.device(device)
            torch.empty(1, device=chosen)
        except (RuntimeError, AssertionError, ValueError) as error:
            reason = " ".join(str(error).split())[:100]
            raise InputError(f"The device '{device}' cannot be used ({reason}); use cpu, or leave it out.") from None
        return chosen
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def lay_out(network: nn.Module, device: torch.device) -> nn.Module:
    """Move a network to `device`, its weights channels-last there as the images are, but on an Apple GPU.

    Otherwise each pass converts them, which makes training and prediction slower.
    """
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory = formats.get(max((weights.ndim for weights in network.parameters()), default=0))
    if device.type != "mps" and memory is not None:
        network.to(memory_format=memory)  # type: ignore[call-overload] # its stubs want a device too
    return network.to(device)


def describe(device: torch.device) -> str:
    """Name `device` for a person."""
    if device.type == "cuda":
        return f"the GPU ({torch.cuda.get_device_name(device)})"
    if device.type == "mps":
        return "the Apple GPU"
    threads = torch.get_num_threads()
    return f"the CPU ({threads} thread{'s' * (threads > 1)}; no GPU found)"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` is any device's way of saying that its memory is full."""
    full = (
        "out of memory",
        "can't allocate memory",
        "not enough memory",
        "bad_alloc",  # this and the following are of OpenVINO
        "bad allocation",
        "failed to allocate",
        "could not create a memory object",
        "could not create a primitive",  # of oneDNN, whose code did not fit
    )
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error).lower() for words in full)
    )
