"""A ``SequenceModel`` as a causal language model of transformers: configuration, model, loading."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import nn
from transformers import Cache, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from coefdyn.models.config import ModelConfig
from coefdyn.models.hugging_face.cache import continued, layer_of
from coefdyn.models.sequence_model import SequenceModel
from coefdyn.shapes import Int, Tensor

__all__ = ["CoefdynConfig", "CoefdynForCausalLM", "CompleteCheckpoint"]


class CoefdynConfig(PreTrainedConfig):
    """Configuration of a ``CoefdynForCausalLM``; other keywords are those of ``PreTrainedConfig``.

    Args:
        model: a ``ModelConfig``, or the dict of one.
        vocab_size: number of token ids.
        length: longest input in tokens; needed for position="learned" only.
        use_cache: whether ``forward`` returns a cache where it is not told; never in training.
        transformers_version: the version that wrote the file, filled by ``save_pretrained``.

    Raises:
        ValueError: for an unknown key or choice of ``model``.
    """

    model_type = "coefdyn"
    keys_to_ignore_at_inference = ("cache", "past_key_values")

    model: Any = None
    vocab_size: int = 256
    length: int | None = None
    use_cache: bool = True

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

    @property
    def num_hidden_layers(self) -> int:
        """Number of blocks, under the name of transformers."""
        return self.model["layers"]


class CompleteCheckpoint:
    """Base, ahead of a model of transformers, that loads no checkpoint with weights missing.

    transformers warns, and fills linear maps by its own rule; a decay or a convolution would keep
    whatever the memory held.
    """

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **given: Any) -> Any:
        """Load what ``save_pretrained`` wrote.

        Args:
            name: folder, or name on the hub.
            args, given: as in ``PreTrainedModel.from_pretrained``.

        Raises:
            ValueError: if a weight is missing, or has another shape.
        """
        asked = given.pop("output_loading_info", False)
        model, info = super().from_pretrained(name, *args, output_loading_info=True, **given)  # type: ignore[misc]
        lost = sorted({*info["missing_keys"], *(str(one[0]) for one in info["mismatched_keys"])})
        if lost:
            raise ValueError(
                f"{name} holds no weights for {', '.join(lost[:4])}{', ...' * (len(lost) > 4)}, in "
                f"the shapes of {cls.__name__}: load a checkpoint with the class and configuration "
                "that saved it, and replace its modules afterwards."
            )
        return (model, info) if asked else model


class CoefdynForCausalLM(CompleteCheckpoint, PreTrainedModel, GenerationMixin):
    """A ``SequenceModel`` as a causal language model of transformers.

    ``model`` is the ``SequenceModel``; its weights are drawn as it draws them. ``generate`` works
    greedily, by sampling and with beams, from prompts that are padded on the left. Packed
    documents go to ``model`` itself (``cu_seqlens``).

    Args:
        config: sizes and choices.

    Raises:
        ValueError: for options that do not fit.
    """

    config_class = CoefdynConfig

    def __init__(self, config: CoefdynConfig) -> None:
        super().__init__(config)
        own = ModelConfig.from_dict(config.model)
        self.model = SequenceModel(own, vocab=config.vocab_size, length=config.length)
        self.post_init()

    def initialize_weights(self) -> None:
        """Leave the weights as ``SequenceModel`` has drawn them, or as they were loaded."""

    def get_input_embeddings(self) -> nn.Module:
        """The embedding of tokens."""
        return self.model.embedding

    def get_output_embeddings(self) -> nn.Module:
        """The head, whose weights are not those of the embedding."""
        return self.model.head

    def resize_token_embeddings(self, *args: Any, **given: Any) -> Any:
        """Refuse another vocabulary.

        Args:
            args, given: as in ``PreTrainedModel.resize_token_embeddings``.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "the vocabulary of a SequenceModel is fixed; build a CoefdynForCausalLM of another "
            "vocab_size, and copy the weights that it keeps."
        )

    def forward(
        self,
        input_ids: Int[Tensor, "B L"],
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Int[Tensor, "B L"] | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        cache: Cache | None = None,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Compute logits, the loss if labels are given, and the cache if asked.

        Args:
            input_ids: ``(B, L)``, those after the cache.
            attention_mask: ``(B, all tokens so far)``, 0 for padding, which stands on the left
                where a cache is used; None for none.
            past_key_values: what an earlier call returned, or an empty cache.
            labels: ``(B, L)``, usually ``input_ids``; they are shifted here, and -100 is left out.
            use_cache: whether to make a cache where none is given; as in ``config`` if None.
            return_dict: False for a tuple.
            cache: the name of ``past_key_values`` from transformers 5.24 on.

        Raises:
            ValueError: for a mask, a cache or tokens that do not fit.
        """
        cache = past_key_values if cache is None else cache
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache and cache is None:
            cache = Cache(layers=[])
        held = None if cache is None else layer_of(cache, 0)
        if attention_mask is not None:
            all_tokens = (input_ids.shape[0], input_ids.shape[1] + (held.tokens if held else 0))
            if tuple(attention_mask.shape) != all_tokens:
                raise ValueError(
                    f"attention_mask must be (B, all tokens so far), {all_tokens}, 1 for a token "
                    f"and 0 for padding, got {tuple(attention_mask.shape)}; packed documents go to "
                    "CoefdynForCausalLM.model(ids, cu_seqlens=...)."
                )
        logits = continued(self.model, input_ids, held, attention_mask)
        if cache is not None:
            del cache.layers[1:]  # one state serves all layers of the model
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size)
        told = {one.name for one in fields(CausalLMOutputWithPast)}
        name = "cache" if "cache" in told else "past_key_values"
        kept = {} if cache is None else {name: cache}
        found = CausalLMOutputWithPast(loss=loss, logits=logits, **kept)
        wanted = self.config.return_dict if return_dict is None else return_dict
        return found if wanted else found.to_tuple()
