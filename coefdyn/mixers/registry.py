"""Mixers of one's own, known to models by name."""

from __future__ import annotations

from inspect import isabstract
from typing import TypeVar

from coefdyn.mixers.base import Mixer
from coefdyn.options import did_you_mean

__all__ = ["REGISTERED", "find_mixer", "own_mixer", "register_mixer"]

M = TypeVar("M", bound=type[Mixer])

REGISTERED: dict[str, type[Mixer]] = {}


def own_mixer(name: object) -> type[Mixer] | None:
    """The library's own mixer of this name that a model can have, or None."""
    from coefdyn import mixers  # whose list imports this module

    found = getattr(mixers, name) if name in mixers.__all__ else None
    is_mixer = isinstance(found, type) and issubclass(found, Mixer) and not isabstract(found)
    return found if is_mixer else None


def find_mixer(name: object) -> type[Mixer]:
    """The mixer of this name: one of ``coefdyn.mixers``, or one that was registered.

    Raises:
        ValueError: naming the nearest one.
    """
    from coefdyn import mixers

    registered = REGISTERED.get(name) if isinstance(name, str) else None
    if found := registered or own_mixer(name):
        return found
    own = [one for one in mixers.__all__ if own_mixer(one)]
    hint = did_you_mean(name, [*own, *REGISTERED])
    raise ValueError(
        f"no mixer is named {name!r}{hint} Names are those of the {len(own)} classes of "
        f"coefdyn.mixers ({', '.join(own[:3])}, ...), and of classes given to register_mixer."
    )


def register_mixer(mixer: M) -> M:
    """Let ``ModelConfig(mixer="Name")`` find a mixer of one's own; use it as a decorator.

    The class is known in this process only: train it with ``RunOptions(workers=1)``, or on a GPU.
    Registering a name again replaces the class, so that a notebook cell can be run twice.

    Args:
        mixer: a subclass of ``Mixer`` that takes ``d_model`` and the options by keyword.

    Raises:
        ValueError: if it is no subclass of ``Mixer``, or bears the name of one of the library's.
    """
    if not (isinstance(mixer, type) and issubclass(mixer, Mixer)):
        raise ValueError(f"register_mixer takes a subclass of Mixer, got {mixer!r}.")
    from coefdyn import mixers

    if mixer.__name__ in mixers.__all__:
        raise ValueError(
            f"{mixer.__name__!r} is a name of coefdyn.mixers; give your class another one."
        )
    REGISTERED[mixer.__name__] = mixer
    return mixer
