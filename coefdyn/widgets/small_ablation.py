"""A smaller figure whose buttons switch heads of a trained model off, from kept answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from coefdyn.widgets.settings import check_name, check_whole
from coefdyn.widgets.small import SmallFigure

__all__ = ["AblationView"]


class AblationView(SmallFigure):
    """Answers of a model to the questions of one story, with any of its heads switched off.

    Args:
        kept: ``story``; ``questions``, each with ``who`` is asked for and the ``right`` answer; and
            ``models``, each with its ``label``, its ``heads`` (layer and number), and three lists
            of 2^heads entries, of which entry m is without the heads in m's bits: ``answers`` to
            the questions, ``shares`` of probability on the right ones, ``accuracy`` on new stories.
            ``data/lens/facts_switches.json`` of the repository is one.
        model: the one of ``models`` that is shown first; "" for the first.
        off: bits of the heads that are switched off at first.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for lists of another length, an unknown model, or bits that are no head's.
    """

    _figure = "ablation"
    kept = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        kept: Mapping[str, Any],
        *,
        model: str = "",
        off: int = 0,
        controls: Sequence[str] = (),
        caption: str = "",
    ) -> None:
        named = ("story", "questions", "models")
        if missing := [key for key in named if not kept.get(key)]:
            raise ValueError(f"kept needs {', '.join(named)}; {missing[0]} is missing.")
        for name, one in kept["models"].items():
            sets = 2 ** len(one["heads"])
            for key in ("answers", "shares", "accuracy"):
                if len(one[key]) != sets:
                    raise ValueError(
                        f"{name} has {len(one['heads'])} heads, so {key} needs an entry for each "
                        f"of the {sets} sets of them, got {len(one[key])}."
                    )
        self._models = {name: len(one["heads"]) for name, one in kept["models"].items()}
        self._choices = {"model": tuple(self._models)}  # type: ignore[misc]
        super().__init__(
            controls=controls, caption=caption, model=model or next(iter(self._models)), off=off
        )
        self.kept = {key: kept[key] for key in named}

    @traitlets.validate("settings")
    def _check(self, proposal: traitlets.Bunch) -> dict[str, Any]:
        settings = {**self.settings, **proposal["value"]}
        for key in settings:
            check_name("setting", key, ("model", "off"))
        check_name("model", settings["model"], tuple(self._models))
        check_whole("off", settings["off"], 0, 2 ** self._models[settings["model"]] - 1)
        return settings

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AblationView:
        """The figure that a saved page or notebook holds, from its synced traits."""
        shown = {"controls": state.get("controls", []), "caption": state.get("caption", "")}
        return cls(state["kept"], **shown, **state["settings"])

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        off = self.settings["off"]
        kept = self.kept["models"][self.settings["model"]]
        out = [f"layer {a}, head {b}" for m, (a, b) in enumerate(kept["heads"]) if off >> m & 1]
        said = ", ".join(
            f"{asked['who']} in ? {answer}"
            for asked, answer in zip(self.kept["questions"], kept["answers"][off], strict=True)
        )
        return (
            f"{kept['label']}, {'without ' + '; '.join(out) if out else 'as it is'}: {said}. On "
            f"new stories {kept['accuracy'][off]:.3f} of the answers are right."
        )
