"""Models: blocks of type 1 and 2 around any mixer, and the small language model."""

from __future__ import annotations

from coefdyn.models.blocks import Block, Masks, SwiGLU, build_mixer
from coefdyn.models.config import ModelConfig
from coefdyn.models.sequence_model import ModelState, SequenceModel, language_model_config

__all__ = [
    "Block",
    "Masks",
    "ModelConfig",
    "ModelState",
    "SequenceModel",
    "SwiGLU",
    "build_mixer",
    "language_model_config",
]
