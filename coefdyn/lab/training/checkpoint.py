"""Checkpoints as safetensors files: tensors and strings, nothing that runs on loading."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from coefdyn.shapes import Tensor

if TYPE_CHECKING:
    from coefdyn.lab.training.loop import _Run

__all__ = ["load_checkpoint", "load_run", "require_safetensors", "save_checkpoint", "save_run"]

_MISSING = (
    "checkpoints need the package safetensors, which is not installed; "
    "install it with `pip install 'coefdyn[checkpoints]'`, or train without checkpoints."
)


def require_safetensors() -> None:
    """Raise ``ImportError`` with the remedy where safetensors is absent."""
    if importlib.util.find_spec("safetensors") is None:
        raise ImportError(_MISSING)


def save_checkpoint(
    path: str | os.PathLike[str], tensors: dict[str, Tensor], notes: dict[str, str]
) -> None:
    """Write tensors and notes to ``path``, replacing an older file only when complete.

    Raises:
        ImportError: if safetensors is absent.
    """
    require_safetensors()
    from safetensors.torch import save_file

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(held, part, metadata=notes)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors (on the CPU) and notes of ``path``.

    Raises:
        ImportError: if safetensors is absent.
        ValueError: if it is a folder, or no safetensors file.
    """
    require_safetensors()
    from safetensors import SafetensorError, safe_open

    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder; a checkpoint is a file. Name another path.")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a readable safetensors file ({error}); delete it to start afresh."
        ) from error


def save_run(path: Path, run: _Run, done: int) -> None:
    """Write everything that the steps of a run have changed.

    Args:
        path: the file.
        run: the run.
        done: how many steps it has done.
    """
    tensors = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    for index, state in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
    lists = {"losses": run.meter.losses, "norms": run.meter.norms}
    lists |= {f"curve.{name}": values for name, values in run.curve.items()}
    tensors |= {name: torch.tensor(one, dtype=torch.float64) for name, one in lists.items()}
    notes = {"step": done, "run": run.config.key, "diverged_at": run.diverged_at}
    notes |= {"curves": list(run.curve)}
    save_checkpoint(path, tensors, {"state": json.dumps(notes)})


def load_run(path: Path, run: _Run) -> int:
    """Restore a new run to the state that ``save_run`` wrote; returns the number of steps done.

    Raises:
        ValueError: if the file is damaged or holds another run; it is left as it is.
    """
    tensors, notes = load_checkpoint(path)
    try:
        state = json.loads(notes["state"])
        if state["run"] == run.config.key:
            return _restored(tensors, state, run)
    except (KeyError, IndexError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            f"the checkpoint {path} is damaged or was written by other code ({error!r}); "
            "delete it to start this run afresh."
        ) from error
    raise ValueError(
        f"the checkpoint {path} holds the run {state['run']} and not {run.config.key}, which is to "
        "be trained; finish that run first, or delete the file."
    )


#: state of torch's AdamW for a parameter
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def _restored(tensors: dict[str, Tensor], state: dict[str, Any], run: _Run) -> int:
    """Copy a checkpoint's numbers into a run; returns the number of steps done."""

    def below(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    run.model.load_state_dict(below("model."))
    parameters = [one for group in run.optimizer.param_groups for one in group["params"]]
    kept: dict[int, dict[str, Tensor]] = {}
    for name, tensor in below("optimizer.").items():
        number, _, moment = name.partition(".")
        kept.setdefault(int(number), {})[moment] = tensor
    for index, moments in kept.items():
        first, second, _ = (moments[name] for name in _MOMENTS)
        if not first.shape == second.shape == parameters[index].shape:
            raise ValueError(f"moments of parameter {index} have another shape")
    run.optimizer.load_state_dict({**run.optimizer.state_dict(), "state": kept})
    run.meter.losses, run.meter.norms = tensors["losses"].tolist(), tensors["norms"].tolist()
    run.curve = {name: tensors[f"curve.{name}"].tolist() for name in state["curves"]}
    run.diverged_at = state["diverged_at"]
    return int(state["step"])
