// One run in a worker: its sequences, model and optimiser, and what the page wants to see of it.

import { adamw } from "../engine/adamw.js";
import { loadWeights, saveWeights } from "../engine/checkpoint.js";
import { createModel } from "../engine/sequence_model.js";
import { IGNORE } from "../tasks/batch.js";
import { TaskData } from "../tasks/tasks.js";
import TRAIN from "coefdyn:offered";

const EVERY = TRAIN.every; // steps between two looks at the test set

export class Trainer {
  constructor({ task, design, size, positions, seed, rate, sequence = 1 }) {
    Object.assign(this, { task, sequence });
    this.data = new TaskData(task, seed, size.batch);
    const { width, layers, heads, mlp } = size;
    this.model = createModel({ design, width, layers, heads, mlp, positions, seed,
      vocabulary: task.vocab_size, classes: task.vocab_size, length: this.data.train.length });
    this.size = size;
    this.rate = rate;
    this.begin(0);
  }

  // From step t on, with an optimiser that remembers nothing.
  begin(t) {
    this.t = t;
    this.trouble = null;
    this.optimizer = adamw(this.model.parameters, { learningRate: this.rate, steps: 1e9, schedule: "constant", warmup: 20 });
  }

  // So many steps, fewer if a number stops being finite.
  work(count) {
    const [losses, marks] = [[], []];
    for (let k = 0; k < count && !this.trouble; k++) {
      const { inputs, targets, n } = this.data.trainBatch(this.t);
      const loss = this.model.loss({ tokens: inputs, targets }, n);
      if (Number.isFinite(loss)) this.model.backward();
      if (!Number.isFinite(loss) || !this.optimizer.step().finite) {
        this.trouble = { ...(this.model.lookForTrouble() || { part: "gradient" }), t: this.t + 1 };
        break;
      }
      losses.push(loss);
      this.t += 1;
      if (this.t % EVERY === 0) marks.push(this.mark());
    }
    return { losses, marks };
  }

  // Loss and accuracy on the test set, and one frame of the film.
  mark() {
    let [sum, right, scored] = [0, 0, 0];
    for (let start = 0; start < this.data.test.n; start += this.size.batch) {
      const { inputs, targets, n } = this.data.testRows(start, this.size.batch);
      const asked = targets.reduce((count, target) => count + (target !== IGNORE), 0);
      sum += asked * this.model.loss({ tokens: inputs, targets }, n);
      const said = this.model.predict(inputs, n);
      targets.forEach((target, at) => (right += target !== IGNORE && said[at] === target));
      scored += asked;
    }
    return { t: this.t, loss: sum / scored, accuracy: right / scored, ...this.frame() };
  }

  // The test sequence that the film shows: the one that was looked at when the run began.
  filmRow() {
    return this.data.testRows((this.sequence - 1) % this.data.test.n, 1);
  }

  // alpha / eta of every layer and head on that sequence: signed bytes, and the scale of each matrix.
  frame() {
    const { inputs, length: L } = this.filmRow();
    this.model.predict(inputs, 1);
    const { layers, heads } = this.size;
    const bytes = new Int8Array((layers * heads * L * (L + 1)) / 2);
    const scales = [];
    let at = 0;
    for (let layer = 0; layer < layers; layer++) {
      for (let head = 0; head < heads; head++) {
        const values = this.model.coefficients(layer, head);
        const scale = values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
        scales.push(scale);
        for (let i = 0; i < L; i++) for (let j = 0; j <= i; j++) bytes[at++] = Math.round((values[i * L + j] / (scale || 1)) * 127);
      }
    }
    return { bytes, scales };
  }

  // The matrix of a layer and head, from 1, on a test sequence, and what the model answers there.
  look({ layer, head, sequence }) {
    const { inputs, targets, length } = this.data.testRows((sequence - 1) % this.data.test.n, 1);
    const said = this.model.predict(inputs, 1);
    const matrix = this.model.coefficients(layer - 1, head - 1);
    return { matrix, said, inputs, targets, length };
  }

  save(notes) {
    return saveWeights(this.model, { ...notes, step: String(this.t) });
  }

  load(bytes) {
    const { step } = loadWeights(this.model, bytes);
    this.begin(/^\d{1,9}$/.test(step) ? Number(step) : 0);
  }
}
