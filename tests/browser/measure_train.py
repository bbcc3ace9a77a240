"""Steps per second of training in a page; run by hand, from the top of the repository.

    python tests/browser/measure_train.py [--steps 60] [--evolution scalar ...]
    python tests/browser/measure_train.py --plain
    python tests/browser/measure_train.py --frames 10

Width 32, two layers, four heads, batches of 16, in headless Chromium, one design a line: steps per
second at 16 and at 32 tokens, by the clock and (in brackets) per second that the page's process
computed. On a machine that does other work too, only the second says what the page can do. The
promise is 25 at 16 tokens and 15 at 32; the last line names the slowest design.

``--plain`` takes WebAssembly away, so that products of matrices are plain JavaScript, as in a
browser that has none.

``--frames`` trains two designs in the figure for so many seconds, at 1440 and at 360 pixels, and
prints how many frames a second the page drew, the slowest second, and the steps it took.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from explorer_pages import page_html
from measure import chromium

from coefdyn.lab.train import PageTraining
from coefdyn.lab.train.offers import offered
from coefdyn.lab.train.source import trainer_source
from coefdyn.mixers.design import EVOLUTIONS, READOUTS

PROMISED = {16: 25, 32: 15}
#: warms up, then takes so many steps at least
RUN = """({ design, length, steps }) => {
  const [batch, vocabulary] = [16, 18];
  const model = createModel({ design, length, vocabulary });
  const optimizer = adamw(model.parameters, { learningRate: 3e-3, steps: 10 * steps });
  const generator = new Generator(1);
  const step = () => {
    const tokens = generator.integers(0, vocabulary, batch * length);
    model.loss({ tokens, targets: tokens }, batch);
    model.backward();
    optimizer.step();
  };
  for (let t = 0; t < steps; t++) step();
  const start = performance.now();
  for (let t = 0; t < steps; t++) step();
  return performance.now() - start;
}"""


def computed(session: Any) -> float:
    """Seconds that the page's processes have computed so far."""
    told = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(one["cpuTime"] for one in told if one["type"] == "renderer")


def rate(
    browser: Any, design: dict[str, str], length: int, steps: int, plain: bool
) -> tuple[float, float]:
    """Steps per second by the clock, and per second computed (warming up included)."""
    page = browser.new_page()
    if plain:
        page.evaluate("delete globalThis.WebAssembly")
    page.add_script_tag(content=trainer_source(offered()))
    session = browser.new_browser_cdp_session()
    before = computed(session)
    elapsed = page.evaluate(RUN, {"design": design, "length": length, "steps": steps})
    after = computed(session)
    page.close()
    return steps / elapsed * 1000, 2 * steps / (after - before)


#: the times at which frames were drawn while it trains
FRAMES = """(seconds) => new Promise((resolve) => {
  const times = [];
  const look = (now) => {
    times.push(now);
    if (now - times[0] < 1000 * seconds) requestAnimationFrame(look);
    else resolve(times);
  };
  requestAnimationFrame(look);
})"""


def frames(browser: Any, width: int, seconds: int) -> str:
    """Frames a second over all and in the slowest second, and the steps of both designs."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_content(page_html(PageTraining({"evolution": "constant"}, "gla")))
    page.wait_for_selector("[data-cd=train-start]")
    page.click("[data-cd=train-start]")
    read = "() => Number(document.querySelector('[data-cd=train-step]').dataset.value)"
    page.wait_for_function(f"() => ({read})() > 5", timeout=0)
    before = page.evaluate(read)
    times = page.evaluate(FRAMES, seconds)
    taken = page.evaluate(read) - before
    page.close()
    per_second = [
        sum(second <= time - times[0] < second + 1000 for time in times)
        for second in range(0, 1000 * seconds, 1000)
    ]
    whole = (len(times) - 1) / (times[-1] - times[0]) * 1000
    return f"| {width} | {whole:.0f} | {min(per_second)} | 2 x {taken / seconds:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--evolution", nargs="*", default=EVOLUTIONS, choices=EVOLUTIONS)
    parser.add_argument("--plain", action="store_true", help="without WebAssembly")
    parser.add_argument("--frames", type=int, metavar="SECONDS", help="frames instead of steps")
    chosen = parser.parse_args()
    if chosen.frames:
        print("| width | frames/s | slowest second | steps/s |\n| --- | --- | --- | --- |")
        with chromium() as browser:
            for width in (1440, 360):
                print(frames(browser, width, chosen.frames), flush=True)
        return
    slowest: dict[int, tuple[float, str]] = {}
    print("| A_t | phi | steps/s at 16 tokens | at 32 tokens |\n| --- | --- | --- | --- |")
    with chromium() as browser:
        for evolution, readout in itertools.product(chosen.evolution, READOUTS):
            cells = []
            for length in PROMISED:
                design = {"evolution": evolution, "readout": readout, "normalizer": "floored"}
                clock, busy = rate(browser, design, length, chosen.steps, chosen.plain)
                cells.append(f"{clock:.0f} ({busy:.0f})")
                found = (busy, f"{evolution}, {readout}")
                slowest[length] = min(found, slowest.get(length, found))
            print(f"| {evolution} | {readout} | {' | '.join(cells)} |", flush=True)
    for length, (busy, name) in slowest.items():
        promise = f"promised {PROMISED[length]}"
        print(f"slowest at {length} tokens: {name}, {busy:.0f} per second computed ({promise})")


if __name__ == "__main__":
    main()
