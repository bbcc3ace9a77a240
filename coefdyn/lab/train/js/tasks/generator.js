// The draws of torch's CPU generator, number for number: the Mersenne twister (Matsumoto and Nishimura, 1998) and how
// torch turns its 32 bits into integers, floats and permutations. `_draw.py` of coefdyn.lab.tasks has the same names.

class Generator {
  constructor(seed) {
    // torch starts the twister from the low 32 bits of a seed
    this.state = new Uint32Array(624);
    this.state[0] = seed >>> 0;
    for (let k = 1; k < 624; k++) {
      const before = this.state[k - 1] ^ (this.state[k - 1] >>> 30);
      this.state[k] = Math.imul(1812433253, before) + k;
    }
    this.at = 624;
  }

  // 32 uniform bits.
  bits() {
    if (this.at === 624) this.turn();
    let y = this.state[this.at++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  turn() {
    const s = this.state;
    for (let k = 0; k < 624; k++) {
      const y = (s[k] & 0x80000000) | (s[(k + 1) % 624] & 0x7fffffff);
      s[k] = s[(k + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.at = 0;
  }

  // Uniform in [low, high), as torch.randint.
  integer(low, high) {
    return low + (this.bits() % (high - low));
  }

  // Uniform float32 in [0, 1), as torch.rand: 24 bits.
  uniform() {
    return (this.bits() & 0xffffff) / 0x1000000;
  }

  integers(low, high, count) {
    return Int32Array.from({ length: count }, () => this.integer(low, high));
  }

  uniforms(count) {
    return Float32Array.from({ length: count }, () => this.uniform());
  }

  // The numbers below n in random order, as torch.randperm.
  permutation(n) {
    const order = Int32Array.from({ length: n }, (_, k) => k);
    for (let k = 0; k < n - 1; k++) {
      const other = k + (this.bits() % (n - k));
      [order[k], order[other]] = [order[other], order[k]];
    }
    return order;
  }
}

// The low 32 bits of `derive_seed(seed, ...labels)` of coefdyn.lab.training.seeds, which are all that torch uses.
function deriveSeed(seed, ...labels) {
  const digest = sha256([seed, ...labels].join("/"));
  return ((digest[0] & 1) << 31) | (digest[1] >>> 1);
}

export const generatorFor = (seed, ...labels) => new Generator(deriveSeed(seed, ...labels));

// FIPS 180-4 of a short ASCII text, as eight 32-bit words. A worker of a page opened as a file has no crypto.subtle.
function sha256(text) {
  const primes = [];
  for (let p = 2; primes.length < 64; p++) if (primes.every((q) => p % q)) primes.push(p);
  const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) >>> 0;
  const hash = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
  const constants = primes.map((p) => fraction(Math.cbrt(p)));
  const words = new Uint32Array(16 * Math.ceil((text.length + 9) / 64));
  for (let k = 0; k < text.length; k++) words[k >> 2] |= text.charCodeAt(k) << (24 - 8 * (k % 4));
  words[text.length >> 2] |= 0x80 << (24 - 8 * (text.length % 4));
  words[words.length - 1] = 8 * text.length;
  for (let start = 0; start < words.length; start += 16) compress(hash, words.subarray(start, start + 16), constants);
  return hash;
}

const turnRight = (x, k) => (x >>> k) | (x << (32 - k));

function compress(hash, block, constants) {
  const w = new Int32Array(64);
  for (let k = 0; k < 64; k++) {
    if (k < 16) {
      w[k] = block[k];
      continue;
    }
    const [x, y] = [w[k - 15], w[k - 2]];
    const small = turnRight(x, 7) ^ turnRight(x, 18) ^ (x >>> 3);
    const large = turnRight(y, 17) ^ turnRight(y, 19) ^ (y >>> 10);
    w[k] = w[k - 16] + small + w[k - 7] + large;
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let k = 0; k < 64; k++) {
    const first = (h + (turnRight(e, 6) ^ turnRight(e, 11) ^ turnRight(e, 25)) + ((e & f) ^ (~e & g)) + constants[k] + w[k]) | 0;
    const second = ((turnRight(a, 2) ^ turnRight(a, 13) ^ turnRight(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((x, k) => (hash[k] = (hash[k] + x) >>> 0));
}

// Where each element's value first appears in the row.
export function firstOccurrence(row) {
  const seen = new Map();
  return Array.from(row, (x, place) => {
    if (!seen.has(x)) seen.set(x, place);
    return seen.get(x);
  });
}

// The places of a row in increasing order of its numbers.
export function argsort(row) {
  return Array.from(row, (_, k) => k).sort((a, b) => row[a] - row[b]);
}

// n tuples of `size` distinct ids from [low, low + count): the i-th is a rank among those not taken yet.
export function orderedDistinct(low, count, size, n, generator) {
  const drawn = Array.from({ length: n }, () => []);
  const ascending = Array.from({ length: n }, () => []);
  for (let i = 0; i < size; i++) {
    for (let m = 0; m < n; m++) {
      let rank = generator.integer(0, count - i);
      for (const earlier of ascending[m]) rank += rank >= earlier ? 1 : 0;
      drawn[m].push(rank + low);
      ascending[m].push(rank);
      ascending[m].sort((a, b) => a - b);
    }
  }
  return drawn;
}
