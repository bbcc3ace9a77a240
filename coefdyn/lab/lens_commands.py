"""Commands of the lab that write what the chapters on other people's models show."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from coefdyn.lab import arguments as given
from coefdyn.options import check_choice

__all__ = ["COMMANDS", "add_arguments"]


def add_arguments(commands: Any) -> None:
    """Add the commands and their arguments to the lab's parser."""
    lens = commands.add_parser(
        "lens-models", help="train the small models that the lens looks into"
    )
    lens.add_argument("names", nargs="*", metavar="NAME", help="qwen3_next, mamba2; default: both")
    lens.add_argument(
        "--steps", type=given.count, help="gradient steps; default: those of the kept model"
    )
    lens.add_argument("--out", type=given.folder, metavar="DIR", help="default: data/lens")
    heads = commands.add_parser("lens-heads", help="keep heads of SmolLM2-135M (see `make lens`)")
    heads.add_argument("--out", type=given.folder, metavar="DIR", help="default: data/lens")
    heads.add_argument("--effects", action="store_true", help="the loss without each head instead")
    ablation = commands.add_parser(
        "lens-ablation", help="take heads out of the small models that the lens looks into"
    )
    ablation.add_argument(
        "--seeds", type=int, nargs="+", default=[0], help="0 is the kept model, others are trained"
    )
    ablation.add_argument("--out", type=given.folder, metavar="DIR", help="default: data/lens")


def _lens_models(parsed: argparse.Namespace) -> int:
    from coefdyn.lab.lens_models import CONFIGS, write

    for name in parsed.names or CONFIGS:
        check_choice("model", name, CONFIGS)
        config = CONFIGS[name]
        config = config if parsed.steps is None else replace(config, steps=parsed.steps)
        print(f"wrote {name} into {write(parsed.out, config)}")
    return 0


def _lens_heads(parsed: argparse.Namespace) -> int:
    from coefdyn.lab.lens_effects import write_effects
    from coefdyn.lab.lens_heads import write

    if parsed.effects:
        print(f"wrote {write_effects(parsed.out)}")
        return 0
    print(f"wrote heads of SmolLM2-135M into {write(parsed.out)}")
    return 0


def _lens_ablation(parsed: argparse.Namespace) -> int:
    from coefdyn.lab.lens_ablation import write, write_switches

    print(f"wrote {write(parsed.out, parsed.seeds)} and {write_switches(parsed.out)}")
    return 0


COMMANDS = {
    "lens-models": _lens_models,
    "lens-heads": _lens_heads,
    "lens-ablation": _lens_ablation,
}
