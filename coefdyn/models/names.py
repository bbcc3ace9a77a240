"""Mixers by name, as a configuration spells them."""

from __future__ import annotations

from inspect import isabstract

from coefdyn import mixers
from coefdyn.mixers.base import Mixer
from coefdyn.mixers.registry import REGISTERED
from coefdyn.options import did_you_mean

__all__ = ["find_mixer", "own_mixer"]


def own_mixer(name: object) -> type[Mixer] | None:
    """The library's own mixer of this name that a model can have, or None."""
    found = getattr(mixers, name) if isinstance(name, str) and name in mixers.__all__ else None
    is_mixer = isinstance(found, type) and issubclass(found, Mixer) and not isabstract(found)
    return found if is_mixer else None


def find_mixer(name: object) -> type[Mixer]:
    """The mixer of this name: one of ``coefdyn.mixers``, or one that was registered.

    Raises:
        ValueError: naming the nearest one.
    """
    registered = REGISTERED.get(name) if isinstance(name, str) else None
    if found := registered or own_mixer(name):
        return found
    own = [one for one in mixers.__all__ if own_mixer(one)]
    hint = did_you_mean(name, [*own, *REGISTERED])
    raise ValueError(
        f"no mixer is named {name!r}{hint} Names are those of the {len(own)} classes of "
        f"coefdyn.mixers ({', '.join(own[:3])}, ...), and of classes given to register_mixer."
    )
