"""Hugging Face: a model of this library as one of theirs, and a mixer in a model of theirs.

``CoefdynForCausalLM`` gives a ``SequenceModel`` configurations, checkpoints and ``generate``;
``MixerAttention`` puts a mixer in the place of an attention module. States are carried in a
``StateLayer`` of transformers' own cache, which ``generate`` reorders for beams.
"""

from __future__ import annotations

from coefdyn.versions import check_transformers

try:
    import transformers  # noqa: F401

    check_transformers("coefdyn.models.hugging_face")
except ModuleNotFoundError as missing:
    raise ImportError(
        "coefdyn.models.hugging_face needs transformers, an extra: pip install 'coefdyn[lens]' (in "
        "a checkout: pip install -e '.[lens]')."
    ) from missing

from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from coefdyn.models.hugging_face.attention import MixerAttention
from coefdyn.models.hugging_face.cache import StateLayer
from coefdyn.models.hugging_face.model import CoefdynConfig, CoefdynForCausalLM, CompleteCheckpoint

__all__ = [
    "CoefdynConfig",
    "CoefdynForCausalLM",
    "CompleteCheckpoint",
    "MixerAttention",
    "StateLayer",
]

AutoConfig.register(CoefdynConfig.model_type, CoefdynConfig, exist_ok=True)
AutoModelForCausalLM.register(CoefdynConfig, CoefdynForCausalLM, exist_ok=True)
# Trainer looks the class up here by its name: its label smoothing shifts the labels of these only.
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.update({CoefdynConfig.model_type: CoefdynForCausalLM.__name__})
