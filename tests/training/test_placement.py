"""What a run computes in, and that it tidies up after itself."""

from __future__ import annotations

import pytest
import torch
from runs import CPU, method_of, run

from noise2same.methods.laine import Laine
from noise2same.methods.masked import Noise2Self
from noise2same.methods.noise2same import Noise2Same
from noise2same.methods.projected import Projected
from noise2same.methods.sure import Sure
from noise2same.training.placement import precision_for

CUDA = torch.device("cuda")


@pytest.mark.parametrize(
    ("device", "capability", "full_precision", "expected"),
    [
        (CUDA, (8, 0), False, "bf16"),
        (CUDA, (9, 0), False, "bf16"),
        (CUDA, (7, 5), False, "no"),
        (CUDA, (9, 0), True, "no"),
        (CPU, None, False, "no"),
        (torch.device("mps"), None, False, "no"),
    ],
)
def test_the_choice_of_precision(device, capability, full_precision, expected):
    assert precision_for(device, capability, full_precision=full_precision) == expected


def test_losses_of_finite_differences_and_inverses_need_full_precision():
    assert method_of(Sure).full_precision and method_of(Laine).full_precision
    assert not any(method_of(kind).full_precision for kind in (Noise2Same, Projected, Noise2Self))


def test_a_run_computes_its_loss_in_32_bits_on_a_cpu():
    kinds = set()

    class Looking(Noise2Same):
        def __call__(self, network, batch, generator):
            terms = super().__call__(network, batch, generator)
            kinds.update((value.dtype, torch.is_autocast_enabled("cpu")) for value in terms.values())
            return terms

    run(method_of(Looking))
    assert kinds == {(torch.float32, False)}
