"""Times of the explorer in the page: frames, and a page with three of them."""

from __future__ import annotations

import pytest
from browser.explorer_pages import Open, open_page, page_html  # noqa: F401

from coefdyn.widgets import Explorer

pytestmark = pytest.mark.browser

FRAMES = """async () => {
  const input = document.querySelector("[data-cd=control-decay]");
  const root = document.querySelector("[data-cd=explorer]");
  const times = [];
  for (let m = 0; m < 50; m++) {
    input.value = 0.6 + 0.005 * m;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(Number(root.dataset.cdFrameMs));
  }
  return times.slice(10).sort((a, b) => a - b);
}"""


@pytest.mark.parametrize(
    ("width", "readout", "panel"),
    [
        (8, "identity", "none"),
        (16, "feature_elu", "none"),
        (16, "identity", "inspect"),
        (16, "identity", "stability"),
        (16, "identity", "geometry"),
    ],
)
def test_a_frame_is_under_16_ms(width: int, readout: str, panel: str, open_page: Open) -> None:
    """Compute and draw after a slider move at L = 64; the median, since machines are shared."""
    design = Explorer("gated_deltanet", length=64, width=width, readout=readout, panel=panel)
    times = open_page(design).evaluate(FRAMES)
    median = times[len(times) // 2]
    print(f"L = 64, n = {width}, {readout}, {panel}: median {median:.1f} ms, worst {times[-1]:.1f}")
    assert median < 16


LOADS = 5
HEAVIEST, SLOWEST_MS = 400_000, 1000


def test_three_explorers_stay_small_and_start_fast(open_page: Open) -> None:
    """From the disk, five times; the median, since machines are shared."""
    three = [Explorer("gla"), Explorer("deltanet"), Explorer("mlstm")]
    size = len(page_html(*three).encode())
    assert size < HEAVIEST
    times = []
    for _ in range(LOADS):
        page = open_page(*three)
        page.wait_for_function("document.querySelectorAll('[data-cd=explorer]').length === 3")
        times.append(page.evaluate("performance.getEntriesByName('cd-ready').at(-1).startTime"))
        page.close()
    median = sorted(times)[LOADS // 2]
    told = ", ".join(f"{time:.0f}" for time in times)
    print(f"three explorers: {size / 1000:.0f} kB, drawn after {told} ms; median {median:.0f}")
    assert median < SLOWEST_MS
