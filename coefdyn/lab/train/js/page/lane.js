// One design on its way: its worker, and everything that it has told so far.

import TRAIN from "coefdyn:offered";

// A worker that runs this text.
export function pageWorker(text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(url);
  worker.addEventListener("message", () => URL.revokeObjectURL(url), { once: true });
  return worker;
}

const MOST_FRAMES = 64; // of a film; then every second one is left out

export class Lane {
  constructor(worker, run, look, hear) {
    Object.assign(this, { worker, run, look, hear, t: 0, losses: [], marks: [], every: TRAIN.every, begin: 0, seen: null, trouble: null });
    this.waiting = [];
    this.worker.onmessage = ({ data }) => this.take(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.take({ kind: "start", error: `the worker could not start (${event.message || "no reason given"})` });
    };
    this.ask("start", { run, look });
  }

  get busy() {
    return this.waiting.length > 0;
  }

  // A question to the worker; the answer comes to `then`, or to the figure.
  ask(kind, more = {}, then = null) {
    this.waiting.push(then);
    this.worker.postMessage({ kind, look: this.look, ...more });
  }

  take(data) {
    const then = this.waiting.shift();
    if (!data.error && data.look) this.keep(data);
    if (then) then(data);
    this.hear(this, data);
  }

  keep({ t, losses, marks, look, trouble, first }) {
    if (first) Object.assign(this, { losses: [], marks: [], every: TRAIN.every, begin: t, sequence: first });
    losses.forEach((loss) => this.losses.push(loss));
    this.marks.push(...marks);
    if (this.marks.length > MOST_FRAMES) {
      this.every *= 2;
      this.marks = this.marks.filter(({ t: at }, m) => m === 0 || at % this.every === 0 || m === this.marks.length - 1);
    }
    Object.assign(this, { t, seen: look, trouble });
  }

  // At once, in the middle of a step.
  end() {
    this.worker.terminate();
    this.waiting = [];
  }
}
