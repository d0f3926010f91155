/* Steps of a run on a WebGPU adapter, after it was asked what it rounds: as device/webgpu/ does in Python. */
const Gpu = (() => {
  const TRIPLES = 1 << 16, GROUP = 64, SHORT = 20, LONG = 80, FIRST = 64;   // milliseconds; members and steps done twice
  const OWN = ["sum", "difference", "product", "quotient", "root", "fused", "survives", "apart", "negative"];
  const OURS = ["our sum", "our difference", "our product", "our quotient", "our root", "our fused", "our survives", "our apart",
    "below", "at most", "same", "opposite", "from u32", "from i32"];
  const NEEDED = ["sum", "difference", "product", "survives", "apart"];
  const LEAST = 2 ** -126, f = Math.fround;
  const small = (x) => x !== 0 && Math.abs(x) < LEAST;

  function triples() {
    const bits = new Uint32Array(3 * TRIPLES), out = new Float32Array(bits.buffer), kind = (k) => k & 3;
    for (let n = 0; n < bits.length; n++) {
      let b = n;
      for (const [factor, shift] of [[0x85ebca6b, 13], [0xc2b2ae35, 16], [0x27d4eb2f, 15]]) b = Math.imul(b ^ (b >>> shift), factor) >>> 0;
      b = (b ^ (b >>> 16)) >>> 0;
      const k = n % TRIPLES, own = (b >>> 23) & 255;
      let field = kind(k) === 1 ? 1 + own % 254 : 115 + own % 24;
      if (kind(k) === 3) field %= 72;
      if (kind(k) === 3 && !(k & 4)) field &= 3;
      bits[n] = (b & 0x807fffff) | (field << 23);
    }
    for (let k = 0; k < TRIPLES; k++) if (kind(k) === 2) out[2 * TRIPLES + k] = -f(out[k] * out[TRIPLES + k]);
    for (let k = 0; k < TRIPLES; k++) {
      const some = k % 61;
      for (let row = 0; row < 3; row++) if (some === row || some === 5) bits[row * TRIPLES + k] &= 0x80000000;
      if (some === 7) out[TRIPLES + k] = out[k];
    }
    return out;
  }

  const number = new Float64Array(1), whole = new BigInt64Array(number.buffer);
  function fused(x, y, z) {
    /* the product is exact in 64 bits; its sum is rounded to odd, then once to 32 */
    const a = x * y, s = a + z;
    if (!Number.isFinite(s)) return f(s);
    const other = s - a, rest = (a - (s - other)) + (z - other);
    number[0] = s;
    if (rest !== 0 && !(whole[0] & 1n)) whole[0] += (rest > 0) === (s > 0) ? 1n : -1n;
    return f(number[0]);
  }

  const word = new Float32Array(1), u32 = new Uint32Array(word.buffer), i32 = new Int32Array(word.buffer);
  function expected(x, y, z) {
    const root = f(Math.sqrt(Math.abs(x))), both = fused(x, y, z), sum = f(x + y);
    const plain = [sum, f(x - y), f(x * y), f(x / y), root, both, f(sum - x), f(f(x * y) + z)];
    word[0] = x;
    return [...plain, -x, ...plain.slice(0, 5), both, ...plain.slice(6), +(x < y), +(x <= y), +(x === y), -x, f(u32[0]), f(i32[0])];
  }

  function judged(given, rows, found, marks) {
    /* of each row how many results are wrong: where normal numbers meet, and where a subnormal one takes part */
    const names = [...OWN, ...OURS], wrong = {}, subnormal = {}, bits = new Uint32Array(found.buffer, found.byteOffset, found.length);
    rows.forEach((r) => { wrong[r] = subnormal[r] = 0; });
    for (let k = 0; k < TRIPLES; k++) {
      const [x, y, z] = [given[k], given[TRIPLES + k], given[2 * TRIPLES + k]], want = expected(x, y, z);
      const rare = small(x) || small(y) || small(z) || small(f(x + y)) || small(f(x * y));
      rows.forEach((r, j) => {
        const a = want[names.indexOf(r)], b = found[j * TRIPLES + k];
        word[0] = a;
        if (u32[0] === bits[j * TRIPLES + k] || (a !== a && b !== b) || !Number.isFinite(a)) return;
        const near = rare || small(a) || a === 0;
        if (near && (marks[k] >>> j) & 1) return;
        (near ? subnormal : wrong)[r] += 1;
      });
    }
    return { wrong, subnormal };
  }

  function verdict({ wrong, subnormal }) {
    const keeps = !["sum", "difference", "product", "root", "negative"].some((r) => subnormal[r]);
    const right = (r) => !wrong[r] && (!keeps || !subnormal[r]);
    const switches = { OWN_FUSED: right("fused"), OWN_QUOTIENT: right("quotient"), OWN_ROOT: right("root"), KEEPS_SMALL: keeps };
    const bad = NEEDED.filter((r) => wrong[r]), ours = OURS.filter((r) => wrong[r] || subnormal[r]);
    const why = bad.length ? bad.map((r) => `${r} is wrong in ${wrong[r]}`).join(", ") : ours.length ? `the kernel's own functions are wrong: ${ours.join(", ")}` : "";
    return { switches, why, claims: !why };
  }

  const STORAGE = () => GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  class Adapter {
    static async open(texts) {
      /* texts: of explorer/state.py; an Error says why there is none */
      if (!navigator.gpu) throw new Error("this browser has no WebGPU");
      const own = new Adapter(), found = await navigator.gpu.requestAdapter();
      if (!found) throw new Error("this browser finds no WebGPU adapter");
      own.device = await found.requestDevice();
      own.name = [found.info?.vendor, found.info?.architecture, found.info?.description].filter(Boolean).join(" ") || "an adapter without a name";
      const kinds = ["read-only-storage", "storage", "read-only-storage", "read-only-storage", "read-only-storage", "storage", "uniform"];
      own.layout = own.device.createBindGroupLayout({ entries: kinds.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })) });
      const given = triples(), first = await own.asked(given, texts.probe, OWN, {});
      const { switches } = verdict({ wrong: first.wrong, subnormal: first.subnormal });
      const again = await own.asked(given, texts.second, OURS, switches);
      own.counts = { wrong: { ...first.wrong, ...again.wrong }, subnormal: { ...first.subnormal, ...again.subnormal } };
      Object.assign(own, verdict(own.counts));
      return own;
    }
    async pipeline(text, entry, switches) {
      const module = this.device.createShaderModule({ code: text }), constants = {};
      for (const [k, v] of Object.entries(switches)) if (text.includes(`override ${k}:`)) constants[k] = v ? 1 : 0;
      const layout = this.device.createPipelineLayout({ bindGroupLayouts: [this.layout] });
      return this.device.createComputePipelineAsync({ layout, compute: { module, entryPoint: entry, constants } });
    }
    buffer(array) {
      const b = this.device.createBuffer({ size: Math.max(array.byteLength, 4), usage: STORAGE() });
      if (array.byteLength) this.device.queue.writeBuffer(b, 0, array.buffer, array.byteOffset, array.byteLength);
      return b;
    }
    async dispatch(pipeline, buffers, call, members) {
      const numbers = this.device.createBuffer({ size: 32, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
      this.device.queue.writeBuffer(numbers, 0, Uint32Array.from([...call, 0, 0, 0, 0, 0, 0]).buffer, 0, 32);
      const entries = [...buffers, numbers].map((buffer, binding) => ({ binding, resource: { buffer } }));
      const encoder = this.device.createCommandEncoder(), one = encoder.beginComputePass();
      one.setPipeline(pipeline);
      one.setBindGroup(0, this.device.createBindGroup({ layout: this.layout, entries }));
      one.dispatchWorkgroups(Math.ceil(members / GROUP));
      one.end();
      this.device.queue.submit([encoder.finish()]);
      await this.device.queue.onSubmittedWorkDone();
    }
    async back(buffer, Kind) {
      const b = this.device.createBuffer({ size: buffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
      const encoder = this.device.createCommandEncoder();
      encoder.copyBufferToBuffer(buffer, 0, b, 0, buffer.size);
      this.device.queue.submit([encoder.finish()]);
      await b.mapAsync(GPUMapMode.READ);
      const out = new Kind(b.getMappedRange().slice(0));
      b.destroy();
      return out;
    }
    async asked(given, text, rows, switches) {
      const out = this.buffer(new Float32Array(rows.length * TRIPLES)), marks = this.buffer(new Uint32Array(TRIPLES));
      const none = () => this.buffer(new Uint32Array(1));
      const buffers = [this.buffer(given), out, none(), none(), none(), marks];
      await this.dispatch(await this.pipeline(text, "probe", switches), buffers, [0, TRIPLES, TRIPLES, 1, 0], TRIPLES);
      return judged(given, rows, await this.back(out, Float32Array), await this.back(marks, Uint32Array));
    }
  }

  class Steps {
    /* The steps of a Machine.Run; its beginning, its end and its energy stay in WebAssembly, and so do members that are marked. */
    static async make(adapter, run) {
      const own = new Steps();
      own.adapter = adapter; own.atOnce = 16; own.elsewhere = 0; own.compared = false; own.off = 0;
      own.pipeline = await adapter.pipeline(run.kernel.gpu.text, run.kernel.gpu.entry, adapter.switches);
      return own;
    }
    async advance(run, steps) {
      if (!this.compared) await this.compare(run, steps);
      const { result, marks } = await this.there(run, run.loop.slice(), steps);
      const m = run.members, rows = run.kernel.loop.rows;
      for (let j = 0; j < m; j++) {
        if (marks[j]) { run.part("step", steps, j, j + 1); this.elsewhere += 1; continue; }
        for (let k = 0; k < rows; k++) run.loop[k * m + j] = result[k * m + j];
      }
      run.step += steps;
    }
    async there(run, loop, steps) {
      const { adapter } = this, m = run.members, alike = run.handed();
      let a = adapter.buffer(loop), b = adapter.buffer(loop);
      const marks = adapter.buffer(new Uint32Array(m)), words = adapter.buffer(alike);
      const none = [adapter.buffer(new Uint32Array(1)), adapter.buffer(new Uint32Array(1))];
      for (let done = 0; done < steps; ) {
        const n = Math.min(this.atOnce, steps - done), began = performance.now();
        await adapter.dispatch(this.pipeline, [a, b, words, ...none, marks], [0, m, m, n, 0], m);
        const took = performance.now() - began;                     // a browser ends what takes seconds
        if (took > LONG) this.atOnce = Math.max(1, this.atOnce >> 1);
        else if (took < SHORT && n === this.atOnce) this.atOnce = Math.min(2 * n, 1 << 20);
        done += n;
        [a, b] = [b, a];
      }
      const out = { result: await adapter.back(a, Float32Array), marks: await adapter.back(marks, Uint32Array) };
      for (const one of [a, b, marks, words, ...none]) one.destroy();
      return out;
    }
    async compare(run, steps) {
      /* the first block, with that of WebAssembly */
      const n = Math.min(steps, FIRST), m = run.members, before = run.loop.slice();
      const { result, marks } = await this.there(run, run.loop.slice(), n);
      run.part("step", n, 0, Math.min(m, FIRST));
      const a = new Uint32Array(run.loop.slice().buffer), b = new Uint32Array(result.buffer);
      for (let k = 0; k < run.kernel.loop.rows; k++) for (let j = 0; j < Math.min(m, FIRST); j++) {
        if (marks[j]) continue;
        const x = run.loop[k * m + j], at = k * m + j;
        if (a[at] !== b[at] && x === x) this.off = Math.max(this.off, Math.abs(x - result[at]) / Math.max(Math.abs(x), 1e-30));
      }
      run.loop.set(before);
      this.compared = true;
      if (this.off && this.adapter.claims) throw new Error(`${this.adapter.name} passed the probe, but its first ${n} steps have other bits than WebAssembly's`);
    }
  }
  return { Adapter, Steps, triples, expected, judged, verdict, OWN, OURS };
})();
if (typeof module !== "undefined") module.exports = { ...module.exports, Gpu };
