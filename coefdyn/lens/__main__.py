"""Command line of the lens, ``python -m coefdyn.lens``: configured memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from coefdyn.lens.cache.memory import memory, memory_table

__all__ = ["main"]


def build_parser() -> argparse.ArgumentParser:
    """Build the parser with the arguments of every command."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lens", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    asked = commands.add_parser("memory", help="state, cache per token and totals of one sequence")
    asked.add_argument("configs", nargs="+", metavar="CONFIG", help="a config.json or its folder")
    asked.add_argument("--tokens", nargs="+", type=int, default=[32_768, 131_072])
    asked.add_argument("--cache-dtype", default="bfloat16", help="default: bfloat16")
    asked.add_argument("--state-dtype", default="float32", help="default: float32")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for a configuration that cannot be read."""
    asked = build_parser().parse_args(arguments)
    try:
        table = memory_table(
            [memory(path) for path in asked.configs],
            tokens=tuple(asked.tokens),
            cache_dtype=asked.cache_dtype,
            state_dtype=asked.state_dtype,
        )
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
