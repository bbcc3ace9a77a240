// How much work the worker gets at a time, so that the page stays smooth and the device cool.

import { formatNumber } from "../../../../widgets/js/text.js";

const MESSAGE_MS = 60; // of work between two looks
const LEAST_FRAMES = 30; // a second
const LEAST_SHARE = 1 / 4;
const CALM_MS = 5000; // without a slow second, before the work is doubled again

export class Pace {
  constructor() {
    this.share = 1;
    this.most = 1;
    this.perStep = MESSAGE_MS;
    this.rate = 0;
    this.times = [];
  }

  // Steps of the next message, and the rest before it in milliseconds.
  next(perSecond) {
    if (perSecond) return { count: 1, rest: 1000 / perSecond };
    const count = Math.max(1, Math.round((this.share * MESSAGE_MS) / this.perStep));
    return { count, rest: this.share < 1 ? Math.min(1000, count * this.perStep * (1 / this.share - 1)) : 0 };
  }

  took(steps, ms) {
    if (!steps) return;
    this.perStep = Math.max(0.05, 0.5 * this.perStep + 0.5 * (ms / steps));
  }

  halve() {
    if (this.share > LEAST_SHARE) this.share /= 2;
    this.slowed = performance.now();
  }

  // Called at every frame while it trains: halves the work when the last second had fewer than 30.
  frame(now) {
    this.times.push(now);
    while (now - this.times[0] > 1000) this.times.shift();
    const span = now - this.times[0];
    if (span < 700) return;
    this.frames = (1000 * (this.times.length - 1)) / span;
    if (this.frames >= LEAST_FRAMES) {
      if (this.share < this.most && now - this.slowed > CALM_MS) {
        this.share *= 2;
        this.slowed = now;
      }
      return;
    }
    this.halve();
    this.times = [];
  }

  words() {
    const reasons = [];
    if (this.most < 1) reasons.push("the device runs on its battery");
    if (this.share < this.most) reasons.push("the page drew fewer than 30 frames a second");
    return reasons.length ? `Since ${reasons.join(" and ")}, it does ${formatNumber(100 * this.share)} % of the work it could.` : "";
  }
}

// A phone or laptop that runs on its battery does half of the work; browsers that do not tell are taken to be plugged in.
export async function mindBattery(pace) {
  try {
    const battery = await navigator.getBattery();
    if (battery.charging) return;
    pace.most = 1 / 2;
    pace.halve();
  } catch {
    // Nothing is known of a battery.
  }
}
