"""Checkpoints as safetensors files: tensors and strings, nothing that runs on loading."""

from __future__ import annotations

import importlib.util
import os
import secrets
from pathlib import Path

from coefdyn.shapes import Tensor

__all__ = ["checkpoint_path", "load_checkpoint", "require_safetensors", "save_checkpoint"]

_MISSING = (
    "checkpoints need the package safetensors, which is not installed; "
    "install it with `pip install 'coefdyn[checkpoints]'`, or train without checkpoints."
)


def checkpoint_path(folder: Path | None, key: str) -> Path | None:
    """Path of a run's checkpoint, if there is a folder for it."""
    return None if folder is None else folder / f"{key}.safetensors"


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
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # machines share folders
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
