"""Networks prepared for inference: batch norm folded, run by the fastest engine there is."""

from __future__ import annotations

import sys
import warnings
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from noise2same.data.padding import on_multiples
from noise2same.device import lay_out
from noise2same.networks.film import Film
from noise2same.networks.separate import Separate
from noise2same.networks.unet import BlurPool, Conv, Norm, Residual, UNet


def prepare_for_inference(network: nn.Module, device: torch.device) -> nn.Module:
    """Copy of a network on `device` with batch norm folded, run by the fastest engine that can.

    An engine that fails is replaced by PyTorch, with a warning.
    """
    if isinstance(network, Separate):
        return Separate([prepare_for_inference(one, device) for one in network.networks])
    if isinstance(network, Film):
        film = lay_out(deepcopy(network).eval().requires_grad_(False), device)
        film.unet = prepare_for_inference(network.unet, device)
        return film
    copy, engine = lay_out(folded(network), device), choose_engine(device)
    if engine is None or not isinstance(copy, UNet):  # such as Laine's, which inverts matrices
        return copy
    try:
        return engine(copy)
    except Exception as error:  # of whatever kind: the network itself always works
        warn_fallback(engine.__name__, error)
        return copy


def choose_engine(device: torch.device) -> type[Half] | type[OpenVINO] | None:
    """Engine to run a U-Net with; None for PyTorch in full precision."""
    if device.type == "cuda":
        return Half
    return OpenVINO if device.type == "cpu" and find_spec("openvino") else None


def warn_fallback(engine: str, error: Exception) -> None:
    """Warn in one line that an engine failed."""
    reason = " ".join(str(error).split())[:100]
    warnings.warn(f"{engine} cannot run this network ({reason}); PyTorch does, slower.", stacklevel=3)


def folded(network: nn.Module) -> nn.Module:
    """Copy in evaluation mode, each batch norm that follows a convolution folded into its weights."""
    network = deepcopy(network).eval().requires_grad_(False)
    for sequence in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for i in range(len(sequence) - 1):
            first, second = sequence[i], sequence[i + 1]
            if isinstance(first, Conv) and isinstance(second, Norm):
                sequence[i], sequence[i + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return network


UNTOUCHED = -torch.finfo(torch.float32).max
"""Marks values of an output that are not written yet."""


class Half(nn.Module):
    """A network in mixed half precision: 11 bits a number, so that results agree to a thousandth of the range."""

    def __init__(self, network: UNet) -> None:
        super().__init__()
        self.network = network
        self.multiple, self.reach, self.values_per_pixel = network.multiple, network.reach, network.values_per_pixel

    def forward(self, x: Tensor) -> Tensor:
        """As of `UNet`."""
        with torch.autocast(x.device.type, torch.float16):
            return self.network(x).float()


class OpenVINO(nn.Module):
    """A folded U-Net whose layers are compiled for the CPU in full precision, for any number and size of images.

    Its default precision is bfloat16 on processors that claim to have it, which some do in vain. The graph is written
    down operation by operation, because `openvino.convert_model` needs a traced copy of the network.
    """

    def __init__(self, network: UNet) -> None:
        super().__init__()
        openvino = import_openvino()
        self.network = network
        self.multiple, self.reach, self.values_per_pixel = network.multiple, network.reach, network.values_per_pixel
        self.ops, self.dims = openvino.opset13, len(network.multiple)
        image = self.ops.parameter([-1, network.channels, *(-1,) * self.dims], name="image")
        model = openvino.Model([self.unet(network, image)], [image])
        options = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "ENABLE_CPU_PINNING": False,  # or several processes would share the first core
        }
        compiled = openvino_core().compile_model(model, "CPU", options)
        self.request: Any = compiled.create_infer_request()

    def __reduce__(self) -> tuple[Any, ...]:
        """What is compiled cannot be pickled: the network is compiled again where it is unpickled."""
        return OpenVINO, (self.network,)

    def forward(self, x: Tensor) -> Tensor:
        """As of `UNet`."""
        return self.network.with_base(on_multiples(self.layers, x, self.multiple), x)

    def layers(self, x: Tensor) -> Tensor:
        """As of `UNet`; raises MemoryError when memory runs out.

        OpenVINO says nothing then, and leaves in the output what was there before: here, a value that no image has. In
        2D it was found to run out for smaller inputs too once it has, so that PyTorch computes from then on. In 3D it
        goes on, and PyTorch needs more memory.
        """
        if self.request is None:
            return self.network.layers(x)
        out = torch.empty(x.shape[0], self.network.outputs, *x.shape[2:])
        ends = out.view(-1)[:: max(1, out.numel() - 1)]
        ends[:] = UNTOUCHED
        self.request.set_output_tensor(import_openvino().Tensor(out.numpy(), shared_memory=True))
        self.request.infer([x.contiguous().numpy()], share_inputs=True)
        if (ends == UNTOUCHED).any():
            self.request = None if self.dims == 2 else self.request
            raise MemoryError(f"OpenVINO ran out of memory for an input of shape {tuple(x.shape)}.")
        return out

    def unet(self, network: UNet, x: Any) -> Any:
        """Output of the layers for the input `x`, as in `UNet.layers`."""
        x = self.module(network.encoder[0], self.module(network.stem, x))
        kept = []
        for down, encode, skip in zip(network.down, network.encoder[1:], network.skips, strict=True):
            kept.append([x] if skip else [])
            x = self.module(encode, self.module(down, x))
        for up, decode in zip(reversed(network.up), reversed(network.decoder), strict=True):
            x = self.module(decode, self.ops.concat([self.module(up, x), *kept.pop()], 1))
        return self.module(network.head, x)

    def module(self, module: nn.Module, x: Any) -> Any:
        """Output of one module for the input `x`."""
        ops, dims = self.ops, self.dims
        match module:
            case nn.Sequential():
                for inner in module:
                    x = self.module(inner, x)
                return x
            case nn.Identity():
                return x
            case nn.ReLU():
                return ops.relu(x)
            case Residual():
                return ops.add(self.module(module.shortcut, x), self.module(module.branch, x))
            case nn.Conv2d() | nn.Conv3d():
                pads = list(module.padding)
                y = ops.convolution(x, as_array(module.weight), list(module.stride), pads, pads, list(module.dilation))
                return self.biased(y, module.bias)
            case nn.ConvTranspose2d() | nn.ConvTranspose3d():
                y = ops.convolution_backprop_data(x, as_array(module.weight), list(module.stride))
                return self.biased(y, module.bias)
            case nn.BatchNorm2d() | nn.BatchNorm3d():  # scale · x + shift
                values = torch.arange(2.0).reshape(2, *(1,) * (dims + 1)).expand(2, module.num_features, *(1,) * dims)
                shift, both = module(values).split(1)
                return ops.add(ops.multiply(x, as_array(both - shift)), as_array(shift))
            case nn.MaxPool2d() | nn.MaxPool3d():
                twice, none = [2] * dims, [0] * dims
                return ops.max_pool(x, twice, [1] * dims, none, none, twice).output(0)
            case BlurPool():
                none, once = [0] * dims, [1] * dims
                pad = ops.pad(x, [0, 0, *none], [0, 0, *once], "edge")
                largest = ops.max_pool(pad, once, once, none, none, [2] * dims).output(0)
                pad = ops.pad(largest, [0, 0, *once], [0, 0, *once], "edge")
                channels = largest.get_partial_shape()[1].get_length()
                kernel = as_array(module.kernel.expand(channels, *module.kernel.shape[1:]).unsqueeze(1))
                return ops.group_convolution(pad, kernel, [2] * dims, none, none, once)
        raise NotImplementedError(type(module).__name__)  # which `prepare_for_inference` answers with PyTorch

    def biased(self, x: Any, bias: Tensor | None) -> Any:
        """`x` and one value more for each channel."""
        return x if bias is None else self.ops.add(x, as_array(bias.reshape(1, -1, *(1,) * self.dims)))


@cache
def openvino_core() -> Any:
    """OpenVINO itself, once for all networks."""
    return import_openvino().Core()


def import_openvino() -> Any:
    """OpenVINO without its telemetry, which would report the import to Google Analytics and write an ID to the home.

    OpenVINO has a stub for installations that lack the package `openvino_telemetry`. This process is made to lack it.
    """
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment] # so that its import fails
    import openvino

    return openvino


def as_array(weights: Tensor) -> Any:
    """Weights as OpenVINO takes them."""
    return weights.detach().contiguous().numpy()
