"""Tasks: a frozen configuration each, which draws its sequences.

    from coefdyn.lab.tasks import NoisyRecallConfig, explain, splits

    config = NoisyRecallConfig.quick()
    explain(config)
    train, test = splits(config, seed=0)

The file of a task is loaded when its configuration or its name is first used. Tasks know nothing of
models. Only torch, numpy and the standard library are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use

if TYPE_CHECKING:
    from coefdyn.lab.tasks.base import (
        IGNORE,
        TASKS,
        Batch,
        Split,
        Splits,
        TaskConfig,
        config_from_dict,
        explain,
        explanation,
        get_task,
        make_config,
        register_task,
        sample,
        sample_blocks,
        split_generator,
        splits,
        task_of,
    )
    from coefdyn.lab.tasks.copying import SelectiveCopyingConfig
    from coefdyn.lab.tasks.downloads import DataUnavailableError
    from coefdyn.lab.tasks.fuzzy import FuzzyRecallConfig
    from coefdyn.lab.tasks.hub_text import ImdbConfig, WikiTextConfig, wikitext_windows
    from coefdyn.lab.tasks.keeping import (
        ForgetConfig,
        LongMemoryConfig,
        OverwriteConfig,
        PositionConfig,
    )
    from coefdyn.lab.tasks.listops import ListOpsConfig
    from coefdyn.lab.tasks.memorization import MemorizationConfig
    from coefdyn.lab.tasks.mqar import MqarConfig
    from coefdyn.lab.tasks.pixels import Cifar10Config, DigitsConfig
    from coefdyn.lab.tasks.recall import NoisyRecallConfig, RecallConfig
    from coefdyn.lab.tasks.text import (
        ByteProseConfig,
        ByteTextConfig,
        TokenProseConfig,
        TokenTextConfig,
        text_windows,
    )
    from coefdyn.lab.tasks.tracking import MajorityConfig, ParityConfig, PermutationConfig

#: name of a task in ``TASKS`` -> the module that registers it
HOMES = {
    "byte-prose": "text",
    "byte-text": "text",
    "cifar10": "pixels",
    "digits": "pixels",
    "forget": "keeping",
    "fuzzy-recall": "fuzzy",
    "imdb": "hub_text",
    "listops": "listops",
    "long-memory": "keeping",
    "majority": "tracking",
    "memorization": "memorization",
    "mqar": "mqar",
    "noisy-recall": "recall",
    "overwrite": "keeping",
    "parity": "tracking",
    "permutations": "tracking",
    "position": "keeping",
    "recall": "recall",
    "selective-copying": "copying",
    "token-prose": "text",
    "token-text": "text",
    "wikitext-103": "hub_text",
}

load_on_first_use(__name__)
