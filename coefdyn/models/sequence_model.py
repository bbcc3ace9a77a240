"""Embedding, blocks, norm, head: the model of every experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics
from coefdyn.dynamics.documents import Documents, find
from coefdyn.execution.state import ModelState
from coefdyn.mixers.initial import Linear, Resettable
from coefdyn.mixers.tokens import longest
from coefdyn.models.blocks import Block, Masks, build_norm, given
from coefdyn.models.choosing import choose, one_batch
from coefdyn.models.config import ModelConfig
from coefdyn.options import check_choice, check_count, check_number
from coefdyn.shapes import Float, Int

__all__ = ["ModelState", "SequenceModel", "language_model_config"]


class TokenEmbedding(nn.Embedding):
    """``torch.nn.Embedding`` with initial weights N(0, std)."""

    def __init__(self, vocab: int, width: int, std: float) -> None:
        self.std = std  # ahead of the first reset_parameters, which the base calls
        super().__init__(vocab, width)

    def reset_parameters(self) -> None:
        """Draw N(0, std), after torch's own draw, which keeps the values of a seed as they were."""
        super().reset_parameters()
        nn.init.normal_(self.weight, std=self.std)


class SequenceModel(Resettable):
    """Tokens to logits, one block after another (MAD's shell).

    Embedding weights are drawn from N(0, embedding_std); other linear maps as torch does; the
    head's bias starts at 0 and its weights are not tied to the embedding.

    Args:
        config: sizes and choices.
        vocab: number of input token ids.
        classes: number of outputs per position; ``vocab`` if None.
        length: longest input in tokens; needed for position="learned" only.

    Raises:
        ValueError: for options that do not fit, or a missing length.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        vocab: int,
        classes: int | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__()
        check_count("vocab", vocab)
        if classes is not None:
            check_count("classes", classes)
        self.config = config
        self.embedding = TokenEmbedding(vocab, config.width, config.embedding_std)
        self.positions = self._position_table(length)
        self.blocks = nn.ModuleList([Block(config, layer) for layer in range(config.layers)])
        self.norm = build_norm(config)
        self.head = Linear(config.width, classes or vocab, start=nn.init.zeros_)
        #: how a block is run where gradients shall be computed again, (block, x) -> y, such as
        #: ``torch.utils.checkpoint.checkpoint``; None for as it is
        self.checkpointed: Callable[..., torch.Tensor] | None = None

    def _position_table(self, length: int | None) -> nn.Parameter | None:
        if self.config.position != "learned":
            return None
        if length is None:
            raise ValueError("position='learned' needs length, the longest input in tokens.")
        check_count("length", length)
        return nn.Parameter(self.config.embedding_std * torch.randn(length, self.config.width))

    @torch.no_grad()
    def begin(self) -> None:
        """Draw the embedding, and the learned positions after it."""
        self.embedding.reset_parameters()
        if self.positions is not None:
            drawn = torch.randn_like(self.positions)
            self.positions.copy_(self.config.embedding_std * drawn)

    def drawn(self) -> Iterable[nn.Module]:
        return (self.blocks, self.norm, self.head)

    def embed(
        self, tokens: Int[torch.Tensor, "*batch L"], start: int | Documents = 0
    ) -> Float[torch.Tensor, "*batch L d"]:
        """Input of the first block; ``start`` is the position of the first token, 0-based.

        ``start`` may also be the documents of the tokens, which say where each of them stands.

        Raises:
            ValueError: for anything but ids in 0 .. vocab - 1 (told on the CPU), or more tokens
                than learned positions.
        """
        return self._placed(self.look_up(tokens), start)

    def _placed(self, x: torch.Tensor, start: int | Documents) -> torch.Tensor:
        """Embeddings of tokens with their learned positions, where the model has such."""
        if self.positions is None:
            return x
        end = start + x.shape[-2] if isinstance(start, int) else longest(start.positions)
        if end > self.positions.shape[0]:
            raise ValueError(
                f"position='learned' holds {self.positions.shape[0]} positions, got a sequence of "
                f"{end}; build the model with a larger length, or use 'rotary'."
            )
        where = slice(start, end) if isinstance(start, int) else start.positions
        return x + self.positions[where]

    def look_up(self, tokens: Int[torch.Tensor, "*batch L"]) -> Float[torch.Tensor, "*batch L d"]:
        """Embeddings of tokens, without positions.

        Raises:
            ValueError: for anything but ids in 0 .. vocab - 1 (told on the CPU).
        """
        whole = isinstance(tokens, torch.Tensor) and tokens.dtype in (torch.int64, torch.int32)
        if not whole or tokens.ndim == 0:
            got = getattr(tokens, "dtype", type(tokens).__name__)
            raise ValueError(f"tokens must be whole numbers (..., L), int64 or int32, got {got}.")
        try:
            return self.embedding(tokens)
        except IndexError as error:
            raise ValueError(
                f"token ids must lie in 0 .. {self.embedding.num_embeddings - 1} (vocab="
                f"{self.embedding.num_embeddings}), got {tokens.min()} .. {tokens.max()}."
            ) from error

    def forward(
        self,
        tokens: Int[torch.Tensor, "*batch L"],
        method: str = "auto",
        *,
        state: ModelState | None = None,
        return_state: bool = False,
        **masks: Unpack[Masks],
    ) -> Float[torch.Tensor, "*batch L classes"] | tuple[torch.Tensor, ModelState | None]:
        """Compute the logits, and the state if asked.

        Args:
            tokens: ids, ``(..., L)``.
            method: as in ``CoefficientDynamics.apply``.
            state: what an earlier call returned, these tokens follow; None before the first token.
            return_state: whether to return the state after these tokens, too.
            masks: ``attention_mask`` or ``cu_seqlens``, see ``Mixer.forward``: a padded or packed
                document gets the logits that it would get alone.

        Returns:
            logits; with ``return_state`` a pair of logits and the state: of fixed size wherever the
            mixer has one (``numbers()`` counts it), every key and value otherwise.

        Raises:
            ValueError: for tokens that do not fit, or a state that this model did not make.
        """
        found = self.transform(
            self.look_up(tokens), method, state=state, return_state=return_state, **masks
        )
        if isinstance(found, tuple):
            return self.head(found[0]), found[1]
        return self.head(found)

    def transform(
        self,
        x: Float[torch.Tensor, "*batch L d"],
        method: str = "auto",
        *,
        state: ModelState | None = None,
        return_state: bool = False,
        **masks: Unpack[Masks],
    ) -> Float[torch.Tensor, "*batch L d"] | tuple[torch.Tensor, ModelState | None]:
        """Compute what the head reads, from embeddings: positions, blocks and the last norm.

        Args:
            x: of ``look_up``, or of one's own, ``(..., L, width)``.
            method, state, return_state, masks: as in ``forward``.

        Raises:
            ValueError: as in ``forward``.
        """
        if state is not None and not isinstance(state, ModelState):
            raise ValueError(
                f"state must be what the previous call returned, got {type(state).__name__}; "
                "before the first token it is None."
            )
        before = [None] * len(self.blocks) if state is None else state.layers
        if len(before) != len(self.blocks):
            raise ValueError(
                f"the state was made by a model of {len(before)} layers, this one has "
                f"{len(self.blocks)}; start again with state=None."
            )
        if x.shape[-2] == 0:
            return (self.norm(x), state) if return_state else self.norm(x)  # type: ignore[return-value]
        documents = self._documents(x, state, masks)
        start = 0 if state is None or documents is not None else int(state.position)
        x, layers = self._placed(x, start if documents is None else documents), []
        for block, held in zip(self.blocks, before, strict=True):
            if return_state or held is not None or self.checkpointed is None:
                x = block(x, method=method, state=held, return_state=return_state, **given(masks))
            else:
                x = self.checkpointed(partial(block, method=method, **given(masks)), x)
            if return_state:
                x, after = x
                layers.append(after)
        x = self.norm(x)
        if not return_state:
            return x
        position = start + x.shape[-2] if documents is None else documents.after()
        return x, ModelState(position=position, layers=tuple(layers))

    def _documents(
        self, x: torch.Tensor, state: ModelState | None, masks: Masks
    ) -> Documents | None:
        """Documents of these tokens; None if they are not separated."""
        before = None if state is None else state.position
        told = before if isinstance(before, torch.Tensor) else None
        if not given(masks) and told is None:
            return None
        mask, bounds = masks.get("attention_mask"), masks.get("cu_seqlens")
        return find(x.shape[:-1], x.device, told, mask, bounds)

    def extend(
        self,
        tokens: Int[torch.Tensor, "*batch L"],
        state: ModelState | None = None,
        **masks: Unpack[Masks],
    ) -> tuple[Float[torch.Tensor, "*batch L classes"], ModelState | None]:
        """Continue sequences: ``forward(tokens, state=state, return_state=True)``."""
        return self.forward(tokens, state=state, return_state=True, **masks)  # type: ignore[return-value]

    @torch.no_grad()
    def generate(
        self,
        prompt: Int[torch.Tensor, "*batch L"] | Sequence[torch.Tensor],
        n: int,
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
        *,
        attention_mask: torch.Tensor | None = None,
        top_k: int | None = None,
        eos: int | None = None,
    ) -> Int[torch.Tensor, "*sequences n"]:
        """Generate the n tokens that follow: the prompt at once, then token by token.

        Args:
            prompt: ids of at least one token, ``(..., L)``; or a list of prompts of different
                lengths, each ``(length,)``.
            n: how many tokens.
            temperature: 0 takes the likeliest token; otherwise a token is drawn from
                softmax(logits / temperature).
            generator: what to draw with; needed for temperature > 0.
            attention_mask: ``(..., L)``, 0 for padding on the left of a prompt; None for none.
            top_k: draw among this many likeliest tokens; None for all.
            eos: an id that ends a sequence: it is repeated from there on, and nothing more is
                computed once every sequence has ended. None for no end.

        Raises:
            ValueError: for an empty prompt, padding that is not on the left, a temperature below 0
                or without a generator, more tokens than learned positions, an id that the model
                does not have, a model whose classes are not its tokens, or logits of NaN or
                infinity.
        """
        prompt, attention_mask = one_batch(prompt, attention_mask)
        vocab = self.embedding.num_embeddings
        if top_k is not None and check_count("top_k", top_k) > vocab:
            raise ValueError(f"top_k={top_k} is more than the {vocab} tokens there are.")
        if eos is not None and check_count("eos", eos, least=0) >= vocab:
            raise ValueError(f"eos={eos} is no token; ids lie in 0 .. {vocab - 1}.")
        check_count("n", n)
        check_number("temperature", temperature, least=0.0)
        if temperature > 0 and generator is None:
            raise ValueError(
                "temperature > 0 draws tokens: give generator=torch.Generator().manual_seed(0), or "
                "temperature=0 for the likeliest token."
            )
        if self.head.out_features != self.embedding.num_embeddings:
            raise ValueError(
                f"generate needs one logit per token; this model has {self.head.out_features} "
                f"classes and {self.embedding.num_embeddings} tokens."
            )
        if isinstance(prompt, torch.Tensor) and (prompt.ndim == 0 or prompt.shape[-1] == 0):
            raise ValueError(
                f"prompt must hold at least one token (..., L), got {tuple(prompt.shape)}."
            )
        room = None if self.positions is None else self.positions.shape[0]
        if room is not None and prompt.shape[-1] + n - 1 > room:
            raise ValueError(
                f"position='learned' holds {room} positions; {prompt.shape[-1]} of the prompt and "
                f"{n} new tokens need {prompt.shape[-1] + n - 1}. Ask for fewer, or build the "
                "model with a larger length."
            )
        masks = given(Masks(attention_mask=attention_mask))
        logits, state = self.extend(prompt, **masks)
        if attention_mask is not None and not bool((attention_mask[..., -1] != 0).all()):
            raise ValueError(
                "every prompt must end in a token: pad on the left, and leave out empty prompts."
            )
        chosen = [choose(logits[..., -1, :], temperature, generator, top_k)]
        ended = torch.zeros_like(chosen[0], dtype=torch.bool)
        while len(chosen) < n:
            ended = ended | (chosen[-1] == eos) if eos is not None else ended
            if eos is not None and bool(ended.all()):
                return torch.nn.functional.pad(
                    torch.stack(chosen, dim=-1), (0, n - len(chosen)), value=eos
                )
            logits, state = self.extend(chosen[-1][..., None], state)
            token = choose(logits[..., -1, :], temperature, generator, top_k)
            chosen.append(token if eos is None else token.masked_fill(ended, eos))
        return torch.stack(chosen, dim=-1)

    def dynamics(
        self, tokens: Int[torch.Tensor, "*batch L"], **masks: Unpack[Masks]
    ) -> list[CoefficientDynamics]:
        """The coefficient dynamics of every layer on these tokens, batch shape ``(..., H)``."""
        x, found = self.look_up(tokens), []
        x = self._placed(x, self._documents(x, None, masks) or 0)
        for block in self.blocks:
            found.append(block.mixer.dynamics(block.mixer_norm(x), **given(masks))[0])
            x = block(x, **given(masks))
        return found

    def core_parameters(self) -> int:
        """Parameters of the blocks: all but embedding, positions, last norm and head."""
        return sum(parameter.numel() for parameter in self.blocks.parameters())

    def no_weight_decay_names(self) -> set[str]:
        """Names of the parameters that a mixer's authors exempt from weight decay."""
        return {
            f"blocks.{index}.mixer.{name}"
            for index, block in enumerate(self.blocks)
            for name in block.mixer.no_weight_decay_names()
        }

    def float32_names(self) -> set[str]:
        """Names of the mixers' parameters to keep in float32, see ``Mixer.float32_names``."""
        return {
            f"blocks.{index}.mixer.{name}"
            for index, block in enumerate(self.blocks)
            for name in block.mixer.float32_names()
        }


def language_model_config(kind: str, *, scaling: str = "inverse_sqrt") -> ModelConfig:
    """The 8-layer language models of the paper's Tables 3 and 11: d = n = 768, 12 heads, MLP 512.

    "softmax": softmax attention in type 1 blocks with learned positions. "mamba2": a scalar decay
    exp(-Delta_t a), identity readout and eta = 1 in type 2 blocks without positions. With GPT-2's
    50 257 tokens and length 1024 these have 106.4 M and 110.4 M parameters; the paper reports 120 M
    and 110 M, and its text does not say what the attention model's 14 M more are.

    Args:
        kind: "softmax" or "mamba2".
        scaling: b_j, a name of ``DesignMixer``: "one", "inverse_sqrt" or (mamba2) "delta".
    """
    check_choice("kind", kind, ("softmax", "mamba2"))
    options: dict[str, Any] = {"n_heads": 12, "scaling": scaling}
    if kind == "softmax":
        options |= {"evolution": "identity", "readout": "exp", "normalizer": "row_sum"}
    else:
        options |= {"evolution": "scalar", "decay": "mamba2"}
        options |= {"readout": "identity", "normalizer": "one"}
    return ModelConfig(
        width=768,
        layers=8,
        options=options,
        block="transformer" if kind == "softmax" else "gated",
        mlp=512,
        position="learned" if kind == "softmax" else "none",
    )
