"""Networks made ready for prediction: batch norm folded, and run by the fastest engine there is."""

from __future__ import annotations

import warnings
from copy import deepcopy
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from noise2same.networks.unet import Conv, Core, Norm


def ready(network: nn.Module, device: torch.device) -> nn.Module:
    """Copy of a network for prediction on `device`; on a CPU run by OpenVINO, where that is installed and able to."""
    copy = folded(network).to(device)
    core = getattr(copy, "core", None)
    if device.type == "cpu" and isinstance(core, Core) and find_spec("openvino"):
        try:
            copy.core = OpenVINO(core)
        except Exception as error:  # of whatever kind: the network itself always works
            reason = " ".join(str(error).split())[:100]
            warnings.warn(f"OpenVINO cannot run this network ({reason}); PyTorch does, slower.", stacklevel=2)
    return copy


def folded(network: nn.Module) -> nn.Module:
    """Copy in evaluation mode, each batch norm that follows a convolution folded into its weights."""
    network = deepcopy(network).eval().requires_grad_(False)
    for sequence in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for i in range(len(sequence) - 1):
            first, second = sequence[i], sequence[i + 1]
            if isinstance(first, Conv) and isinstance(second, Norm):
                sequence[i], sequence[i + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return network


class OpenVINO(nn.Module):
    """The layers of a U-Net, compiled by OpenVINO for the CPU in full precision, for any number and size of images.

    It is converted by the library's own front end: `openvino.convert_model`, which would be shorter, tells Google
    Analytics. Its default precision is bfloat16 on processors that claim to have it, which some do in vain.
    """

    def __init__(self, core: Core) -> None:
        super().__init__()
        import openvino
        from openvino.frontend import FrontEndManager
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        first = next(module for module in core.modules() if isinstance(module, Conv))
        dims, channels = first.weight.ndim - 2, first.in_channels
        example = torch.zeros(1, channels, *(64 if dims == 2 else 32,) * dims)
        front_end = FrontEndManager().load_by_framework("pytorch")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, which the front end is built on
            traced = TorchScriptPythonDecoder(core, example_input=example)  # has to live until it is converted
        model = front_end.convert(front_end.load(traced))
        model.reshape([-1, channels, *(-1,) * dims])
        options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
        self.compiled = openvino.Core().compile_model(model, "CPU", options)

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self.compiled(x.contiguous().numpy())[0])
