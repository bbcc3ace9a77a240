// Where the numbers of a model live: float32 or float64 arrays, parameters by name, and rows that are made once and
// used again at every step.

export const KINDS = { float32: Float32Array, float64: Float64Array };

export class Space {
  constructor(dtype) {
    this.Kind = KINDS[dtype];
    this.tiny = dtype === "float32" ? 2 ** -126 : 2 ** -1022;
    this.parameters = [];
  }

  // A parameter as torch's state_dict lists it. Weight decay leaves those alone that their authors exempt.
  parameter(name, shape, { decayed = true } = {}) {
    const size = shape.reduce((product, axis) => product * axis, 1);
    const made = { name, shape, decayed, data: new this.Kind(size), grad: new this.Kind(size) };
    this.parameters.push(made);
    return made;
  }

  // An array of at least this size: the one held, or a new one. Its content is arbitrary.
  room(held, size) {
    return held && held.length >= size ? held : new this.Kind(size);
  }
}

// Draws as torch.nn makes them: uniform within +-bound, each number rounded to float32.
export function drawUniformWithin(array, bound, generator) {
  drawUniformBetween(array, -bound, bound, generator);
}

export function drawUniformBetween(array, low, high, generator) {
  for (let at = 0; at < array.length; at++) array[at] = Math.fround(generator.uniform() * (high - low) + low);
}

// Normal numbers as torch.randn makes 16 or more of them: Box and Muller on blocks of 16 uniform ones, where an
// incomplete last block is drawn again; fewer than 16 come in pairs from float64.
export function drawNormals(array, deviation, generator) {
  const size = array.length;
  const drawn = size < 16 ? fewNormals(size, generator) : Float64Array.from(array, () => generator.uniform());
  if (size >= 16) {
    for (let start = 0; start + 16 <= size; start += 16) normalBlock(drawn, start);
    if (size % 16) {
      for (let at = size - 16; at < size; at++) drawn[at] = generator.uniform();
      normalBlock(drawn, size - 16);
    }
  }
  for (let at = 0; at < size; at++) array[at] = Math.fround(deviation * drawn[at]);
}

function normalBlock(drawn, start) {
  for (let at = start; at < start + 8; at++) {
    const radius = Math.sqrt(-2 * Math.log(1 - drawn[at]));
    const angle = 2 * Math.PI * drawn[at + 8];
    drawn[at] = radius * Math.cos(angle);
    drawn[at + 8] = radius * Math.sin(angle);
  }
}

function fewNormals(size, generator) {
  const uniform64 = () => {
    const high = generator.bits();
    return ((high & 0x1fffff) * 2 ** 32 + generator.bits()) / 2 ** 53;
  };
  const drawn = [];
  while (drawn.length < size) {
    const [turn, length] = [uniform64(), uniform64()];
    const radius = Math.sqrt(-2 * Math.log1p(-length));
    drawn.push(radius * Math.cos(2 * Math.PI * turn), radius * Math.sin(2 * Math.PI * turn));
  }
  return drawn;
}
