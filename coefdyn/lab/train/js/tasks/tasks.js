// The tasks that a page can draw: from the same configuration, seed and split the same tokens as coefdyn.lab.tasks.

import { copyingName, sampleCopying } from "./copying.js";
import { generatorFor } from "./generator.js";
import { memoryName, sampleForget, sampleLongMemory, sampleOverwrite, samplePosition } from "./keeping.js";
import { keyedName, sampleMqar } from "./mqar.js";
import { recallName, sampleRecall } from "./recall.js";
import { sampleParity } from "./tracking.js";

const TASK_SAMPLERS = {
  "noisy-recall": sampleRecall,
  recall: sampleRecall,
  mqar: sampleMqar,
  "selective-copying": sampleCopying,
  overwrite: sampleOverwrite,
  forget: sampleForget,
  "long-memory": sampleLongMemory,
  position: samplePosition,
  parity: sampleParity,
};

const TOKEN_NAMES = {
  "noisy-recall": recallName,
  recall: recallName,
  mqar: (c, token) => keyedName(c, token, "_"),
  "selective-copying": copyingName,
  overwrite: (c, token) => keyedName(c, token, "/"),
  forget: (c, token) => keyedName(c, token, "/"),
  "long-memory": memoryName,
  position: (c, token) => String(token),
  parity: (c, token) => String(token),
};

// `config` is what TaskConfig.to_dict() gives.
const sampleTask = (config, n, generator, split = "train") => TASK_SAMPLERS[config.task](config, n, generator, split);
export const taskTokenName = (config, token) => TOKEN_NAMES[config.task](config, token);

// The rows of a batch that are named, in this order.
function batchRows(batch, rows) {
  const { length } = batch;
  const [inputs, targets] = [new Int32Array(rows.length * length), new Int32Array(rows.length * length)];
  rows.forEach((row, m) => {
    inputs.set(batch.inputs.subarray(row * length, (row + 1) * length), m * length);
    targets.set(batch.targets.subarray(row * length, (row + 1) * length), m * length);
  });
  return { n: rows.length, length, inputs, targets };
}

// The training and test sequences of a seed, and the batch of a step: those of coefdyn.lab.training.data.RunData.
export class TaskData {
  constructor(config, seed, batch) {
    this.config = config;
    this.seed = seed;
    this.batch = batch;
    this.train = sampleTask(config, config.train_examples, generatorFor(seed, "train"), "train");
    this.test = sampleTask(config, config.test_examples, generatorFor(seed, "test"), "test");
    this.epoch = -1;
  }

  // Step t counts from 0.
  trainBatch(t) {
    const perEpoch = Math.floor(this.config.train_examples / this.batch);
    const epoch = Math.floor(t / perEpoch);
    if (epoch !== this.epoch) {
      this.order = generatorFor(this.seed, "order", epoch).permutation(this.config.train_examples);
      this.epoch = epoch;
    }
    const start = (t - epoch * perEpoch) * this.batch;
    return batchRows(this.train, this.order.subarray(start, start + this.batch));
  }

  testRows(start, count) {
    const rows = Array.from({ length: Math.min(count, this.test.n - start) }, (_, m) => start + m);
    return batchRows(this.test, rows);
  }
}
