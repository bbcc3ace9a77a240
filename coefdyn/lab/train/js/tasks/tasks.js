// The tasks that a page can draw: from the same configuration, seed and split the same tokens as coefdyn.lab.tasks.

const IGNORE = -100; // a target that is not scored

// n sequences as one batch: `row(m)` gives the inputs and the targets of sequence m.
function batchOf(n, row) {
  const rows = Array.from({ length: n }, (_, m) => row(m));
  const length = rows[0][0].length;
  const gather = (part) => Int32Array.from({ length: n * length }, (_, at) => rows[Math.floor(at / length)][part][at % length]);
  return { n, length, inputs: gather(0), targets: gather(1) };
}

const TASK_SAMPLERS = {
  "noisy-recall": [sampleRecall, recallName],
  recall: [sampleRecall, recallName],
  mqar: [sampleMqar, (c, token) => keyedName(c, token, "_")],
  "selective-copying": [sampleCopying, copyingName],
  overwrite: [sampleOverwrite, (c, token) => keyedName(c, token, "/")],
  forget: [sampleForget, (c, token) => keyedName(c, token, "/")],
  "long-memory": [sampleLongMemory, memoryName],
  position: [samplePosition, (c, token) => String(token)],
  parity: [sampleParity, (c, token) => String(token)],
};

// `config` is what TaskConfig.to_dict() gives.
const sampleTask = (config, n, generator, split = "train") => TASK_SAMPLERS[config.task][0](config, n, generator, split);
const taskTokenName = (config, token) => TASK_SAMPLERS[config.task][1](config, token);

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

// The training and test sequences of a seed, and the batch of a step: those of coefdyn.lab.training.data.GroupData.
class TaskData {
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
