"""Tasks: what a model is asked to do, as a frozen configuration and a pure sampler.

    from coefdyn.tasks import NoisyRecallConfig, explain, splits

    config = NoisyRecallConfig.quick()
    explain(config)
    train, test = splits(config, seed=0)

Tasks know nothing of models. Only torch, numpy and the standard library are needed.
"""

from __future__ import annotations

from coefdyn.tasks.base import (
    IGNORE,
    TASKS,
    Batch,
    Split,
    Splits,
    Task,
    TaskConfig,
    config_from_dict,
    explain,
    explanation,
    get_task,
    make_config,
    sample,
    sample_blocks,
    split_generator,
    splits,
    task_of,
)
from coefdyn.tasks.compression import CompressionConfig
from coefdyn.tasks.copying import SelectiveCopyingConfig
from coefdyn.tasks.fuzzy import FuzzyRecallConfig
from coefdyn.tasks.hub_text import ImdbConfig, WikiTextConfig, wikitext_windows
from coefdyn.tasks.listops import ListOpsConfig
from coefdyn.tasks.memorization import MemorizationConfig
from coefdyn.tasks.metrics import macro_accuracy, mean_batch_macro_accuracy, micro_accuracy
from coefdyn.tasks.mqar import MqarConfig
from coefdyn.tasks.online import DataUnavailableError
from coefdyn.tasks.pixels import Cifar10Config, DigitsConfig
from coefdyn.tasks.recall import NoisyRecallConfig, RecallConfig
from coefdyn.tasks.text import ByteTextConfig, TokenTextConfig, text_windows

__all__ = [
    "IGNORE",
    "TASKS",
    "Batch",
    "ByteTextConfig",
    "Cifar10Config",
    "CompressionConfig",
    "DataUnavailableError",
    "DigitsConfig",
    "FuzzyRecallConfig",
    "ImdbConfig",
    "ListOpsConfig",
    "MemorizationConfig",
    "MqarConfig",
    "NoisyRecallConfig",
    "RecallConfig",
    "SelectiveCopyingConfig",
    "Split",
    "Splits",
    "Task",
    "TaskConfig",
    "TokenTextConfig",
    "WikiTextConfig",
    "config_from_dict",
    "explain",
    "explanation",
    "get_task",
    "macro_accuracy",
    "make_config",
    "mean_batch_macro_accuracy",
    "micro_accuracy",
    "sample",
    "sample_blocks",
    "split_generator",
    "splits",
    "task_of",
    "text_windows",
    "wikitext_windows",
]
