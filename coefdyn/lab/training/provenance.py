"""Provenance of a number: device, versions, code revision, time."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import platform
import subprocess
from pathlib import Path

import torch

import coefdyn
from coefdyn.lab.places import checkout

__all__ = ["code_revision", "device_name", "provenance"]


@functools.cache
def code_revision() -> str:
    """Git commit of the checkout, ``+`` if modified; for an installed package its version.

    A commit is this project's only where the top folder of its repository is the checkout: an
    environment inside another project lies in that project's repository.
    """
    top, version = checkout(), f"version {coefdyn.__version__}"

    def git(*args: str) -> str:
        command = ["git", "-C", str(top), *args]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.strip()

    try:
        if top is None or Path(git("rev-parse", "--show-toplevel")).resolve() != top:
            return version
        revision = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "coefdyn")
        return revision + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return version


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def device_name(device: str | torch.device) -> str:
    """Name of the device: the GPU's, or the processor's."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({_processor()})"


@functools.cache
def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def provenance(device: str | torch.device) -> dict[str, str]:
    """Device, torch and triton versions, Python, code revision and UTC time, for one record."""
    return {
        "device": device_name(device),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "python": platform.python_version(),
        "revision": code_revision(),
        "timestamp": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
