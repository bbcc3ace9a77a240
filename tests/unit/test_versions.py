"""A package that is too old is named before it leaves layers out."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from coefdyn import versions

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("found", ["5.20", "5.20.1", "5.23.0", "6.0.0.dev0", None])
def test_versions_from_the_oldest_on_pass(found: str | None, monkeypatch) -> None:
    def version(name: str) -> str:
        if found is None:
            raise versions.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(versions, "version", version)
    versions.check_transformers("anything")


def test_the_oldest_is_that_of_the_extra() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert f"transformers>={versions.TRANSFORMERS},<6" in extras["optional-dependencies"]["lens"]
