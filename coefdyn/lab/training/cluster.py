"""Spread runs over a Ray cluster; Ray is an optional extra (``pip install coefdyn[ray]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.groups import fitting, grouped
from coefdyn.lab.training.loop import TrainOptions, train_group

if TYPE_CHECKING:
    from coefdyn.lab.training.runs import RunOptions, _Book

__all__ = ["train_on_ray"]


def _train_remotely(runs: list[dict[str, Any]], device: str, mode: str) -> list[dict[str, Any]]:
    configs = [RunConfig.from_dict(values) for values in runs]
    options = TrainOptions(device=device, mode=mode)
    return fitting(configs, lambda group: train_group(group, options))


def train_on_ray(missing: list[RunConfig], book: _Book, options: RunOptions) -> None:
    """Each group is one Ray task with one core, or one GPU; records are appended here as they come.

    Joins the cluster of ``RAY_ADDRESS``, or starts one on this machine.

    Raises:
        ImportError: if Ray is absent.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "executor='ray' needs Ray, which is not installed; install it with "
            "`pip install coefdyn[ray]`, or use executor='local'."
        ) from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    device = options.resolved_device()
    on_gpu = device.startswith("cuda")
    task = ray.remote(num_cpus=1, num_gpus=1 if on_gpu else 0)(_train_remotely)
    groups = grouped(missing, options.max_replicas if on_gpu else 1)
    slots = int(ray.cluster_resources().get("GPU" if on_gpu else "CPU", 1))
    waiting = list(reversed(groups))
    flying: list[Any] = []
    while waiting or flying:
        while waiting and len(flying) < slots:
            group = [config for config in waiting.pop() if book.may_start(config)]
            if group:
                flying.append(task.remote([one.to_dict() for one in group], device, options.mode))
        if not flying:
            break
        ready, flying = ray.wait(flying)
        for records in ray.get(ready):
            for record in records:
                book.add(record)
