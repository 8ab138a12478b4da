"""`noise2same plan`."""

from __future__ import annotations

from noise2same.cli._options import Axes, Inputs, Json, Target, TrainingOptions, expand_options
from noise2same.cli._terminal import print_plan


@expand_options
def plan(
    inputs: Inputs,
    target: Target = None,
    axes: Axes = None,
    *,
    training: TrainingOptions,
    as_json: Json = False,
) -> None:
    """Show what training on these images would do, and why; nothing is trained.

    With --json, the plan alone goes to stdout. Kept in a file, --plan of denoise and train repeats it.
    """
    from noise2same import api, io

    decided = api.plan(list(io.find(inputs)), axes, target=target, **training.given())
    if as_json:
        print(decided.model_dump_json(indent=2))
    else:
        print_plan(decided)
