// Tokens to logits, one block after another: `coefdyn.models.SequenceModel` on the lab's tasks, with its gradient.

import { generatorFor } from "../tasks/generator.js";
import { Block, LayerNorm } from "./blocks.js";
import { crossEntropy } from "./cross_entropy.js";
import { Linear } from "./linear.js";
import { checkedOptions } from "./options.js";
import { drawNormals, Space } from "./space.js";
import { troubleOf } from "./trouble.js";

const EMBEDDING_DEVIATION = 0.02;

class SequenceModel {
  constructor(options) {
    this.options = checkedOptions(options);
    const { width, layers, vocabulary, classes, length, positions, dtype } = this.options;
    const space = (this.space = new Space(dtype));
    this.positions = positions === "learned" ? space.parameter("positions", [length, width]) : null;
    this.embedding = space.parameter("embedding.weight", [vocabulary, width]);
    this.blocks = Array.from({ length: layers }, (_, at) => new Block(space, `blocks.${at}`, this.options));
    this.norm = new LayerNorm(space, "norm", width);
    this.head = new Linear(space, "head", width, classes, true);
    this.parameters = space.parameters;
    this.batch = 0;
    this.draw(generatorFor(this.options.seed, "weights"));
  }

  // The weights that torch draws for the same seed, in its order.
  draw(generator) {
    const { data } = this.embedding;
    drawNormals(data, 1, generator);
    drawNormals(data, EMBEDDING_DEVIATION, generator);
    if (this.positions) drawNormals(this.positions.data, EMBEDDING_DEVIATION, generator);
    for (const block of this.blocks) block.draw(generator);
    this.head.draw(generator);
    this.head.bias.data.fill(0);
  }

  // Logits (batch, L, classes) of `batch` sequences; they hold until the next call.
  forward(tokens, batch) {
    const { space, options: { width, length } } = this;
    const L = tokens.length / batch;
    if (!Number.isInteger(L) || L > length) {
      throw new Error(`${tokens.length} tokens are no ${batch} sequences of at most ${length}`);
    }
    Object.assign(this, { tokens, batch, length: L });
    const x = (this.x = space.room(this.x, tokens.length * width));
    for (let m = 0; m < tokens.length; m++) {
      const [from, place] = [tokens[m] * width, (m % L) * width];
      for (let c = 0; c < width; c++) {
        x[m * width + c] = this.embedding.data[from + c] + (this.positions ? this.positions.data[place + c] : 0);
      }
    }
    for (const block of this.blocks) block.forward(x, batch, L);
    this.logits = this.head.forward(this.norm.forward(x, tokens.length), tokens.length);
    return this.logits;
  }

  // Mean cross-entropy in nats over the targets that are not -100.
  loss({ tokens, targets, weights = null }, batch) {
    const { space, options: { classes } } = this;
    this.forward(tokens, batch);
    this.dLogits = space.room(this.dLogits, tokens.length * classes);
    return crossEntropy(this.logits, targets, classes, weights, this.dLogits);
  }

  // Gradients of the last loss into the parameters' `grad`.
  backward() {
    const { space, tokens, batch, length, options: { width } } = this;
    const size = tokens.length * width;
    const inner = (this.inner = space.room(this.inner, size));
    const dx = (this.dx = space.room(this.dx, size)).fill(0);
    this.head.backward(this.dLogits, inner, false);
    this.norm.backward(inner, dx);
    for (let at = this.blocks.length - 1; at >= 0; at--) this.blocks[at].backward(dx, batch, length);
    const tables = [[this.embedding, (m) => tokens[m]]];
    if (this.positions) tables.push([this.positions, (m) => m % length]);
    for (const [{ grad }, rowOf] of tables) {
      grad.fill(0);
      for (let m = 0; m < tokens.length; m++) {
        const to = rowOf(m) * width;
        for (let c = 0; c < width; c++) grad[to + c] += dx[m * width + c];
      }
    }
  }

  // The likeliest class at every position; -1 where a logit is NaN.
  predict(tokens, batch) {
    const logits = this.forward(tokens, batch);
    const { classes } = this.options;
    return Int32Array.from(tokens, (_, m) => {
      let best = 0;
      for (let c = 0; c < classes; c++) {
        const one = logits[m * classes + c];
        if (Number.isNaN(one)) return -1;
        if (one > logits[m * classes + best]) best = c;
      }
      return best;
    });
  }

  // alpha / eta (L, L) of the first sequence of the last call, or alpha; zeros above the diagonal.
  coefficients(layer, head, normalized = true) {
    const { length } = this;
    const { weights, etas } = this.blocks[layer].mixer.kept;
    const place = head * length * length;
    const found = weights.slice(place, place + length * length);
    if (!normalized) found.forEach((weight, at) => (found[at] = weight && weight * etas[head * length + Math.floor(at / length)]));
    return found;
  }

  // Where a number first stopped being finite in the last pass; null where all are finite.
  lookForTrouble() {
    return troubleOf(this);
  }
}

export const createModel = (options) => new SequenceModel(options);
