// Products of matrices, and linear maps made of them.

import { simd } from "./simd.js";
import { drawUniformWithin } from "./space.js";

// Below so many products the copies of `simd` cost more than they save.
const SIMD_PAYS = 2048;

// out[m, n] = sum_k left[m, k] right[k, n] (added to what is there if `add`). Strides say where elements lie, so a
// transpose is no copy: left[m, k] is left[m leftRow + k leftStep], right[k, n] is right[k rightStep + n rightColumn].
// Each matrix fills its array from the start, and the rows of out are contiguous.
function multiply(out, rows, columns, inner, ...operands) {
  const fast = simd && out instanceof Float32Array && rows * columns * inner >= SIMD_PAYS;
  if (fast) simd.multiply(out, rows, columns, inner, ...operands);
  else multiplyTiled(out, rows, columns, inner, ...operands);
}

// In tiles of 4 x 4 whose sums stay in registers.
function multiplyTiled(out, rows, columns, inner, left, leftRow, leftStep, right, rightStep, rightColumn, add) {
  const [tiledRows, tiledColumns] = [rows & ~3, columns & ~3];
  if (!add) out.fill(0, 0, rows * columns);
  for (let n = 0; n < tiledColumns; n += 4) {
    for (let m = 0; m < tiledRows; m += 4) {
      let c00 = 0, c01 = 0, c02 = 0, c03 = 0, c10 = 0, c11 = 0, c12 = 0, c13 = 0;
      let c20 = 0, c21 = 0, c22 = 0, c23 = 0, c30 = 0, c31 = 0, c32 = 0, c33 = 0;
      let i0 = m * leftRow, i1 = i0 + leftRow, i2 = i1 + leftRow, i3 = i2 + leftRow;
      let j0 = n * rightColumn, j1 = j0 + rightColumn, j2 = j1 + rightColumn, j3 = j2 + rightColumn;
      for (let k = 0; k < inner; k++) {
        const x0 = left[i0], x1 = left[i1], x2 = left[i2], x3 = left[i3];
        const y0 = right[j0], y1 = right[j1], y2 = right[j2], y3 = right[j3];
        c00 += x0 * y0; c01 += x0 * y1; c02 += x0 * y2; c03 += x0 * y3;
        c10 += x1 * y0; c11 += x1 * y1; c12 += x1 * y2; c13 += x1 * y3;
        c20 += x2 * y0; c21 += x2 * y1; c22 += x2 * y2; c23 += x2 * y3;
        c30 += x3 * y0; c31 += x3 * y1; c32 += x3 * y2; c33 += x3 * y3;
        i0 += leftStep; i1 += leftStep; i2 += leftStep; i3 += leftStep;
        j0 += rightStep; j1 += rightStep; j2 += rightStep; j3 += rightStep;
      }
      let at = m * columns + n;
      out[at] += c00; out[at + 1] += c01; out[at + 2] += c02; out[at + 3] += c03;
      at += columns;
      out[at] += c10; out[at + 1] += c11; out[at + 2] += c12; out[at + 3] += c13;
      at += columns;
      out[at] += c20; out[at + 1] += c21; out[at + 2] += c22; out[at + 3] += c23;
      at += columns;
      out[at] += c30; out[at + 1] += c31; out[at + 2] += c32; out[at + 3] += c33;
    }
  }
  for (let m = 0; m < rows; m++) {
    for (let n = m < tiledRows ? tiledColumns : 0; n < columns; n++) {
      let sum = 0;
      for (let k = 0; k < inner; k++) sum += left[m * leftRow + k * leftStep] * right[k * rightStep + n * rightColumn];
      out[m * columns + n] += sum;
    }
  }
}

// y = W x + c for every row x; W (outputs, inputs) as in torch.nn.Linear.
export class Linear {
  constructor(space, name, inputs, outputs, bias = false) {
    this.space = space;
    this.inputs = inputs;
    this.outputs = outputs;
    this.weight = space.parameter(`${name}.weight`, [outputs, inputs]);
    this.bias = bias ? space.parameter(`${name}.bias`, [outputs]) : null;
  }

  draw(generator) {
    const bound = 1 / Math.sqrt(this.inputs);
    drawUniformWithin(this.weight.data, bound, generator);
    if (this.bias) drawUniformWithin(this.bias.data, bound, generator);
  }

  forward(x, rows) {
    const { inputs, outputs, weight, bias } = this;
    this.x = x;
    this.rows = rows;
    this.y = this.space.room(this.y, rows * outputs);
    if (bias) for (let m = 0; m < rows; m++) this.y.set(bias.data, m * outputs);
    multiply(this.y, rows, outputs, inputs, x, inputs, 1, weight.data, 1, inputs, Boolean(bias));
    return this.y;
  }

  // The gradient of x is added to dx, or written there.
  backward(dy, dx, add) {
    const { rows, inputs, outputs, weight, bias, x } = this;
    multiply(weight.grad, outputs, inputs, rows, dy, 1, outputs, x, inputs, 1, false);
    if (bias) sumOfRows(bias.grad, dy, rows);
    multiply(dx, rows, inputs, outputs, dy, outputs, 1, weight.data, inputs, 1, add);
  }
}

// The sum of so many rows, each as long as the result.
export function sumOfRows(sum, values, rows) {
  const width = sum.length;
  sum.fill(0);
  for (let m = 0; m < rows; m++) for (let c = 0; c < width; c++) sum[c] += values[m * width + c];
}
