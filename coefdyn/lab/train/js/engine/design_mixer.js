// Any choice of the four ingredients, as `coefdyn.mixers.design.DesignMixer`; the names are the same.

import { GATE_MAPS, HeadGate, LowRankDecay, TimestepDecay } from "./gates.js";
import { Linear } from "./linear.js";
import { gatherHead, normalizeBackward, normalizeVectors, Rotary, scatterHead } from "./projections.js";
import { FEATURES } from "./readout.js";
import { ETA_KINDS, normaliseRow, readBackward, readValues } from "./rows.js";
import { dotOf, Head, pairBackward, pairScores, storedBackward, storedOf, storedScores } from "./scores.js";

export const DESIGN_DEFAULTS = {
  evolution: "identity", constant: 0.95, decay: "mamba2", beta: "learned", readout: "exp", normalizer: "row_sum",
  ratio: 1.05, scaling: "inverse_sqrt", query_key_norm: false,
};
export const DESIGN_CHOICES = {
  evolution: [
    "identity", "constant", "scalar", "diagonal", "householder", "householder_learned", "scaled_householder",
  ],
  decay: ["mamba2", "gla"],
  beta: ["learned", "fixed"],
  readout: ["identity", "exp", "relu", "softplus", ...Object.keys(FEATURES)],
  normalizer: ETA_KINDS,
  scaling: ["one", "inverse_sqrt", "gate", "gate_inverse_sqrt", "delta", "beta", "exponential"],
};

export class DesignMixer {
  constructor(space, name, { design, width, heads, length, positions }) {
    const n = width / heads;
    Object.assign(this, { space, design, width, heads, n });
    const { evolution, decay, readout, scaling, normalizer } = design;
    this.reflects = evolution.includes("householder");
    this.decays = ["constant", "scalar", "diagonal", "scaled_householder"].includes(evolution);
    this.psi = readout.startsWith("psi_") ? readout : null;
    this.stored = this.reflects || evolution === "diagonal" || (this.psi !== null && this.decays);
    const linear = (part) => new Linear(space, `${name}.${part}`, width, width);
    this.project = ["query", "key", "value"].map((part) => linear(`project.${part}.linear`));
    if (evolution === "householder_learned") this.project.push(linear("project.direction.linear"));
    this.output = linear("output.projection");
    this.channels = evolution === "diagonal" ? width : heads;
    const gated = this.decays && evolution !== "constant";
    const Decay = decay === "mamba2" ? TimestepDecay : LowRankDecay;
    this.decay = gated ? new Decay(space, `${name}.decay`, { width, channels: this.channels }) : null;
    const gate = (part, kind, more) => new HeadGate(space, `${name}.${part}`, { width, heads, kind, ...more });
    const learned = this.reflects && design.beta === "learned";
    this.beta = learned ? gate("beta", "sigmoid", { factor: 2 }) : null;
    this.eta = normalizer in GATE_MAPS ? gate("eta", normalizer) : null;
    this.sharesDelta = scaling === "delta" && decay === "mamba2" && gated && evolution !== "diagonal";
    this.sharesBeta = scaling === "beta" && this.reflects;
    this.write = null;
    if (scaling === "delta" && !this.sharesDelta) this.write = gate("write", "softplus", { bias: true });
    if (scaling === "gate" || scaling === "gate_inverse_sqrt") this.write = gate("write", "sigmoid");
    if (scaling === "beta" && !this.sharesBeta) this.write = gate("write", "sigmoid", { factor: 2 });
    if (scaling === "exponential") this.write = gate("write", "exp");
    const whole = ["one", "gate", "delta"].includes(scaling);
    this.scale = typeof scaling === "number" ? scaling : whole ? 1 : n ** -0.5;
    this.rotary = positions === "rotary" ? new Rotary(length, n) : null;
    this.longest = length;
  }

  // In torch's order.
  draw(generator) {
    for (const part of [...this.project, this.output, this.decay, this.beta, this.eta, this.write]) {
      if (part) part.draw(generator);
    }
  }

  forward(x, batch, length) {
    const { space, project, heads, n, width } = this;
    const rows = batch * length;
    Object.assign(this, { batch, length, rows });
    const [q, k, v, z] = project.map((map) => map.forward(x, rows));
    if (this.design.query_key_norm) {
      this.norms = [q, k].map((y, at) => {
        const inverse = space.room(this.norms && this.norms[at], rows * heads);
        normalizeVectors(y, y, inverse, rows * heads, n);
        return inverse;
      });
    }
    if (this.rotary) for (const y of [q, k]) this.rotary.turn(y, batch, length, heads, 1);
    this.direction = null;
    if (this.reflects) {
      this.direction = z || (this.ownDirection = space.room(this.ownDirection, rows * width));
      this.inverse = space.room(this.inverse, rows * heads);
      normalizeVectors(this.direction, z || k, this.inverse, rows * heads, n);
    }
    if (this.decay) this.decay.forward(x, rows);
    for (const gate of [this.beta, this.eta, this.write]) if (gate) gate.forward(x, rows);
    const pairs = batch * heads * length;
    const kept = (this.kept = this.kept || {});
    for (const name of ["weights", "gains"]) kept[name] = space.room(kept[name], pairs * length);
    for (const name of ["etas", "shares"]) kept[name] = space.room(kept[name], pairs);
    const mixed = (this.mixed = space.room(this.mixed, rows * width));
    for (let m = 0; m < batch; m++) {
      for (let h = 0; h < heads; h++) {
        const head = this.load(m, h);
        if (this.stored) storedScores(head, this.storedAt(m, h));
        else pairScores(head);
        const row = (m * heads + h) * length;
        for (let i = 0; i < length; i++) normaliseRow(head, i, head.eta[i], row * length, row, kept);
        gatherHead(head.v, v, this.vectorAt(m, h), n, width, length);
        readValues(head, kept.weights, row * length);
        scatterHead(mixed, head.y, this.vectorAt(m, h), n, width, length);
      }
    }
    return this.output.forward(mixed, rows);
  }

  vectorAt(m, h) {
    return m * this.length * this.width + h * this.n;
  }

  numberAt(m, h) {
    return m * this.length * this.heads + h;
  }

  // What the stored keys of one head become, made once for each head and sequence of a batch.
  storedAt(m, h) {
    if (this.keptLength !== this.length) Object.assign(this, { keptLength: this.length, keptStates: [] });
    const at = m * this.heads + h;
    return (this.keptStates[at] = this.keptStates[at] || storedOf(this.head));
  }

  // The ingredients of one head of one sequence.
  load(m, h) {
    const { length, n, width, heads, scale } = this;
    const { readout, normalizer, constant, ratio } = this.design;
    const head = (this.head = this.head && this.head.L === length ? this.head : new Head(length, n, n, {
      stored: this.stored, psi: this.psi, decays: this.decays, reflects: this.reflects,
      readout: this.psi ? "identity" : readout, normalizer,
    }, this.space.tiny));
    const numbers = (into, from) => gatherHead(into, from, this.numberAt(m, h), 1, heads, length);
    const vectors = (into, from) => gatherHead(into, from, this.vectorAt(m, h), n, width, length);
    vectors(head.q, this.project[0].y);
    vectors(head.k, this.project[1].y);
    if (this.beta) numbers(head.beta, this.beta.y);
    else head.beta.fill(2);
    head.b.fill(1);
    if (this.sharesBeta) head.b.set(head.beta);
    if (this.sharesDelta) numbers(head.b, this.decay.delta);
    if (this.write) numbers(head.b, this.write.y);
    for (let t = 0; t < length; t++) {
      head.b[t] *= scale;
      for (let c = t * n; c < (t + 1) * n; c++) head.keys[c] = head.b[t] * head.k[c];
    }
    if (this.eta) numbers(head.eta, this.eta.y);
    else for (let t = 0; t < length; t++) head.eta[t] = normalizer === "geometric" ? ratio ** (t + 1) : 1;
    if (this.direction) vectors(head.z, this.direction);
    if (this.decays) this.loadDecay(head, m, h, constant);
    if (this.psi && !this.stored) {
      const psi = FEATURES[this.psi];
      psi(head.q, 0, length * n, 0, head.q, head.qSlopes);
      psi(head.keys, 0, length * n, 0, head.keys, head.keySlopes);
    }
    return head;
  }

  loadDecay(head, m, h, constant) {
    const { length, n, width, heads } = this;
    if (this.channels === width) {
      gatherHead(head.decay, this.decay.logDecay, this.vectorAt(m, h), n, width, length);
      for (let at = 0; at < length * n; at++) head.decay[at] = Math.exp(head.decay[at]);
      return;
    }
    if (this.decay) gatherHead(head.a, this.decay.logDecay, this.numberAt(m, h), 1, heads, length);
    for (let t = 0; t < length; t++) {
      head.a[t] = this.decay ? Math.exp(head.a[t]) : constant;
      for (let c = t * n; c < (t + 1) * n; c++) head.decay[c] = head.a[t];
    }
  }

  // Writes the gradient of x into dx.
  backward(dOut, dx) {
    const { space, project, heads, n, width, rows, batch, length, kept } = this;
    const dMixed = (this.dMixed = space.room(this.dMixed, rows * width));
    this.output.backward(dOut, dMixed, false);
    const d = (this.d = this.d || {});
    for (const name of ["q", "k", "v", "z"]) d[name] = space.room(d[name], rows * width);
    for (const name of ["write", "beta", "eta"]) d[name] = space.room(d[name], rows * heads);
    d.decay = space.room(d.decay, rows * this.channels);
    for (let m = 0; m < batch; m++) {
      for (let h = 0; h < heads; h++) {
        const head = this.load(m, h);
        const row = (m * heads + h) * length;
        gatherHead(head.v, project[2].y, this.vectorAt(m, h), n, width, length);
        gatherHead(head.dy, dMixed, this.vectorAt(m, h), n, width, length);
        readBackward(head, row * length, row, kept);
        if (this.stored) storedBackward(head, this.storedAt(m, h));
        else pairBackward(head);
        this.unload(head, m, h);
      }
    }
    if (this.reflects) {
      normalizeBackward(this.project[3] ? d.z : d.k, d.z, this.direction, this.inverse, rows * heads, n, !project[3]);
    }
    if (this.rotary) for (const y of [d.q, d.k]) this.rotary.turn(y, batch, length, heads, -1);
    if (this.design.query_key_norm) this.queryKeyNormBackward();
    [d.q, d.k, d.v, d.z].slice(0, project.length).forEach((dy, at) => project[at].backward(dy, dx, at > 0));
    if (this.beta) this.beta.backward(d.beta, dx);
    if (this.eta) this.eta.backward(d.eta, dx);
    if (this.write) this.write.backward(d.write, dx);
    if (this.decay) this.decay.backward(d.decay, dx);
  }

  // q and k were normalized before they were turned.
  queryKeyNormBackward() {
    const { d, rows, heads, n, batch, length, rotary } = this;
    [d.q, d.k].forEach((dy, at) => {
      const unit = this.project[at].y;
      if (rotary) rotary.turn(unit, batch, length, heads, -1);
      normalizeBackward(dy, dy, unit, this.norms[at], rows * heads, n, false);
    });
  }

  // The gradients of one head, to where its ingredients came from.
  unload(head, m, h) {
    const { length, n, width, heads, scale, d } = this;
    const numbers = (into, from) => scatterHead(into, from, this.numberAt(m, h), 1, heads, length);
    const vectors = (into, from) => scatterHead(into, from, this.vectorAt(m, h), n, width, length);
    if (this.psi && !this.stored) {
      for (let at = 0; at < length * n; at++) {
        head.dq[at] *= head.qSlopes[at];
        head.dKeys[at] *= head.keySlopes[at];
      }
    }
    for (let t = 0; t < length; t++) {
      head.dB[t] = scale * dotOf(head.dKeys, head.k, t * n, t * n, n);
      for (let c = t * n; c < (t + 1) * n; c++) head.dk[c] = head.b[t] * head.dKeys[c];
      if (this.sharesBeta) head.dBeta[t] += head.dB[t];
    }
    vectors(d.q, head.dq);
    vectors(d.k, head.dk);
    vectors(d.v, head.dv);
    if (this.reflects) vectors(d.z, head.dz);
    if (this.beta) numbers(d.beta, head.dBeta);
    if (this.eta) numbers(d.eta, head.dEta);
    if (this.write) numbers(d.write, head.dB);
    if (this.sharesDelta) numbers(this.decay.dDelta, head.dB);
    if (!this.decay) return;
    if (this.channels === width) {
      vectors(d.decay, head.dDecay);
      return;
    }
    if (this.stored) {
      for (let t = 0; t < length; t++) {
        head.dLogA[t] = 0;
        for (let c = t * n; c < (t + 1) * n; c++) head.dLogA[t] += head.dDecay[c];
      }
    }
    numbers(d.decay, head.dLogA);
  }
}
