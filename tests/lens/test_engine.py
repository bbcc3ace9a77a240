"""The engine: other people's classes computed by ``apply``, held to the classes themselves."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import threading
from collections.abc import Iterator

import pytest
import torch
import transformers
import zoo
from passed import LENS
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError, checkpoint

from coefdyn.lens import install, replaced, running, torch_operations, trace
from coefdyn.lens.adapters import ADAPTERS
from coefdyn.lens.adapters.base import first
from coefdyn.lens.adapters.running import Runs
from coefdyn.lens.run.engine import mix

#: mechanisms that are computed here
COMPUTED = {adapter.mechanism for adapter in ADAPTERS if isinstance(adapter, Runs)}
NAMES = (
    *(name for name in zoo.EVERY if zoo.mechanisms(name) & COMPUTED),
    "Qwen3_5ForCausalLM",
)
GDN, SCAN, SSD = "Qwen3NextForCausalLM", "MambaForCausalLM", "Mamba2ForCausalLM"
#: one class per operation
ONE_EACH = (GDN, SCAN, SSD, "KimiLinearForCausalLM", "xLSTMForCausalLM")
#: classes of the zoo in which the mixing adds next to nothing: what comes before it is raised
FAINT = ("Bamba", "FalconH1", "GraniteMoeHybrid", "NemotronH")


def build(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A model of the class in whose logits the mixing counts."""
    if name == "Qwen3_5ForCausalLM":
        torch.manual_seed(0)
        config = transformers.Qwen3_5TextConfig(**zoo.BASE | zoo.GDN)
        model = transformers.Qwen3_5ForCausalLM(config).eval()
    elif name == "xLSTMForCausalLM":  # the class's cache has room for heads of such sizes alone
        torch.manual_seed(0)
        config = copy.deepcopy(zoo.build(name).config.to_dict())
        config |= {"hidden_size": 128, "embedding_dim": 128}
        model = transformers.xLSTMForCausalLM(transformers.xLSTMConfig(**config)).eval()
    else:
        model = zoo.build(name)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if name.startswith(FAINT) and weight.ndim >= 2 and ("in_proj" in key or "conv" in key):
                weight.mul_(4.0)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the other has no float64
    return model.to(dtype)


def gap(mine: Tensor, theirs: Tensor) -> float:
    """Largest difference relative to the largest number."""
    mine, theirs = mine.detach().double(), theirs.detach().double()
    return float((mine - theirs).abs().max() / theirs.abs().max().clamp_min(1e-300))


def passed(model: nn.Module, length: int = 70, **given: object) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and gradients of one pass."""
    model.zero_grad()
    logits = model(zoo.ids(length), use_cache=False, **given).logits
    functional = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), zoo.ids(length)[:, 1:].flatten()
    )
    functional.backward()
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return logits.detach(), found


def own(model: nn.Module, length: int = 70, **given: object) -> tuple[Tensor, dict[str, Tensor]]:
    """The same by the class's torch functions, also where a package's kernels stand for them."""
    with torch_operations(model):
        return passed(model, length, **given)


def tensors(held: object, seen: set[int] | None = None) -> Iterator[Tensor]:
    """All tensors of a cache, in a fixed order."""
    seen = set() if seen is None else seen
    if id(held) in seen or isinstance(held, torch.nn.Module):
        return
    seen.add(id(held))
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, dict):
        for value in held.values():
            yield from tensors(value, seen)
    elif isinstance(held, (list, tuple)):
        for value in held:
            yield from tensors(value, seen)
    elif type(held).__module__.startswith("transformers") and hasattr(held, "__dict__"):
        yield from tensors(vars(held), seen)


def states(model: nn.Module, answer: object) -> list[Tensor]:
    """States that a pass leaves: those of its cache, and those that the model's own layers keep."""
    names = ("past_key_values", "cache_params")
    cache = next((getattr(answer, n) for n in names if getattr(answer, n, None) is not None), None)
    kept = [getattr(m, "recurrent_states", None) for m in model.modules()]
    return [*tensors(cache), *(state for state in kept if isinstance(state, Tensor))]


def alike(mine: list[Tensor], theirs: list[Tensor]) -> None:
    """Same states: kind, shape and numbers."""
    assert theirs and len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert not one.is_floating_point() or gap(one, other) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_logits_and_gradients_are_those_of_the_class(name: str) -> None:
    model = build(name)
    logits, gradients = own(model)
    with running(model) as report:
        mine, my_gradients = passed(model)
    here = [layer for layer in report.layers.values() if layer.calls]
    assert here and not any(layer.left for layer in here)
    assert gap(mine, logits) < 1e-5
    with replaced(model, {layer.name: "silence" for layer in here}), torch.no_grad():
        assert gap(model(zoo.ids(70), use_cache=False).logits, logits) > 1e-3
    double = build(name, torch.float64)
    with running(double):
        exact, truth = passed(double)
    assert gap(own(double)[0], exact) < 1e-5
    assert my_gradients.keys() == gradients.keys()
    largest = max(float(one.abs().max()) for one in truth.values())
    for key, value in truth.items():
        if float(value.abs().max()) > 1e-6 * largest:  # smaller ones are the rounding of others
            close = gap(my_gradients[key], gradients[key]) < 1e-4
            assert close or gap(my_gradients[key], value) <= gap(gradients[key], value), key


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_leaves_the_states_of_the_class_and_the_same_tokens_follow(name: str) -> None:
    mine, theirs = build(name), build(name)
    prompt = zoo.ids(37)
    engine = install(mine)
    alike(states(mine, mine(prompt, use_cache=True)), _states_of(theirs, prompt))
    given = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    given["use_cache"] = True
    for beams in (1,) if "xLSTM" in name else (1, 3):  # whose cache cannot be reordered
        with torch_operations(theirs):
            expected = theirs.generate(prompt, num_beams=beams, **given)
        assert torch.equal(mine.generate(prompt, num_beams=beams, **given), expected)
    assert any(layer.calls for layer in engine.report.layers.values())
    engine.uninstall()


def _states_of(model: nn.Module, prompt: Tensor) -> list[Tensor]:
    with torch_operations(model):
        return states(model, model(prompt, use_cache=True))


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in NAMES if name != "MambaForCausalLM"])
def test_a_prompt_in_two_parts_is_continued_as_the_class_does_it(name: str) -> None:
    found = []
    for computed in (False, True):
        model = build(name)
        engine = install(model) if computed else None
        with torch_operations(model):
            answer = model(zoo.ids(40)[:, :21], use_cache=True)
            key = "cache_params" if "cache_params" in answer else "past_key_values"
            rest = {} if answer.get(key) is None else {key: answer[key]}
            positions = torch.arange(21, 40).expand(2, -1)
            if "past_key_values" in rest:
                rest["position_ids"] = positions
            second = model(zoo.ids(40)[:, 21:], use_cache=True, **rest)
        found.append((second.logits, states(model, second)))
        if engine is not None:
            assert any(layer.calls >= 2 for layer in engine.report.layers.values())
            engine.uninstall()
    assert gap(found[1][0], found[0][0]) < 1e-5
    alike(found[1][1], found[0][1])


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in NAMES if name != "xLSTMForCausalLM"])
def test_padding_is_the_class_s(name: str) -> None:
    model = build(name)
    mask = torch.ones(2, 50, dtype=torch.long)
    mask[0, :9] = 0
    with torch_operations(model):
        theirs = model(zoo.ids(50), attention_mask=mask, use_cache=False).logits
    with running(model) as report:
        mine = model(zoo.ids(50), attention_mask=mask, use_cache=False).logits
    assert any(layer.calls for layer in report.layers.values())
    assert gap(mine[:, 9:], theirs[:, 9:]) < 1e-5


@torch.no_grad()
def test_a_static_cache_is_filled_in_place() -> None:
    found = []
    for computed in (False, True):
        model = build(GDN)
        engine = install(model) if computed else None
        cache = transformers.StaticCache(config=model.config, max_cache_len=64)
        with torch_operations(model):
            first = model(zoo.ids(20), past_key_values=cache, use_cache=True)
            kept = [one.data_ptr() for one in tensors(first.past_key_values)]
            second = model(zoo.ids(30)[:, 20:], past_key_values=cache, use_cache=True)
        assert kept == [one.data_ptr() for one in tensors(second.past_key_values)]
        found.append((second.logits, states(model, second)))
        if engine is not None:
            engine.uninstall()
    assert gap(found[1][0], found[0][0]) < 1e-5
    alike(found[1][1], found[0][1])


@torch.no_grad()
@pytest.mark.parametrize("name", ONE_EACH)
def test_other_models_and_threads_keep_their_own_operations(name: str) -> None:
    model, other = build(name), build(name)
    with torch_operations(other):
        expected = other(zoo.ids(), use_cache=False).logits
        with running(model) as report:
            assert torch.equal(other(zoo.ids(), use_cache=False).logits, expected)
            assert torch.equal(in_a_thread(model), expected)
            assert not report.layers
            model(zoo.ids(), use_cache=False)
    assert report.layers


@torch.no_grad()
def in_a_thread(model: nn.Module) -> Tensor:
    """Logits of a pass in another thread."""
    found: list[Tensor] = []

    def run() -> None:
        with torch.no_grad():
            found.append(model(zoo.ids(), use_cache=False).logits)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def held() -> dict[tuple[int, str], object]:
    """What stands at every place that an engine may exchange, for all classes of these tests."""
    found = {}
    for name in ONE_EACH:
        model = MODELS.setdefault(name, build(name))
        for adapter in ADAPTERS:
            if isinstance(adapter, Runs):
                for place in adapter.places(model):
                    found[id(place.owner), place.attribute] = vars(place.owner)[place.attribute]
    return found


MODELS: dict[str, nn.Module] = {}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_engines_end_in_any_order(order: tuple[int, int]) -> None:
    before, first, second = held(), build(GDN), build(GDN)
    engines = [install(first), install(second), install(first)]
    for model in (first, second):
        model(zoo.ids(), use_cache=False)
    assert engines[1].report.layers and engines[2].report.layers
    for number in order:
        engines[number].uninstall()
        assert held() != before
    engines[2].uninstall()
    engines[2].uninstall()
    assert held() == before


def test_nothing_stays_after_20_engines_and_exceptions_in_two_threads() -> None:
    before, trouble = held(), []

    def work() -> None:
        try:
            models = [build(name) for name in (GDN, SSD)]
            for turn in range(20):
                with pytest.raises(ZeroDivisionError):
                    run_and_raise(models[turn % 2])
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not trouble and held() == before


def run_and_raise(model: nn.Module) -> None:
    """Raise within the context, after a pass."""
    with running(model) as report:
        model(zoo.ids(9), use_cache=False)
        assert report.layers
        _ = 1 / 0


def test_a_model_that_is_gone_takes_its_engine_with_it() -> None:
    before, model = held(), build(SSD)
    install(model)
    assert held() != before
    del model
    gc.collect()
    assert held() == before


@torch.no_grad()
def test_copies_are_models_of_their_own() -> None:
    model = build(SSD)
    expected = model(zoo.ids(), use_cache=False).logits
    engine = install(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        engine.report.layers.clear()
        assert torch.equal(twin(zoo.ids(), use_cache=False).logits, expected)
        assert not engine.report.layers
    engine.uninstall()


@pytest.mark.dear("torch.compile traces and lowers each graph")
@pytest.mark.reads(LENS)
@torch.no_grad()
def test_compiled_code_is_the_model_s_own() -> None:
    model = build(SSD)
    expected = model(zoo.ids(), use_cache=False).logits
    engine = install(model)
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(zoo.ids(), use_cache=False).logits, expected)
    engine.uninstall()
    torch.testing.assert_close(compiled(zoo.ids(), use_cache=False).logits, expected)
    with pytest.raises(ValueError, match="compiled"):
        install(compiled)


@pytest.mark.parametrize("name", ONE_EACH)
def test_backward_after_the_context_gives_the_engine_s_gradients(name: str) -> None:
    model = build(name)
    with running(model):
        _, inside = passed(model)
        model.zero_grad()
        loss = model(zoo.ids(70), use_cache=False).logits[:, :-1].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(loss, zoo.ids(70)[:, 1:].flatten())
    loss.backward()
    for key, value in model.named_parameters():
        if key in inside:
            assert torch.equal(value.grad, inside[key])


def test_checkpointing_is_right_or_refused_in_the_forward_pass() -> None:
    model = build(SSD).train()
    _, expected = own(model)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with running(model), pytest.raises(ValueError, match="gradient checkpointing"):
        model(zoo.ids(), use_cache=False)
    engine = install(model)
    _, gradients = passed(model)
    assert max(layer.calls for layer in engine.report.layers.values()) == 2
    for key, value in expected.items():
        assert gap(gradients[key], value) < 1e-4, key
    loss = model(zoo.ids(70), use_cache=False).logits.sum()
    engine.uninstall()
    with pytest.raises(CheckpointError):
        loss.backward()
    engine = install(model)
    model.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(ValueError, match="use_reentrant=False"):
        model(zoo.ids(), use_cache=False)
    model.gradient_checkpointing_disable()
    embedded = torch.randn(1, 9, 32, requires_grad=True)
    with pytest.raises(ValueError, match="use_reentrant=False"):
        checkpoint(model.backbone.layers[0], embedded, use_reentrant=True)
    engine.uninstall()


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "way"),
    [
        (name, way)
        for name in ONE_EACH
        for way in ("half", "autocast")
        if (name, way) != ("xLSTMForCausalLM", "half")  # the class itself raises there
    ],
)
def test_half_precision_is_no_further_from_float64_than_the_class(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one call of the operation, on the inputs as they are rounded.

    Where both are rounded to the same halves, single ties fall either way.
    """
    model = build(name, torch.bfloat16 if way == "half" else torch.float32)
    adapter = next(a for a in ADAPTERS if isinstance(a, Runs) and list(a.places(model)))
    calls: list[dict] = []
    take = type(adapter).take
    monkeypatch.setattr(
        type(adapter), "take", lambda self, one: calls.append(one) or take(self, one)
    )
    place = next(iter(adapter.places(model)))
    operation = inspect.unwrap(getattr(place.owner, place.attribute))
    cast = torch.autocast("cpu", torch.bfloat16, way == "autocast")
    with running(model), cast:
        model(zoo.ids(70), use_cache=False)
    given = calls[0]
    with cast:
        theirs = first(operation(**given))
        taken = take(adapter, given)
        mine = first(taken.result(*mix(taken)))
    taken = take(adapter, {key: doubled(value) for key, value in given.items()})
    exact = first(taken.result(*mix(taken))).double()
    assert mine.dtype == theirs.dtype
    distances = [(found.double() - exact).norm() for found in (mine, theirs)]
    assert distances[0] <= (1 + 1e-3) * distances[1]


def doubled(value: object) -> object:
    """The same in float64."""
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).double()
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


@torch.no_grad()
def test_a_step_is_the_model_s_and_is_named() -> None:
    for name in ONE_EACH:
        model = build(name)
        with running(model) as report:
            model.generate(zoo.ids(9), max_new_tokens=4, use_cache=True, do_sample=False)
        reasons = {reason for layer in report.layers.values() for reason in layer.left}
        assert reasons == {"one token after a cache: the model's own step is the faster"}, name
        assert "left (one token after a cache" in str(report)


@torch.no_grad()
def test_the_report_names_what_is_the_model_s() -> None:
    model = build("BambaForCausalLM")
    with running(model) as report:
        model(zoo.ids(), use_cache=False)
    assert list(report.left) == ["model.layers.1.self_attn"]
    assert "model.layers.0.mamba: mamba-2, 1 computed here" in str(report)


@torch.no_grad()
def test_another_device_gets_the_model_s_own_code() -> None:
    model = build(SSD).to("meta")
    with running(model) as report:
        logits = model(zoo.ids().to("meta"), use_cache=False).logits
    assert logits.is_meta and report.layers
    assert not any(layer.calls for layer in report.layers.values())
    assert set(report.left.values()) == {"on meta: the engine is for a CPU"}


@torch.no_grad()
def test_packed_sequences_get_what_the_class_says_of_them() -> None:
    model = build("BambaForCausalLM")
    given = {"seq_idx": torch.zeros(2, 37, dtype=torch.int32), "use_cache": False}
    for computed in (False, True):
        engine = install(model) if computed else None
        with torch_operations(model), pytest.raises(ValueError, match="packed sequences"):
            model(zoo.ids(), **given)
        if engine is not None:
            assert not any(layer.calls for layer in engine.report.layers.values())
            engine.uninstall()


@torch.no_grad()
def test_a_trace_sees_the_model_s_own_operation() -> None:
    model = build(SSD)
    with torch_operations(model):
        plain = trace(model, zoo.ids())
    with running(model) as report:
        seen = trace(model, zoo.ids(), probe=True)
        assert not report.layers
        assert torch.equal(seen[0].output, plain[0].output)
        model(zoo.ids(), use_cache=False)
    assert report.layers and seen[0].probe_error < 1e-5


def test_what_is_no_model_for_an_engine_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an engine needs a torch\.nn\.Module, got str"):
        install("model")
    with pytest.raises(ValueError, match="no mixer of LlamaForCausalLM is computed here"):
        install(zoo.build("LlamaForCausalLM"))
    model = build(SSD)
    with running(model) as report, pytest.raises(RuntimeError, match="shapes cannot be"):
        model.backbone.layers[0].mixer(torch.randn(1, 9, 31))
    assert not report.layers
