"use strict";
/* The kernel of a run, and the hash of its states: nothing here knows a page. Runs in browsers and in node. */
const Machine = (() => {
  // --- blake2b (RFC 7693), unkeyed, 16 bytes out, on halves of 32 bits ---------------------------------
  const IV = Uint32Array.from([
    0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
    0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19]);
  const ROWS = [
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"];
  const SIGMA = ROWS.map((row) => Array.from(row, (c) => parseInt(c, 16)));

  class Blake2b {
    constructor() {
      this.h = Uint32Array.from(IV);
      this.h[0] ^= 0x01010010;
      this.block = new Uint8Array(128);
      this.size = 0;
      this.total = 0;
      this.v = new Uint32Array(32);
      this.m = new Uint32Array(32);
    }
    update(bytes) {
      for (let k = 0; k < bytes.length; k++) {
        if (this.size === 128) { this.total += 128; this.compress(false); this.size = 0; }
        this.block[this.size++] = bytes[k];
      }
      return this;
    }
    mix(a, b, c, d, x, y) {
      const { v, m } = this;
      const add = (i, lo, hi) => {
        const low = v[i] + lo;
        v[i + 1] = v[i + 1] + hi + (low > 0xffffffff ? 1 : 0);
        v[i] = low;
      };
      add(a, v[b], v[b + 1]); add(a, m[x], m[x + 1]);
      let lo = v[d] ^ v[a], hi = v[d + 1] ^ v[a + 1];
      v[d] = hi; v[d + 1] = lo;                                    // right by 32
      add(c, v[d], v[d + 1]);
      lo = v[b] ^ v[c]; hi = v[b + 1] ^ v[c + 1];
      v[b] = (lo >>> 24) | (hi << 8); v[b + 1] = (hi >>> 24) | (lo << 8);
      add(a, v[b], v[b + 1]); add(a, m[y], m[y + 1]);
      lo = v[d] ^ v[a]; hi = v[d + 1] ^ v[a + 1];
      v[d] = (lo >>> 16) | (hi << 16); v[d + 1] = (hi >>> 16) | (lo << 16);
      add(c, v[d], v[d + 1]);
      lo = v[b] ^ v[c]; hi = v[b + 1] ^ v[c + 1];
      v[b] = (hi >>> 31) | (lo << 1); v[b + 1] = (lo >>> 31) | (hi << 1);
    }
    compress(last) {
      const { v, m, h } = this;
      v.set(h); v.set(IV, 16);
      v[24] ^= this.total >>> 0; v[25] ^= Math.floor(this.total / 4294967296);
      if (last) { v[28] = ~v[28]; v[29] = ~v[29]; }
      const view = new DataView(this.block.buffer);
      for (let k = 0; k < 32; k++) m[k] = view.getUint32(4 * k, true);
      for (let r = 0; r < 12; r++) {
        const g = SIGMA[r % 10];
        this.mix(0, 8, 16, 24, 2 * g[0], 2 * g[1]); this.mix(2, 10, 18, 26, 2 * g[2], 2 * g[3]);
        this.mix(4, 12, 20, 28, 2 * g[4], 2 * g[5]); this.mix(6, 14, 22, 30, 2 * g[6], 2 * g[7]);
        this.mix(0, 10, 20, 30, 2 * g[8], 2 * g[9]); this.mix(2, 12, 22, 24, 2 * g[10], 2 * g[11]);
        this.mix(4, 14, 16, 26, 2 * g[12], 2 * g[13]); this.mix(6, 8, 18, 28, 2 * g[14], 2 * g[15]);
      }
      for (let k = 0; k < 16; k++) h[k] ^= v[k] ^ v[k + 16];
    }
    digest() {
      this.total += this.size;
      this.block.fill(0, this.size);
      this.compress(true);
      return new Uint8Array(this.h.buffer.slice(0, 16));
    }
  }
  const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  const blake2b = (bytes) => new Blake2b().update(bytes).digest();

  // --- the hash of a state: over type, shape and the digests of leaves of 64 KiB -----------------------
  const ARRAYS = { float64: Float64Array, float32: Float32Array, int64: BigInt64Array, int8: Int8Array, int32: Int32Array };
  const ONE_NAN = { "<f8": [0, 0, 0, 0, 0, 0, 0xf8, 0x7f], "<f4": [0, 0, 0xc0, 0x7f] };
  function stateHash(arrays) {
    const outer = new Blake2b(), text = new TextEncoder();
    for (const { type, shape, values } of arrays) {
      const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength).slice();
      const nan = ONE_NAN[type];
      if (nan) values.forEach((x, k) => { if (x !== x) bytes.set(nan, k * nan.length); });
      const told = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
      outer.update(text.encode(type + told));
      for (let at = 0; at < bytes.length; at += 65536) outer.update(blake2b(bytes.subarray(at, at + 65536)));
    }
    return hex(outer.digest());
  }

  // --- a run -------------------------------------------------------------------------------------------
  const BASE = 1 << 20, PAGE = 1 << 16;                          // below: the stack of the kernel
  class Run {
    /* kernel: of explorer/state.py. Members lie side by side: row after row, a column for each. */
    static async make(kernel, members = 1) {
      const bytes = Uint8Array.from(atob(kernel.module), (c) => c.charCodeAt(0));
      const run = new Run();
      run.kernel = kernel; run.members = members;
      const Loop = ARRAYS[kernel.loop.type], State = ARRAYS[kernel.state.type];
      const n = kernel.state.rows.length, size = (a) => Math.ceil(a / 16) * 16;
      const sizes = [n * members * State.BYTES_PER_ELEMENT, n * members * State.BYTES_PER_ELEMENT,
        kernel.loop.rows * members * Loop.BYTES_PER_ELEMENT, kernel.loop.rows * members * Loop.BYTES_PER_ELEMENT,
        8 * Math.max(kernel.constants.length, 1), members, 16 * members, 4 * members * Math.max(kernel.gpu ? kernel.gpu.alike : 0, 1)];
      let at = BASE;
      const places = sizes.map((s) => { const here = at; at += size(Math.max(s, 1)); return here; });
      const memory = new WebAssembly.Memory({ initial: Math.ceil(at / PAGE) + 1 });
      const stack = new WebAssembly.Global({ value: "i32", mutable: true }, BASE);
      const given = { env: { __linear_memory: memory, __stack_pointer: stack } };
      const { instance } = await WebAssembly.instantiate(bytes, given);
      run.call = instance.exports; run.places = places; run.memory = memory;
      run.state = new State(memory.buffer, places[0], n * members);
      run.seen = new State(memory.buffer, places[1], n * members);
      run.loop = new Loop(memory.buffer, places[2], kernel.loop.rows * members);
      run.copy = new Loop(memory.buffer, places[3], kernel.loop.rows * members);
      run.constants = new Float64Array(memory.buffer, places[4], kernel.constants.length);
      run.flags = new Int8Array(memory.buffer, places[5], members);
      run.out = new Float64Array(memory.buffer, places[6], 2 * members);
      kernel.constants.forEach(([, value], k) => { run.constants[k] = value === null ? 0 : value; });
      run.step = 0; run.origin = 0;
      return run;
    }
    index(name) { return this.kernel.constants.findIndex(([own]) => own === name); }
    get(name) { return this.constants[this.index(name)]; }
    _call(name, source, out, steps, first) {
      if (!this.call[name]) return false;
      const big = BigInt, m = big(this.members);
      this.call[name](source, out, this.places[4], 0, this.places[5], 0, big(0), m, m, big(first), big(steps), big(1));
      return true;
    }
    part(name, steps, begin, end) {
      /* the loop of some members, so many steps on; this.step stays */
      const big = BigInt, loop = this.places[2];
      this.call[name](loop, loop, this.places[4], 0, this.places[5], 0, big(begin), big(end), big(this.members), big(this.step), big(steps), big(1));
    }
    handed() {
      /* what a step on an adapter is given: words that depend on the constants alone */
      const count = this.kernel.gpu.alike, m = this.members;
      this._call(this.kernel.gpu.handed, this.places[2], this.places[7], 1, this.step);
      const all = new Uint32Array(this.memory.buffer, this.places[7], count * m);
      return Uint32Array.from({ length: count }, (_, k) => all[k * m]);
    }
    begin(values) {
      /* values: the numbers of a state, or of every member one after the other */
      const n = this.kernel.state.rows.length;
      if (this.kernel.state.type === "int64") values = values.map(BigInt);     // as text: they may have 63 bits
      for (let k = 0; k < n; k++)
        for (let j = 0; j < this.members; j++) this.state[k * this.members + j] = values.length > n ? values[j * n + k] : values[k];
      this.step = 0;
      this._enter();
      this.look();
    }
    _enter() {
      const [state, , loop] = this.places;
      this._call("init", state, loop, 1, this.step);
      this._call("enter", loop, loop, 1, this.step);
    }
    advance(steps) {
      const loop = this.places[2];
      this._call("step", loop, loop, steps, this.step);
      this.step += steps;
    }
    look() {
      /* the state at this step; the loop goes on as if nothing had been asked */
      if (this.step === 0) { this.seen.set(this.state); return this.seen; }
      const [, seen, , copy] = this.places;
      this.copy.set(this.loop);
      this._call("leave", copy, copy, 1, this.step);
      this._call("final", copy, seen, 1, this.step);
      return this.seen;
    }
    set(name, value) {
      /* another constant from here on: a number in memory, and nothing is compiled */
      this.look(); this.state.set(this.seen);
      const dt = this.index("dt"), t0 = this.index("t0");
      if (name === "dt" && t0 >= 0) this.constants[t0] += this.step * (this.constants[dt] - value);
      this.kernel.constants.forEach(([own], j) => { if (own === name) this.constants[j] = value; });
      this._enter();
    }
    time() { return (this.index("t0") < 0 ? 0 : this.get("t0")) + this.step * (this.index("dt") < 0 ? 1 : this.get("dt")); }
    energies() {
      /* of the state that was last looked at: a number for each member, then the sizes of their terms */
      if (!this.kernel.energy) return null;
      this._call(this.kernel.energy, this.places[1], this.places[6], 1, this.step);
      return this.out;
    }
    arrays() {
      const out = [], m = this.members;
      let row = 0;
      for (const [name, shape, type] of this.kernel.states) {
        const count = shape.reduce((a, b) => a * b, 1), values = new this.seen.constructor(count * m);
        for (let k = 0; k < count; k++) for (let j = 0; j < m; j++) values[j * count + k] = this.seen[(row + k) * m + j];
        out.push({ name, type, shape: m > 1 ? [m, ...shape] : shape, values });
        row += count;
      }
      return out;
    }
    hash() { return stateHash(this.arrays()); }
    isFinite() { return this.seen.every ? this.seen.every((x) => typeof x === "bigint" || Number.isFinite(x)) : true; }
  }
  return { Run, stateHash, blake2b, hex };
})();
if (typeof module !== "undefined") module.exports = Machine;
