"""Digits, text, and the data sets that are downloaded (with stand-ins for the packages)."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from coefdyn.lab.places import data_file
from coefdyn.lab.tasks import (
    IGNORE,
    ByteProseConfig,
    ByteTextConfig,
    Cifar10Config,
    DataUnavailableError,
    DigitsConfig,
    ImdbConfig,
    TokenProseConfig,
    TokenTextConfig,
    WikiTextConfig,
    embedded,
    explanation,
    hub_text,
    pixels,
    sample,
    split_generator,
    splits,
    text_windows,
    wikitext_windows,
)
from coefdyn.lab.tasks.base import SPLITS
from coefdyn.lab.tasks.bytepair import encode, token_bytes, words
from coefdyn.lab.tasks.downloads import REVISIONS
from coefdyn.lab.tasks.overlap import overlap, window_hashes
from coefdyn.lab.tasks.text import (
    prose_of,
    split_of_document,
    split_topics,
    text_ids,
    topics_of,
)


def draw(config, n, split="test", seed=0):
    return sample(config, n, split_generator(seed, split), split)


def test_embedded_digits_are_those_of_scikit_learn():
    bunch = load_digits()
    images, labels = embedded.digits()
    assert np.array_equal(images.numpy(), bunch.data)
    assert np.array_equal(labels.numpy(), bunch.target)


def test_digit_splits_are_apart_and_complete():
    train, test = splits(DigitsConfig.paper(), 0)
    images, labels = embedded.digits()
    seen = torch.cat([train.inputs, test.inputs])
    assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, images.tolist()))
    assert (train.targets[:, :-1] == IGNORE).all()
    both = torch.cat([train.targets[:, -1], test.targets[:, -1]])
    assert torch.equal(both.bincount(), labels.bincount())
    assert torch.equal(test.inputs.unique(dim=0), images[4::5].unique(dim=0))


def test_more_digits_than_there_are_is_an_error():
    with pytest.raises(ValueError, match=r"asked for 400 of the digits' test images, .* 359"):
        draw(DigitsConfig(), 400)
    with pytest.raises(ValueError, match="17 grey levels and 64 pixels"):
        DigitsConfig(seq_len=32)


def test_text_windows_are_pieces_of_the_text():
    text = b"".join(embedded.python_topics())
    train, test = split_topics(embedded.python_topics())
    assert len(embedded.python_topics()) == 79
    assert len(train) + len(test) == len(text)
    for split, part in (("train", train), ("test", test)):
        inputs, targets = draw(ByteTextConfig.quick(), 20, split)
        for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
            assert bytes([*row, target[-1]]) in part
            assert row[1:] == target[:-1]


def decode(tokens, merges):
    """The bytes of a sequence of token ids."""
    pieces = token_bytes(merges)
    return b"".join(pieces[token] for token in tokens)


def test_token_text_decodes_to_the_text():
    merges = embedded.python_topics_merges()
    for split, part in zip(("train", "test"), split_topics(embedded.python_topics()), strict=True):
        ids = text_ids("token-text", split)
        assert ids.max() < TokenTextConfig().vocab_size == 256 + len(merges)
        assert decode(ids.tolist(), merges) == part
        assert 2.5 < len(part) / len(ids) < 3.5


def prose(split):
    return prose_of(embedded.public_prose(), split)


def test_windows_that_stand_in_another_text_by_hand():
    line = bytes(range(65))
    assert overlap(line, b"x" + line + b"x") == 1.0
    assert overlap(line, b"x" + line[:64]) == 0.5
    assert overlap(line, line[:63] + b"x" + line[63:]) == 0.0
    rng = np.random.default_rng(0)
    text, training = (bytes(rng.integers(97, 99, size, dtype=np.uint8)) for size in (200, 3000))
    seen = {training[i : i + 8] for i in range(len(training) - 7)}
    share = np.mean([text[i : i + 8] in seen for i in range(len(text) - 7)])
    assert 0.5 < overlap(text, training, 8) == pytest.approx(share)
    assert len(window_hashes(line[:63])) == 0
    with pytest.raises(ValueError, match="10 bytes, fewer than a window of 64"):
        overlap(line[:10], line)
    with pytest.raises(ValueError, match="power of two"):
        window_hashes(line, 48)


@pytest.mark.dear("a million tokens of text are searched for each other's pieces")
@pytest.mark.nightly("the text by its sha256, the search by the repeats of the topics")
def test_less_than_one_percent_of_the_held_out_prose_stands_in_the_training_text():
    assert overlap(prose("validation"), prose("train")) < 0.01
    assert overlap(prose("test"), prose("train")) < 0.01


def test_the_same_check_finds_the_repeats_of_the_topics():
    """Half of the topics' validation text and a sixth of their test text stand in training."""
    train, validation, test = (topics_of(embedded.python_topics(), split) for split in SPLITS)
    assert overlap(validation, train) == pytest.approx(0.49, abs=0.005)
    assert overlap(test, train) == pytest.approx(0.16, abs=0.005)


def test_the_prose_is_what_its_sources_gave():
    told = json.loads(data_file("text/public_prose.json").read_text())
    documents = embedded.public_prose()
    assert hashlib.sha256(b"".join(documents)).hexdigest() == told["sha256"]
    assert sum(source["documents"] for source in told["sources"]) == len(documents) >= 200
    first = 0
    for source in told["sources"]:
        own = range(first, first + source["documents"])
        assert {split_of_document(number) for number in own} == set(SPLITS)
        first += source["documents"]
    assert sum(len(prose(split)) for split in SPLITS) == sum(map(len, documents))
    assert not any(b"\r" in one or b"<w " in one for one in documents)


def test_the_prose_is_a_million_tokens_that_decode_to_it():
    merges = embedded.public_prose_merges()
    for split in SPLITS:
        ids = text_ids("token-prose", split)
        assert ids.max() < TokenProseConfig().vocab_size == 256 + len(merges)
        assert decode(ids.tolist(), merges) == prose(split)
    assert len(text_ids("token-prose", "train")) > 1_000_000


def test_training_sequences_of_the_prose_do_not_overlap():
    config = TokenProseConfig.quick()
    ids = text_ids("token-prose", "train")
    inputs, targets = draw(config, 2000, "train")
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert len(_rows(inputs)) == 2000
    others, _ = draw(config, 9, "train", 1)
    assert _first_cut(ids, inputs) != _first_cut(ids, others)
    with pytest.raises(
        ValueError, match="the training text's windows of 128 tokens, which holds 160"
    ):
        draw(config, 20_000, "train")


def _rows(inputs):
    return set(map(tuple, inputs.tolist()))


def _first_cut(ids, inputs):
    """Where the text is cut into the windows that the sequences are."""
    length = inputs.shape[1]
    for first in range(length):
        count = (len(ids) - 1 - first) // length
        if ids[first : first + count * length].view(count, length).eq(inputs[0]).all(1).any():
            assert _rows(ids[first : first + count * length].view(count, length)) >= _rows(inputs)
            return first
    raise AssertionError("no window of the text")


@pytest.mark.parametrize(
    "config", [ByteTextConfig.quick(), TokenTextConfig.quick(), ByteProseConfig.quick()]
)
def test_consecutive_windows_score_every_id_once(config):
    ids = text_ids(config.task_name, "test")
    inputs, targets = text_windows(config)
    assert torch.equal(targets[targets != IGNORE], ids[1:])
    assert torch.equal(inputs[targets != IGNORE], ids[:-1])
    assert (targets[:-1] != IGNORE).all()


def test_a_window_longer_than_the_text_is_refused():
    with pytest.raises(ValueError, match=r"at least 40001; this split has 36113. Lower seq_len"):
        draw(ByteTextConfig(seq_len=40_000), 1)
    with pytest.raises(ValueError, match="token-text has 1024 ids; got vocab_size=256"):
        TokenTextConfig(vocab_size=256)
    with pytest.raises(ValueError, match="token-prose has 1024 ids; got vocab_size=256"):
        TokenProseConfig(vocab_size=256)
    with pytest.raises(
        ValueError, match=r"at least 4000000; this split has 2055935. Lower seq_len"
    ):
        draw(TokenProseConfig(seq_len=2_000_000), 1, "train")


def test_byte_pairs_by_hand():
    a, b, space = ord("a"), ord("b"), ord(" ")
    assert encode(b"abab ab", [(a, b), (256, 256)]) == [257, space, 256]
    assert encode(b"xyz", [(a, b)]) == list(b"xyz")


def test_byte_pairs_give_any_bytes_back():
    rng = np.random.default_rng(0)
    merges = embedded.python_topics_merges()
    pieces = token_bytes(merges)
    for text in (
        bytes(rng.integers(0, 256, 3000, dtype=np.uint8)),
        " \n  é\t_x  y\n\n z ".encode(),
    ):
        assert b"".join(words(text)) == text
        assert b"".join(pieces[token] for token in encode(text, merges)) == text


def test_the_merges_are_those_learned_from_the_training_text(monkeypatch):
    pytest.importorskip("tokenizers")
    monkeypatch.syspath_prepend(str(data_file("text/build.py").parent))
    learn_merges = importlib.import_module("build").learn_merges
    train, _ = split_topics(embedded.python_topics())
    assert tuple(learn_merges(train, 768)) == embedded.python_topics_merges()
    assert learn_merges(b"xyz", 5) == []


def test_a_missing_data_file_names_the_remedy():
    with pytest.raises(FileNotFoundError, match=r"data/digits/none.npz is needed.*git checkout --"):
        data_file("digits/none.npz")


def module(name, **members):
    made = types.ModuleType(name)
    for key, value in members.items():
        setattr(made, key, value)
    return made


@pytest.fixture
def no_cache():
    for cached in (hub_text.wikitext_ids, hub_text._imdb, pixels._cifar10):
        cached.cache_clear()
    yield
    for cached in (hub_text.wikitext_ids, hub_text._imdb, pixels._cifar10):
        cached.cache_clear()


DOWNLOADED = [(Cifar10Config, "digits"), (ImdbConfig, "byte-text"), (WikiTextConfig, "token-text")]


@pytest.fixture
def cold(monkeypatch, tmp_path, no_cache):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "tokenizers", module("tokenizers"))
    return monkeypatch


@pytest.mark.parametrize(("config", "stand_in"), DOWNLOADED)
def test_without_the_package_the_error_says_how_to_get_it(config, stand_in, cold):
    cold.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataUnavailableError) as caught:
        draw(config.quick(), 1)
    assert "pip install 'coefdyn[text]'" in str(caught.value)
    assert repr(stand_in) in str(caught.value)


@pytest.mark.parametrize(
    ("config", "package"), [(Cifar10Config, "PIL"), (WikiTextConfig, "tokenizers")]
)
def test_without_what_reads_the_data_the_error_says_how_to_get_it(config, package, cold):
    cold.setitem(sys.modules, package, None)
    with pytest.raises(DataUnavailableError, match=rf"{package}.*pip install 'coefdyn\[text\]'"):
        draw(config.quick(), 1)


@pytest.mark.parametrize(("config", "stand_in"), DOWNLOADED)
def test_without_a_network_the_error_says_what_to_do(config, stand_in, cold):
    def load_dataset(path, name, split, revision):
        raise ConnectionError(f"Couldn't reach {path!r} on the Hub\nmore")

    cold.setitem(sys.modules, "datasets", module("datasets", load_dataset=load_dataset))
    cold.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataUnavailableError) as caught:
        draw(config.quick(), 1)
    message = str(caught.value)
    for part in ("Couldn't reach", "HF_HUB_OFFLINE is set", "HF_HOME", repr(stand_in)):
        assert part in message
    assert "more" not in message.split("hub) could")[1].split(".")[0]


class Picture:
    """Stands in for a PIL image: grey levels appear on conversion to mode L."""

    def __init__(self, seed):
        self.levels = np.random.default_rng(seed).integers(0, 256, (32, 32), dtype=np.uint8)

    def convert(self, mode):
        assert mode == "L"
        return self.levels


def test_cifar10_is_read_row_by_row(cold):
    pictures = [Picture(i) for i in range(7)]
    rows = {"img": pictures, "label": [3, 1, 4, 1, 5, 9, 2]}
    asked = []

    def load_dataset(path, name, split, revision):
        asked.append((path, name, split, revision))
        return rows

    cold.setitem(sys.modules, "datasets", module("datasets", load_dataset=load_dataset))
    inputs, targets = draw(Cifar10Config(), 7)
    assert asked == [("uoft-cs/cifar10", None, "test", REVISIONS["uoft-cs/cifar10"])]
    known = {tuple(p.levels.flatten().tolist()): y for p, y in zip(*rows.values(), strict=True)}
    found = {tuple(x): y[-1] for x, y in zip(inputs.tolist(), targets.tolist(), strict=True)}
    assert found == known
    with pytest.raises(ValueError, match="CIFAR-10's test images, which holds 7"):
        draw(Cifar10Config(), 8)


def test_no_task_reads_the_hub_but_at_a_named_commit():
    """Whoever repeats a run reads the same data, and no code comes with it."""
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in REVISIONS.values())
    calls = []
    for path in Path(hub_text.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "attr", "")
            if name in ("load_dataset", "from_pretrained"):
                calls.append({word.arg for word in node.keywords})
    assert calls
    assert all("revision" in words and "trust_remote_code" not in words for words in calls)


def test_imdb_reviews_end_in_their_label(cold):
    rows = {"text": ["Good.", "é" * 300], "label": [1, 0]}
    cold.setitem(sys.modules, "datasets", module("datasets", load_dataset=lambda *_, **__: rows))
    inputs, targets = draw(ImdbConfig(seq_len=64), 2)
    by_label = {y[y != IGNORE].item(): (x, y) for x, y in zip(inputs, targets, strict=True)}
    good, _ = by_label[1]
    assert good.tolist() == [*b"Good.", 257, *[256] * 58]
    cut, target = by_label[0]
    assert bytes(cut[:63].tolist()) == ("é" * 300).encode()[:63]
    assert cut[63] == 257
    assert target[63] == 0
    text = explanation(ImdbConfig(seq_len=8))
    assert ("neg" in text) != ("G" in text)


def test_wikitext_is_encoded_once_and_kept(cold, tmp_path):
    class Tokenizer:
        @classmethod
        def from_pretrained(cls, name, revision):
            assert name == "openai-community/gpt2"
            assert revision == REVISIONS[name]
            return cls()

        def encode_batch(self, lines):
            return [types.SimpleNamespace(ids=[50_000 + ord(c) for c in line]) for line in lines]

    loads = []

    def load_dataset(path, name, split, revision):
        loads.append((path, name, split, revision))
        return {"text": ["ab", "", "cdefgh"]}

    cold.setitem(sys.modules, "datasets", module("datasets", load_dataset=load_dataset))
    cold.setitem(sys.modules, "tokenizers", module("tokenizers", Tokenizer=Tokenizer))
    config = WikiTextConfig(seq_len=4)
    expected = [50_000 + ord(c) for c in "abcdefgh"]
    inputs, targets = draw(config, 5)
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        start = expected.index(row[0])
        assert row == expected[start : start + 4]
        assert target == expected[start + 1 : start + 5]
    hub_text.wikitext_ids.cache_clear()
    windows = wikitext_windows(config)
    assert windows.targets[windows.targets != IGNORE].tolist() == expected[1:]
    commit = REVISIONS["Salesforce/wikitext"]
    assert loads == [("Salesforce/wikitext", "wikitext-103-raw-v1", "test", commit)]
    kept = [p.name for p in (tmp_path / "coefdyn").iterdir() if p.suffix != ".lock"]
    assert kept == ["wikitext-103-raw-gpt2-test.npy"]


COUNTED = """
import os, time
from types import SimpleNamespace
class Tokenizer:
    @classmethod
    def from_pretrained(cls, name, revision):
        return cls()
    def encode_batch(self, lines):
        return [SimpleNamespace(ids=[ord(c) for c in line]) for line in lines]
def load_dataset(path, name, split, revision):
    with open(os.environ["COUNT"], "a") as file:
        file.write(f"{path}\\n")
    time.sleep(1)
    return {"text": ["abcdefgh"]}
"""


def test_the_workers_of_a_machine_fetch_and_encode_a_text_once(tmp_path):
    for name in ("datasets", "tokenizers"):
        (tmp_path / f"{name}.py").write_text(COUNTED)
    count, root = tmp_path / "count.txt", str(Path(hub_text.__file__).parents[3])
    told = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{root}", "COUNT": str(count)}
    read = "from coefdyn.lab.tasks.hub_text import wikitext_ids as ids; print(*ids('test'))"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", read],
            env={**os.environ, **told, "XDG_CACHE_HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    expected = " ".join(str(ord(letter)) for letter in "abcdefgh")
    assert [worker.communicate()[0].strip() for worker in workers] == [expected] * 3
    assert count.read_text().splitlines() == ["Salesforce/wikitext"]
