"""A page carries the state of its figures packed, and every digit comes back."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

from book.tools.figure_states import pack, pack_states, records_of, unpack
from book.tools.postprocess import STATE, _modules_once

DRAW = random.Random(0)


def single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


SINGLES = [[single(DRAW.gauss(0, 1)) for _ in range(4)] for _ in range(6)]
DOUBLES = [DRAW.gauss(0, 1) for _ in range(9)]
FRAMES = base64.b64encode(DRAW.randbytes(100)).decode("ascii")
VALUES: dict[str, Any] = {
    "singles": SINGLES,
    "doubles": DOUBLES,
    "deep": [[SINGLES, SINGLES], [SINGLES, SINGLES]],
    "edges": [0.0, -0.0, 1e-45, 3.4e38, 1e-300, 1e300, math.pi, 1 / 3],
    "signs": [-0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0],
    "wholes": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    "mixed": [0.0, 1, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    "ragged": [[0.5] * 9, [0.5] * 10],
    "few": [0.1, 0.2],
    "none": [None, [], {}, "</script> η", True],
}
SAVED = {
    "version_major": 2,
    "state": {
        "one": {"state": VALUES, "buffers": []},
        "film": {
            "state": {"film": {"scales": DOUBLES}},
            "buffers": [{"path": ["frames"], "data": FRAMES, "encoding": "base64"}],
        },
    },
}


def equal(one: Any, other: Any) -> bool:
    """Equal with types and signs of zero."""
    return repr(one) == repr(other)


def test_what_is_packed_comes_back_bit_by_bit() -> None:
    assert equal(unpack(pack(SAVED)), SAVED)
    small = {"state": {"one": {"state": {"a": 1}}}}
    assert list(pack(small)) == ["text"]
    assert equal(unpack(pack(small)), small)


def test_numbers_of_a_trained_model_take_few_bytes() -> None:
    """A float32 is written in some twenty characters, and is 4 bytes or 5.4 characters."""
    many = [[single(DRAW.gauss(0, 1)) for _ in range(64)] for _ in range(48)]
    plain = {"state": {"one": {"state": {"q": many}}}}
    assert len(json.dumps(pack(plain))) < 0.3 * len(json.dumps(plain))


def page(text: str) -> str:
    return f'<p>a</p><script type="application/vnd.jupyter.widget-state+json">{text}</script>'


def test_a_page_is_packed_once_and_read_either_way(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(json.dumps(SAVED).replace("</", "<\\/")), encoding="utf-8")
    assert equal(records_of(path.read_text(encoding="utf-8")), SAVED["state"])
    pack_states(tmp_path)
    packed = path.read_text(encoding="utf-8")
    assert "singles" not in packed
    assert packed.count("</script>") == 1
    assert equal(records_of(packed), SAVED["state"])
    pack_states(tmp_path)
    assert path.read_text(encoding="utf-8") == packed
    assert STATE.sub(_modules_once, packed) == packed, "nothing is left to do for the last touches"
