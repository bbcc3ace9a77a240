// Weights as a safetensors file: eight bytes for the length of a JSON header, the header, the numbers. Python reads it
// with safetensors and `SequenceModel.load_state_dict`.

const FILE_KINDS = { F32: Float32Array, F64: Float64Array };
const LARGEST_FILE = 64 * 2 ** 20;

// `notes` are strings by name, kept in the file.
export function saveWeights(model, notes = {}) {
  const header = { __metadata__: notes };
  let end = 0;
  for (const { name, shape, data } of model.parameters) {
    const dtype = data instanceof Float32Array ? "F32" : "F64";
    header[name] = { dtype, shape, data_offsets: [end, (end += data.byteLength)] };
  }
  let text = new TextEncoder().encode(JSON.stringify(header));
  const padded = new Uint8Array(Math.ceil(text.length / 8) * 8).fill(32);
  padded.set(text);
  text = padded;
  const bytes = new Uint8Array(8 + text.length + end);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  let at = 8 + text.length;
  for (const { data } of model.parameters) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return bytes;
}

// Tensors by name, { shape, data }, and the notes of a file's bytes.
export function readSafetensors(bytes) {
  if (bytes.length > LARGEST_FILE) throw new Error("The file is larger than any model of this page; choose another one");
  const damaged = new Error("This is no safetensors file, or it is cut short; choose one that was saved here");
  if (bytes.length < 10) throw damaged;
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (!(size <= bytes.length - 8)) throw damaged;
  let header;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + size)));
  } catch {
    throw damaged;
  }
  if (header === null || typeof header !== "object" || Array.isArray(header)) throw damaged;
  const { __metadata__: notes = {}, ...entries } = header;
  const tensors = new Map();
  for (const [name, entry] of Object.entries(entries)) {
    const { dtype, shape, data_offsets: offsets } = entry || {};
    const whole = (list) => Array.isArray(list) && list.every((x) => Number.isInteger(x) && x >= 0);
    if (!whole(shape) || !whole(offsets) || offsets.length !== 2 || !Object.hasOwn(FILE_KINDS, dtype)) {
      throw new Error(`The file's “${name}” is not made of float32 or float64 numbers; choose one that was saved here`);
    }
    const Kind = FILE_KINDS[dtype];
    const count = shape.reduce((product, axis) => product * axis, 1);
    const [start, stop] = offsets;
    if (stop - start !== count * Kind.BYTES_PER_ELEMENT || 8 + size + stop > bytes.length) throw damaged;
    tensors.set(name, { shape, data: new Kind(bytes.slice(8 + size + start, 8 + size + stop).buffer) });
  }
  return { tensors, notes: Object(notes) === notes ? notes : {} };
}

// Takes the weights of a file into a model of the same sizes; the notes of the file. Nothing is changed unless all of it
// fits.
export function loadWeights(model, bytes) {
  const { tensors, notes } = readSafetensors(bytes);
  const held = model.parameters.map(({ name, shape }) => {
    const found = tensors.get(name);
    if (!found) throw new Error(`The file holds no “${name}”: it is of another design. Choose the design it was saved with`);
    if (found.shape.join() !== shape.join()) {
      throw new Error(`“${name}” has the shape ${found.shape.join(" x ")} in the file and ${shape.join(" x ")} here: the sizes differ`);
    }
    if (!found.data.every(Number.isFinite)) throw new Error(`“${name}” of the file holds a number that is not finite`);
    return found.data;
  });
  if (tensors.size !== held.length) throw new Error("The file holds more than this model has: it is of another design");
  model.parameters.forEach(({ data }, at) => data.set(held[at]));
  return notes;
}
