"""A ``SequenceModel`` as a causal language model of transformers: configuration, model, loading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Cache, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from coefdyn.dynamics.checks import can_read
from coefdyn.models.config import ModelConfig
from coefdyn.models.hugging_face.cache import continued, layer_of
from coefdyn.models.sequence_model import SequenceModel
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["CoefdynConfig", "CoefdynForCausalLM", "CompleteCheckpoint"]


class CoefdynConfig(PreTrainedConfig):
    """Configuration of a ``CoefdynForCausalLM``; other keywords are those of ``PreTrainedConfig``.

    Args:
        model: a ``ModelConfig``, or the dict of one.
        vocab_size: number of token ids.
        length: longest input in tokens; needed for position="learned" only.
        use_cache: whether ``forward`` returns a cache where it is not told; never in training.
        tie_word_embeddings: whether the head has the weights of the embedding.
        transformers_version: the version that wrote the file, filled by ``save_pretrained``.

    Raises:
        ValueError: for an unknown key or choice of ``model``.
    """

    model_type = "coefdyn"
    keys_to_ignore_at_inference = ["cache", "past_key_values"]  # noqa: RUF012  # Trainer adds a list

    model: Any = None
    vocab_size: int = 256
    length: int | None = None
    use_cache: bool = True
    tie_word_embeddings: bool = False

    def __post_init__(self, **given: Any) -> None:
        found = ModelConfig() if self.model is None else self.model
        if not isinstance(found, ModelConfig):
            found = ModelConfig.from_dict(found)
        self.model = found.to_dict()
        super().__post_init__(**given)

    @property
    def hidden_size(self) -> int:
        """Channels between blocks, under the name of transformers."""
        return self.model["width"]

    @hidden_size.setter
    def hidden_size(self, value: int) -> None:
        self.model = {**self.model, "width": value}

    @property
    def num_hidden_layers(self) -> int:
        """Number of blocks, under the name of transformers."""
        return self.model["layers"]

    @num_hidden_layers.setter
    def num_hidden_layers(self, value: int) -> None:
        self.model = {**self.model, "layers": value}

    @property
    def num_attention_heads(self) -> int | None:
        """Heads of the first block, under the name of transformers; None for a mixer without."""
        return ModelConfig.from_dict(self.model).mixer_options().get("n_heads")

    @num_attention_heads.setter
    def num_attention_heads(self, value: int) -> None:
        own = self.model["options"]
        each = [{**one, "n_heads": value} for one in (own if isinstance(own, tuple) else (own,))]
        self.model = {**self.model, "options": tuple(each) if isinstance(own, tuple) else each[0]}


class CompleteCheckpoint:
    """Base, ahead of a model of transformers, for checkpoints that do not fit as a whole.

    transformers fills linear maps by its own rule where a checkpoint has no weights for them; a
    decay or a convolution would keep whatever the memory held. A missing weight is refused here,
    and one of another shape, where that is asked for, is drawn as the class draws it.
    """

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **given: Any) -> Any:
        """Load what ``save_pretrained`` wrote.

        Args:
            name: folder, or name on the hub.
            args, given: as in ``PreTrainedModel.from_pretrained``. With
                ``ignore_mismatched_sizes=True`` weights whose shape is another one are drawn anew;
                transformers names them in its report and in the loading info.

        Raises:
            ValueError: if a weight is missing.
            RuntimeError: if one has another shape, without ``ignore_mismatched_sizes``.
        """
        asked = given.pop("output_loading_info", False)
        model, info = super().from_pretrained(name, *args, output_loading_info=True, **given)  # type: ignore[misc]
        lost = sorted(info["missing_keys"])
        if lost:
            raise ValueError(
                f"{name} holds no weights for {', '.join(lost[:4])}{', ...' * (len(lost) > 4)} of "
                f"{cls.__name__}: load a checkpoint with the class and configuration that saved "
                "it, and replace its modules afterwards."
            )
        draw_anew(model, [str(one[0]) for one in info["mismatched_keys"]])
        return (model, info) if asked else model


@torch.no_grad()
def draw_anew(model: PreTrainedModel, names: list[str]) -> None:
    """Give these weights the values that a new model of the class has.

    Raises:
        ValueError: for one that lies on the disk.
    """
    fresh = type(model)(model.config).state_dict() if names else {}
    for name in names:
        held = model.get_parameter_or_buffer(name)
        if held.is_meta:
            raise ValueError(
                f"{name} has another shape in the checkpoint, and lies where it cannot be drawn "
                "anew: load once with device_map='cpu', and save the model."
            )
        held.copy_(fresh[name])


#: what `save_pretrained` puts beside the weights: a reader who trusts remote code needs no import
REMOTE = """from coefdyn.models.hugging_face import CoefdynConfig, CoefdynForCausalLM

__all__ = ["CoefdynConfig", "CoefdynForCausalLM"]
"""


class CoefdynForCausalLM(CompleteCheckpoint, PreTrainedModel, GenerationMixin):
    """A ``SequenceModel`` as a causal language model of transformers.

    ``model`` is the ``SequenceModel``; its weights are drawn as it draws them. ``generate`` works
    greedily, by sampling, with beams and with drafts (an assistant, prompt lookup), from prompts
    that are padded on the left. Packed documents go to ``model`` itself (``cu_seqlens``).

    Args:
        config: sizes and choices.

    Raises:
        ValueError: for options that do not fit.
    """

    config_class = CoefdynConfig
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]  # noqa: RUF012
    _tied_weights_keys = {"model.head.weight": "model.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: CoefdynConfig) -> None:
        super().__init__(config)
        own = ModelConfig.from_dict(config.model)
        self.gradient_checkpointing = False
        self.model = SequenceModel(own, vocab=config.vocab_size, length=config.length)
        self.post_init()

    def initialize_weights(self) -> None:
        """Leave the weights as ``SequenceModel`` has drawn them, or as they were loaded."""

    def get_input_embeddings(self) -> nn.Module:
        """The embedding of tokens."""
        return self.model.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the embedding of tokens.

        Args:
            value: the new one.
        """
        self.model.embedding = value

    def get_output_embeddings(self) -> nn.Module:
        """The head."""
        return self.model.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Replace the head.

        Args:
            new_embeddings: the new one.
        """
        self.model.head = new_embeddings

    def save_pretrained(self, save_directory: Any, *args: Any, **given: Any) -> Any:
        """Save configuration and weights, and the file for ``trust_remote_code=True``.

        Args:
            save_directory: folder.
            args, given: as in ``PreTrainedModel.save_pretrained``.
        """
        self.config.auto_map = {
            "AutoConfig": "modeling_coefdyn.CoefdynConfig",
            "AutoModelForCausalLM": "modeling_coefdyn.CoefdynForCausalLM",
        }
        found = super().save_pretrained(save_directory, *args, **given)
        (Path(save_directory) / "modeling_coefdyn.py").write_text(REMOTE)
        return found

    def forward(
        self,
        input_ids: Int[Tensor, "B L"] | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Float[Tensor, "B L d"] | None = None,
        labels: Int[Tensor, "B L"] | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        cache: Cache | None = None,
        logits_to_keep: int | Tensor = 0,
        **loss_options: Any,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Compute logits, the loss if labels are given, and the cache if asked.

        Args:
            input_ids: ``(B, L)``, those after the cache.
            attention_mask: ``(B, all tokens so far)``, 0 for padding, which stands on the left
                where a cache is used; None for none.
            position_ids: ``(B, L)``; they must count the tokens of a row, as the model does itself.
            past_key_values: what an earlier call returned, or an empty cache.
            inputs_embeds: ``(B, L, width)`` in place of ``input_ids``, without positions.
            labels: ``(B, L)``, usually ``input_ids``; they are shifted here, and -100 is left out.
            use_cache: whether to make a cache where none is given; as in ``config`` if None.
            output_attentions: whether to return alpha_ij / eta_i by layer, ``(B, H, L, L)``: exact,
                for linear mixers too; of the first piece of a sequence only.
            output_hidden_states: whether to return the inputs of all blocks, and of the head.
            return_dict: False for a tuple.
            cache: the name of ``past_key_values`` from transformers 5.24 on.
            logits_to_keep: compute the logits of so many last tokens, or of these; 0 for all.
            loss_options: handed to the loss, such as ``num_items_in_batch``.

        Raises:
            ValueError: for a mask, positions, a cache or tokens that do not fit.
        """
        cache = past_key_values if cache is None else cache
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both.")
        x = self.model.look_up(input_ids) if inputs_embeds is None else inputs_embeds
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache and cache is None:
            cache = Cache(layers=[])
        held = None if cache is None else layer_of(cache, 0)
        before = held.tokens if held else 0
        if attention_mask is not None:
            all_tokens = (x.shape[0], x.shape[1] + before)
            if tuple(attention_mask.shape) != all_tokens:
                raise ValueError(
                    f"attention_mask must be (B, all tokens so far), {all_tokens}, 1 for a token "
                    f"and 0 for padding, got {tuple(attention_mask.shape)}; packed documents go to "
                    "CoefdynForCausalLM.model(ids, cu_seqlens=...)."
                )
        check_positions(position_ids, x.shape[1], before, attention_mask)
        chosen = self.config.output_attentions if output_attentions is None else output_attentions
        if chosen and before:
            raise ValueError(
                "output_attentions needs all tokens of a sequence at once: no coefficient on an "
                "earlier token follows from a state. Call the model without a cache."
            )
        told = self.config.output_hidden_states
        told = told if output_hidden_states is None else output_hidden_states
        deep = self.gradient_checkpointing and self.training
        self.model.checkpointed = self._gradient_checkpointing_func if deep else None
        with seen_inputs(self.model, bool(told or chosen)) as inputs:
            hidden = continued(self.model.transform, x, held, attention_mask)
        if cache is not None:
            del cache.layers[1:]  # one state serves all layers of the model
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.model.head(hidden[:, kept])
        loss = None
        if labels is not None:
            options = {"vocab_size": self.config.vocab_size, **loss_options}
            loss = self.loss_function(logits, labels, **options)
        new = x.shape[1]
        fresh = [one if one.shape[1] == new else one[:, -new:] for one in inputs]
        fields_of = {one.name for one in fields(CausalLMOutputWithPast)}
        name = "cache" if "cache" in fields_of else "past_key_values"
        found = CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            hidden_states=(*fresh, hidden) if told else None,
            attentions=attentions(self.model, fresh, attention_mask) if chosen else None,
            **({} if cache is None else {name: cache}),
        )
        wanted = self.config.return_dict if return_dict is None else return_dict
        return found if wanted else found.to_tuple()


def attentions(
    model: SequenceModel, inputs: list[Tensor], mask: Tensor | None
) -> tuple[Float[Tensor, "B H L L"], ...]:
    """alpha_ij / eta_i of every layer, from the inputs of the blocks."""
    masks = {} if mask is None or bool((mask == 1).all()) else {"attention_mask": mask == 1}
    return tuple(
        block.mixer.dynamics(block.mixer_norm(x), **masks)[0].coefficients(normalized=True)
        for block, x in zip(model.blocks, inputs, strict=True)
    )


@contextmanager
def seen_inputs(model: SequenceModel, wanted: bool) -> Iterator[list[Tensor]]:
    """The inputs of all blocks during a call, or an empty list if they are not ``wanted``."""
    inputs: list[Tensor] = []
    blocks = model.blocks if wanted else ()
    hooks = [
        block.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        for block in blocks
    ]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def check_positions(given: Tensor | None, new: int, before: int, mask: Tensor | None) -> None:
    """Refuse positions other than the model's own, which count the real tokens of each row.

    Raises:
        ValueError: naming packed documents where positions begin anew.
    """
    if given is None or not can_read(given) or (mask is not None and not can_read(mask)):
        return
    places = given if given.ndim == 2 else given[None]
    if mask is None:
        expected = torch.arange(before, before + new, device=places.device)[None]
        real = torch.ones_like(places, dtype=torch.bool)
    else:
        real = (mask != 0)[:, -new:]
        expected = (mask != 0).cumsum(-1)[:, -new:] - 1
    if bool(((places != expected) & real).any()):
        anew = bool(((places == 0) & (expected > 0) & real).any())
        remedy = (
            "packed documents go to CoefdynForCausalLM.model(ids, cu_seqlens=...)"
            if anew
            else "leave position_ids out"
        )
        raise ValueError(
            "position_ids must count the tokens of each row, after those of the cache and without "
            f"its padding, as the model does itself: {remedy}."
        )
