"""Mixers of one's own, known to models by name."""

from __future__ import annotations

from typing import TypeVar

from coefdyn.mixers.base import Mixer

__all__ = ["REGISTERED", "TAKEN", "register_mixer"]

M = TypeVar("M", bound=type[Mixer])

REGISTERED: dict[str, type[Mixer]] = {}
#: names of ``coefdyn.mixers``, which fills this in
TAKEN: set[str] = set()


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
    if mixer.__name__ in TAKEN:
        raise ValueError(
            f"{mixer.__name__!r} is a name of coefdyn.mixers; give your class another one."
        )
    REGISTERED[mixer.__name__] = mixer
    return mixer
