// The product of two float32 matrices, four numbers at a time: one WebAssembly function, put together here from its
// instructions. Where a browser has no WebAssembly SIMD, `multiply` does without, and a training step takes longer.
//
//   out[m, n] = sum_k left[m, k] right[k, n],  rows and columns multiples of 4, all strides in bytes
//
// in tiles of 4 x 4: each row of a tile is one vector, to which left[m, k] right[k, n .. n + 3] is added.

function simdBytes() {
  const whole = (x) => (x < 128 ? [x] : [(x & 127) | 128, ...whole(x >> 7)]);
  const list = (items) => [...whole(items.length), ...items.flat()];
  const section = (id, content) => [id, ...whole(content.length), ...content];
  const [I32, V128, EMPTY] = [0x7f, 0x7b, 0x40];
  const parameters = ["out", "left", "right", "rows", "columns", "inner", "leftRow", "leftStep"];
  const integers = ["column", "k", "p", "q", "r", "at"];
  const vectors = ["y", "sum0", "sum1", "sum2", "sum3"];
  const place = (name) => [...parameters, ...integers, ...vectors].indexOf(name);
  const get = (name) => [0x20, place(name)];
  const set = (name, ...value) => [...value.flat(), 0x21, place(name)];
  const constant = (x) => [0x41, ...whole(x)]; // below 64
  const plus = (x, y) => [...x, ...y, 0x6a];
  const minus = (x, y) => [...x, ...y, 0x6b];
  const zero = [0xfd, 12, ...Array(16).fill(0)];
  const load = (pointer) => [...get(pointer), 0xfd, 0, 2, 0];
  const loadSplat = (pointer) => [...get(pointer), 0xfd, 9, 2, 0];
  const store = (pointer, value) => [...get(pointer), ...get(value), 0xfd, 11, 2, 0];
  const multiplied = (x, y) => [...x, ...y, 0xfd, 0xe6, 1];
  const added = (x, y) => [...x, ...y, 0xfd, 0xe4, 1];
  // the body, then again while the condition is not 0
  const repeat = (body, condition) => [0x03, EMPTY, ...body.flat(), ...condition.flat(), 0x0d, 0, 0x0b];
  const sums = vectors.slice(1);
  const step = [
    set("y", load("r")),
    set("q", get("p")),
    ...sums.flatMap((sum) => [
      set(sum, added(get(sum), multiplied(loadSplat("q"), get("y")))),
      set("q", plus(get("q"), get("leftRow"))),
    ]),
    set("p", plus(get("p"), get("leftStep"))),
    set("r", plus(get("r"), get("columns"))),
    set("k", minus(get("k"), constant(1))),
  ];
  const tile = [
    ...sums.map((sum) => set(sum, zero)),
    set("p", get("left")),
    set("r", plus(get("right"), get("column"))),
    set("k", get("inner")),
    repeat(step, [get("k")]),
    set("at", plus(get("out"), get("column"))),
    ...sums.flatMap((sum) => [store("at", sum), set("at", plus(get("at"), get("columns")))]),
    set("column", plus(get("column"), constant(16))),
  ];
  const fourRows = [
    set("column", constant(0)),
    repeat(tile, [get("column"), get("columns"), [0x49]]), // column < columns
    ...["out", "columns", "left", "leftRow"].flatMap((name, index, names) => {
      return index % 2 ? [] : Array.from({ length: 4 }, () => set(name, plus(get(name), get(names[index + 1]))));
    }),
    set("rows", minus(get("rows"), constant(4))),
  ];
  const locals = list([[integers.length, I32], [vectors.length, V128]]);
  const body = [...locals, ...repeat(fourRows, [get("rows")]), 0x0b];
  const text = (word) => list([...word].map((letter) => [letter.charCodeAt(0)]));
  return Uint8Array.from([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, list([[0x60, ...list(parameters.map(() => [I32])), 0]])),
    ...section(3, list([[0]])),
    ...section(5, list([[0, 16]])), // a memory of 16 pages, that can grow
    ...section(7, list([[...text("multiply"), 0, 0], [...text("memory"), 2, 0]])),
    ...section(10, list([[...whole(body.length), ...body]])),
  ]);
}

class SimdProduct {
  constructor() {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(simdBytes()));
    this.run = exports.multiply;
    this.memory = exports.memory;
    this.numbers = new Float32Array(this.memory.buffer);
  }

  // As `multiply`: the matrices are copied in, right with contiguous rows of whole vectors, and the result is copied out.
  multiply(out, rows, columns, inner, left, leftRow, leftStep, right, rightStep, rightColumn, add) {
    const [tall, wide] = [(rows + 3) & ~3, (columns + 3) & ~3];
    const [rightAt, outAt] = [tall * inner + 4 * inner, (tall + 4 + wide) * inner];
    const needed = 4 * (outAt + tall * wide);
    if (needed > this.memory.buffer.byteLength) {
      this.memory.grow(Math.ceil((needed - this.memory.buffer.byteLength) / 65536));
      this.numbers = new Float32Array(this.memory.buffer);
    }
    const { numbers } = this;
    numbers.set(rows * inner === left.length ? left : left.subarray(0, rows * inner));
    if (rightColumn === 1 && wide === columns) {
      numbers.set(inner * columns === right.length ? right : right.subarray(0, inner * columns), rightAt);
    } else {
      for (let k = 0; k < inner; k++) {
        const to = rightAt + k * wide;
        for (let n = 0; n < columns; n++) numbers[to + n] = right[k * rightStep + n * rightColumn];
      }
    }
    this.run(4 * outAt, 0, 4 * rightAt, tall, 4 * wide, inner, 4 * leftRow, 4 * leftStep);
    if (!add && wide === columns) {
      out.set(numbers.subarray(outAt, outAt + rows * columns));
      return;
    }
    for (let m = 0; m < rows; m++) {
      const [to, from] = [m * columns, outAt + m * wide];
      for (let n = 0; n < columns; n++) out[to + n] = add ? out[to + n] + numbers[from + n] : numbers[from + n];
    }
  }
}

// null in an older browser
export const simd = (() => {
  try {
    return new SimdProduct();
  } catch {
    return null;
  }
})();
