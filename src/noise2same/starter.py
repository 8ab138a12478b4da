"""The starter networks: trained on other pictures with noise of many kinds, so that nobody begins with random weights.

`starter/make.py` in the repository made them. They are ordinary models.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from torch import nn

from noise2same.model_file import read_model
from noise2same.networks.unet import UNet

NAMES = {1: "grey", 3: "colour"}
"""By the number of channels."""


def begin(network: nn.Module) -> bool:
    """Give a new network the weights of the starter with its layers, if there is one; whether there is."""
    if not isinstance(network, UNet) or len(network.multiple) != 2 or network.channels not in NAMES:
        return False
    with as_file(files("noise2same") / "starters" / f"{NAMES[network.channels]}.safetensors") as path:
        _, weights = read_model(path)
    own = network.state_dict()
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in weights.items()}:
        return False
    network.load_state_dict(weights)
    return True
