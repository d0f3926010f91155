/* The page: lists of lines that light up together, what was found, and a run drawn on three canvases. */
(async () => {
  const $ = (id) => document.getElementById(id), ROW = 20, FEW = 64;
  const made = (tag, props = {}, ...children) => {
    const e = Object.assign(document.createElement(tag), props);
    e.append(...children);
    return e;
  };
  const packed = $("data").textContent.trim();
  let data = null;

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  // --- light and dark ------------------------------------------------------------------------------------
  const asked = new URLSearchParams(location.search), wanted = asked.get("theme");
  if (asked.get("show") === "run") document.documentElement.dataset.show = "run";  // in a frame of another page: the run alone
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark", dark);
  $("theme").onclick = () => { document.documentElement.classList.toggle("dark"); draw(); };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // --- lists of lines: only what is seen is in the document ------------------------------------------------
  class List {
    constructor(box) {
      this.box = box; this.level = null;
      this.space = box.appendChild(made("div"));
      this.rows = box.appendChild(made("div"));
      box.addEventListener("scroll", () => this.draw());
      box.addEventListener("keydown", (e) => {
        const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
        if (by && chosen && this.level && chosen.level === this.level.name) {
          e.preventDefault();
          choose(this.level.name, Math.max(0, Math.min(this.level.lines.length - 1, chosen.line + by)));
        }
      });
    }
    show(level) {
      this.level = level;
      const count = level.lines ? level.lines.length : 1;
      this.space.style.height = `${count * ROW + 8}px`;
      if (this.box.classList.contains("small")) this.box.style.height = `${Math.min(count * ROW + 12, innerHeight * 0.38)}px`;
      this.draw();
    }
    draw() {
      const { level, box } = this;
      if (!level) return;
      if (!level.lines) { this.rows.replaceChildren(made("div", { className: "row plain", textContent: level.why })); return; }
      const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 20);
      const last = Math.min(level.lines.length, first + Math.ceil(box.clientHeight / ROW) + 40);
      const found = lit[level.name] || new Set(), rows = [];
      for (let k = first; k < last; k++) {
        const [text, , , code] = level.lines[k];
        const row = made("div", { className: "row" }, made("i", { textContent: level.numbers ? level.numbers[k] : k + 1 }), text.replace(/\t/g, "    ") || " ");
        row.style.top = `${k * ROW}px`;
        if (found.has(k)) row.classList.add("lit");
        if (chosen && chosen.level === level.name && chosen.line === k) row.classList.add("own");
        if (!code && level.name !== "source" && level.name !== "facts" && level.name !== "plan") row.classList.add("plain");
        if (level.bad && level.bad.has(level.numbers[k])) row.classList.add("bad");
        row.dataset.line = k;
        row.onclick = () => choose(level.name, k);
        rows.push(row);
      }
      this.rows.replaceChildren(...rows);
    }
    reveal() {
      const found = [...(lit[this.level.name] || [])].sort((a, b) => a - b);
      if (!found.length) return;
      const top = this.box.scrollTop / ROW, bottom = top + this.box.clientHeight / ROW;
      if (!found.some((k) => k >= top && k < bottom - 1)) this.box.scrollTop = Math.max(0, (found[0] - 3) * ROW);
    }
  }

  let lit = {}, chosen = null, shown = "tpir", levels = {};
  const source = new List($("source")), listing = new List($("listing"));

  function lineage(name, line) {
    /* of each level the lines that a line comes from, and those that come from it */
    const found = {};
    found[name] = new Set([line]);
    for (let at = name; levels[at].above; at = levels[at].above) {
      const up = (found[levels[at].above] = new Set());
      for (const k of found[at]) for (const j of levels[at].lines[k][1]) up.add(j);
    }
    const down = new Set([name]);
    for (let more = true; more; ) {
      more = false;
      for (const level of data.levels) {
        if (!level.lines || down.has(level.name) || !down.has(level.above)) continue;
        const over = found[level.above], own = (found[level.name] = new Set());
        level.lines.forEach((l, k) => { if (l[1].some((j) => over.has(j))) own.add(k); });
        down.add(level.name);
        more = true;
      }
    }
    return found;
  }

  function choose(name, line) {
    if (chosen && chosen.level === name && chosen.line === line) { chosen = null; lit = {}; }
    else { chosen = { level: name, line }; lit = lineage(name, line); }
    const level = levels[name];
    $("rule").textContent = chosen ? `${level.title}, line ${level.numbers ? level.numbers[line] : line + 1}: ${level.rules[level.lines[line][2]] || "a heading"}` : "";
    tabs(); source.draw(); listing.draw();
    if (chosen && name !== shown) listing.reveal();
    if (chosen && name !== "source") source.reveal();
    for (const row of document.querySelectorAll("[data-fact]")) row.classList.toggle("lit", !!(lit.facts && lit.facts.has(+row.dataset.fact)));
  }

  function tabs() {
    $("leveltabs").replaceChildren(...data.levels.filter((l) => l.name !== "source").map((l) => {
      const b = made("button", { type: "button", textContent: l.title, onclick: () => { shown = l.name; tabs(); listing.box.scrollTop = 0; listing.show(l); listing.reveal(); } });
      b.setAttribute("role", "tab"); b.setAttribute("aria-selected", l.name === shown); b.dataset.level = l.name;
      if (lit[l.name] && lit[l.name].size) b.append(made("span", { className: "n", textContent: lit[l.name].size }));
      return b;
    }));
  }

  // --- what was found ----------------------------------------------------------------------------------------
  let part = "facts";
  function found() {
    $("foundtabs").replaceChildren(...data.report.map((s) => {
      const b = made("button", { type: "button", textContent: s.title, onclick: () => { part = s.title; found(); } });
      b.setAttribute("role", "tab"); b.setAttribute("aria-selected", s.title === part);
      return b;
    }));
    const section = data.report.find((s) => s.title === part) || data.report[0];
    const names = levels.facts.lines ? levels.facts.lines.map((l) => l[0].split("  ")[0]) : [];
    $("foundrows").replaceChildren(made("table", {}, made("tbody", {}, ...section.rows.map(([name, verdict, because, where]) => {
      const reason = made("td", { textContent: because });
      if (where) reason.append(" ", made("small", { textContent: `(${where})` }));
      const pin = part === "plan" && name === "not chosen" && window.pin ? made("button", { type: "button", textContent: "pin", onclick: () => window.pin(verdict) }) : "";
      const row = made("tr", {}, made("td", { textContent: name }), made("td", { textContent: verdict, className: verdict === "yes" ? "yes" : verdict === "no" ? "no" : "" }, ...(pin ? [" ", pin] : [])), reason);
      const k = names.indexOf(name);
      if (part === "facts" && k >= 0) { row.dataset.fact = k; row.style.cursor = "pointer"; row.onclick = () => choose("facts", k); }
      return row;
    }))));
    if (part === "plan" && window.pin && (data.methods || []).length) {
      /* any method by its name: one that does not suit says why */
      const any = made("select", { id: "anymethod", onchange: () => window.pin(any.value === "auto" ? null : any.value) },
        ...data.methods.map((n) => made("option", { textContent: n, selected: n === data.method })));
      $("foundrows").append(made("label", { textContent: "with " }, any));
    }
  }

  // --- a run ---------------------------------------------------------------------------------------------------
  let gpu = null, adapter = null, busy = false;                    // steps on an adapter, where that is asked
  let run = null, going = false, trail = [], errors = [], first = 0, scaleOf = 1, changed = false, bounds = {};
  const coordinates = () => {
    /* the first pair of states that belong together, and what is drawn of them */
    const states = data.kernel.states, at = (name) => {
      let row = 0;
      for (const [own, shape] of states) { if (own === name) return { row, shape }; row += shape.reduce((a, b) => a * b, 1); }
    };
    const q = states.find((s) => s[3] === "position") || states[0], p = states.find((s) => s[3] === "momentum") || states[1];
    return { q: at(q[0]), p: p && p !== q ? at(p[0]) : null, names: [q[0], p ? p[0] : ""] };
  };
  /* what one of a row is worth: on a lattice its unit, of the second word of a number nothing */
  const unit = (row) => data.kernel.units[row];
  const number = (row, member = 0) => Number(run.seen[row * run.members + member]) * (unit(row) || 1);
  const stored = (row, value) => data.kernel.state.type === "int64" ? String(BigInt(Math.round(value / unit(row)))) : unit(row) ? value : 0;
  const nudged = (row, value, by) => data.kernel.state.type === "int64" ? String(BigInt(value) + BigInt(Math.round(by / unit(row)))) : unit(row) ? value + by : value;

  async function begin(start) {
    if (!data.kernel) { $("clock").textContent = data.why || ""; $("right").hidden = !data.why; return; }
    const members = +$("members").value, n = data.kernel.state.rows.length;
    let values = start || data.run.start;
    if (members > 1) {
      const cloud = [];
      for (let j = 0; j < members; j++) for (let k = 0; k < n; k++)
        cloud.push(j ? nudged(k, values[k], 0.03 * (((j * 0.618033988749895 + k * 0.7548776662466927) % 1) - 0.5)) : values[k]);
      values = cloud;
    }
    const before = run;
    run = await Machine.Run.make(data.kernel, members);
    for (const [name, value] of Object.entries(data.run.given)) if (run.index(name) >= 0) run.constants[run.index(name)] = value;
    if (before) before.kernel.constants.forEach(([name], k) => { if (name !== "t0" && run.index(name) >= 0) run.constants[run.index(name)] = before.constants[k]; });
    run.begin(values);
    gpu = null;
    if ($("gpu").checked) await onAdapter();
    changed = !!start || members > 1 || run.kernel.constants.some(([name, v], k) => run.constants[k] !== (data.run.given[name] ?? v ?? 0));
    trail = []; errors = []; bounds = {};
    const e = run.energies();
    first = e ? e[0] : 0; scaleOf = e ? Math.max(e[run.members], 1e-300) : 1;
    $("stop").textContent = ""; $("hash").textContent = "";
    look(); draw();
  }

  async function onAdapter() {
    /* the adapter is asked once what it rounds; then each run is compiled for it */
    const line = $("adapter");
    try {
      line.textContent = "asking the adapter what it rounds …";
      adapter ||= await Gpu.Adapter.open(data.kernel.gpu);
      gpu = await Gpu.Steps.make(adapter, run);
      const own = Object.entries({ OWN_FUSED: "fma", OWN_QUOTIENT: "÷", OWN_ROOT: "√" }).filter(([k]) => !adapter.switches[k]).map(([, w]) => w);
      line.textContent = `GPU: ${adapter.name}: ` + (adapter.claims ? `the bits of float32 on 65,536 triples${own.length ? `; ${own.join(", ")} in whole numbers` : ""}` : `a bound only: ${adapter.why}`);
      line.dataset.claims = adapter.claims;
    } catch (error) {
      gpu = null; $("gpu").checked = false;
      line.textContent = `GPU: ${error.message || error}. The run stays in WebAssembly.`;
    }
  }

  function look() {
    run.look();
    const { q, p } = coordinates(), point = [];
    const size = Math.min(q.shape.reduce((a, b) => a * b, 1), FEW);
    for (let k = 0; k < size; k++) point.push(number(q.row + k));
    const phase = p ? [number(q.row), number(p.row)] : [number(0), run.kernel.state.rows.length > 1 ? number(1) : 0];
    trail.push({ point, phase });
    if (trail.length > 1500) trail.shift();
    const e = run.energies();
    if (e) { scaleOf = Math.max(scaleOf, e[run.members]); errors.push([run.step, e[0] - first]); if (errors.length > 3000) errors = errors.filter((_, k) => k % 2 === 0); }
    $("clock").textContent = `step ${run.step.toLocaleString("en")}   t = ${run.time().toPrecision(6)}` + (e ? `   energy error ${(Math.abs(errors[errors.length - 1][1]) / scaleOf).toExponential(1)}` : "");
    if (!run.isFinite()) { going = false; $("stop").textContent = `Stopped at step ${run.step}: the state is not finite. A shorter dt helps.`; }
    if (e && Math.abs(errors[errors.length - 1][1]) > scaleOf / 2) { going = false; $("stop").textContent = `Stopped at step ${run.step}: the energy has left its scale. This dt is beyond the limit of stability.`; }
    $("go").textContent = going ? "❚❚ pause" : "▶ run";
  }

  function told() {
    /* the hash, compared with that of Python where it is the same run */
    const own = run.hash();
    const line = $("hash");
    if (changed || run.step !== data.run.steps) { line.replaceChildren(`hash of step ${run.step}: `, made("b", { textContent: own })); return; }
    const same = own === data.run.hash;
    line.replaceChildren(`hash of step ${run.step}: `, made("b", { textContent: own }), made("br"), made("span", {
      className: same ? "good" : "poor",
      textContent: same ? `✓ equals out.hash of Python, ${data.backend}` : `✗ Python had ${data.run.hash}` }));
    line.dataset.hash = own; line.dataset.same = same;
  }

  async function take(steps) {
    /* so many steps, in WebAssembly or on the adapter */
    if (!gpu) { run.advance(steps); return; }
    const own = run;
    busy = true;
    try { await gpu.advance(own, steps); } catch (error) { going = false; $("stop").textContent = `${error.message || error}`; } finally { busy = false; }
  }
  async function forward(steps) {
    const stop = data.run.steps;                                  // pauses where Python's run ended
    const n = run.step < stop ? Math.min(steps, stop - run.step) : steps;
    await take(n);
    look();
    if (run.step === stop) { going = false; $("go").textContent = "▶ run"; told(); }
  }

  function frame() {
    if (going && !busy) {
      const steps = Math.max(1, Math.min(1000, +$("speed").value || 1));
      forward(steps).then(draw);
    }
    requestAnimationFrame(frame);
  }

  function sliders() {
    const rows = [];
    for (const [name, value] of data.kernel.constants) {
      if (name === "t0" || value === null || rows.some((row) => row.dataset.name === name)) continue;
      const own = data.run.given[name] ?? value, log = name === "dt";
      const [low, high] = log ? [-1, 2] : own ? [Math.min(0, 3 * own), Math.max(0, 3 * own)] : [-1, 1];
      const input = made("input", { type: "range", min: low, max: high, step: (high - low) / 560, value: log ? 0 : own });
      input.setAttribute("aria-label", name); input.dataset.name = name;
      const out = made("output", { textContent: String(own) });
      input.oninput = () => {
        const v = log ? own * 10 ** +input.value : +input.value;
        out.textContent = v.toPrecision(4);
        run.set(name, v);
        changed = true;
        const e = run.energies();
        if (e && name !== "dt") { first = e[0]; scaleOf = Math.max(e[run.members], 1e-300); errors = [[run.step, 0]]; }  // another energy from here on
        $("hash").textContent = "";
        draw();
      };
      rows.push(made("label", {}, name, input, out));
      rows[rows.length - 1].dataset.name = name;
    }
    $("sliders").replaceChildren(...rows);
  }

  // --- drawing -----------------------------------------------------------------------------------------------------
  function canvas(id) {
    const c = $(id), ratio = devicePixelRatio || 1, w = c.clientWidth, h = c.clientHeight;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) { c.width = Math.round(w * ratio); c.height = Math.round(h * ratio); }
    const g = c.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = "11px system-ui,sans-serif";
    return { g, w, h };
  }
  function frameOf(id, xs, ys, w, h, equal) {
    /* a box that only grows, so that pictures do not jump */
    const b = (bounds[id] ||= { x0: Infinity, x1: -Infinity, y0: Infinity, y1: -Infinity });
    for (const x of xs) if (Number.isFinite(x)) { b.x0 = Math.min(b.x0, x); b.x1 = Math.max(b.x1, x); }
    for (const y of ys) if (Number.isFinite(y)) { b.y0 = Math.min(b.y0, y); b.y1 = Math.max(b.y1, y); }
    let { x0, x1, y0, y1 } = b;
    if (!(x1 > x0)) { x0 -= 1; x1 = x0 + 2; }
    if (!(y1 > y0)) { y0 -= 1; y1 = y0 + 2; }
    let sx = (w - 24) / (x1 - x0) * 0.94, sy = (h - 24) / (y1 - y0) * 0.9;
    if (equal) sx = sy = Math.min(sx, sy);
    const cx = (x0 + x1) / 2, cy = (y0 + y1) / 2;
    return { X: (x) => w / 2 + (x - cx) * sx, Y: (y) => h / 2 - (y - cy) * sy, x: (X) => (X - w / 2) / sx + cx, y: (Y) => (h / 2 - Y) / sy + cy };
  }
  const caption = (g, text, w) => { g.fillStyle = colour("soft"); g.fillText(text, 4, 13, w - 8); };
  function path(g, points, style, width = 1.2) {
    g.strokeStyle = style; g.lineWidth = width; g.beginPath();
    points.forEach(([x, y], k) => (k ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.stroke();
  }
  let phaseFrame = null;

  function draw() {
    if (!run || !trail.length) return;
    const { q, p, names } = coordinates(), last = trail[trail.length - 1], hues = [colour("a"), colour("b"), colour("c")];
    {
      const { g, w, h } = canvas("state"), shape = q.shape, plane = shape[shape.length - 1] === 2 && shape.length <= 2;
      if (plane) {
        const n = last.point.length / 2, recent = trail.slice(q.shape[0] > 4 ? -60 : -1200);
        const xs = recent.flatMap((t) => t.point.filter((_, k) => k % 2 === 0)), ys = recent.flatMap((t) => t.point.filter((_, k) => k % 2 === 1));
        const f = frameOf("state", xs, ys, w, h, true);
        for (let k = 0; k < n; k++) {
          path(g, recent.map((t) => [f.X(t.point[2 * k]), f.Y(t.point[2 * k + 1])]), hues[k % 3] + "90");
          for (let j = 1; j < run.members; j++) dot(g, f.X(number(q.row + 2 * k, j)), f.Y(number(q.row + 2 * k + 1, j)), 1.5, hues[1]);
          dot(g, f.X(last.point[2 * k]), f.Y(last.point[2 * k + 1]), 4, hues[k % 3]);
        }
        caption(g, `${names[0]} in the plane`, w);
      } else if (last.point.length > 3) {
        const n = last.point.length, f = frameOf("state", [0, n - 1], trail.slice(-200).flatMap((t) => t.point), w, h, false);
        path(g, last.point.map((y, k) => [f.X(k), f.Y(y)]), hues[0], 1.5);
        last.point.forEach((y, k) => dot(g, f.X(k), f.Y(y), 2.5, hues[0]));
        caption(g, `${names[0]} along the chain`, w);
      } else if (last.point.length === 3) {
        const f = frameOf("state", trail.map((t) => t.point[0]), trail.map((t) => t.point[2]), w, h, false);
        path(g, trail.map((t) => [f.X(t.point[0]), f.Y(t.point[2])]), hues[0]);
        for (let j = 1; j < run.members; j++) dot(g, f.X(number(q.row, j)), f.Y(number(q.row + 2, j)), 1.5, hues[1]);
        dot(g, f.X(last.point[0]), f.Y(last.point[2]), 4, hues[0]);
        caption(g, `${names[0]}: the first number across, the third upwards`, w);
      } else {
        const f = frameOf("state", [0, 600], trail.map((t) => t.point[0]), w, h, false), from = Math.max(0, trail.length - 600);
        path(g, trail.slice(from).map((t, k) => [f.X(k), f.Y(t.point[0])]), hues[0], 1.5);
        dot(g, f.X(trail.length - 1 - from), f.Y(last.point[0]), 4, hues[0]);
        caption(g, `${names[0]} over time`, w);
      }
    }
    {
      const { g, w, h } = canvas("phase");
      const own = data.kernel.states.length === 1 || !p ? null : p, many = own && q.shape.length === 1 && q.shape[0] > 3;
      const places = many ? last.point.map((x, k) => [x, number(own.row + k)]) : [];
      const f = (phaseFrame = frameOf("phase", [...trail.map((t) => t.phase[0]), ...places.map((x) => x[0])], [...trail.map((t) => t.phase[1]), ...places.map((x) => x[1])], w, h, false));
      places.forEach(([x, y], k) => dot(g, f.X(x), f.Y(y), 2.5, hues[k % 3]));
      const map = !data.kernel.constants.some(([n]) => n === "dt") && !run.kernel.energy;
      if (map) trail.forEach((t) => dot(g, f.X(t.phase[0]), f.Y(t.phase[1]), 1.3, hues[0]));
      else path(g, trail.map((t) => [f.X(t.phase[0]), f.Y(t.phase[1])]), hues[0]);
      if (own) for (let j = 1; j < run.members; j++) dot(g, f.X(number(q.row, j)), f.Y(number(own.row, j)), 1.5, hues[1]);
      dot(g, f.X(last.phase[0]), f.Y(last.phase[1]), 3.5, hues[1]);
      caption(g, own ? `${names[0]}${q.shape.length ? "[0]" : ""} across, ${names[1]}${own.shape.length ? "[0]" : ""} upwards; a click begins there` : "the first two numbers; a click begins there", w);
    }
    {
      const { g, w, h } = canvas("energy");
      if (!run.kernel.energy) { caption(g, data.kernel.state.type === "float64" ? "this system has no energy that is a function of its state" : "the energy is drawn for runs in float64", w); return; }
      const top = Math.max(1e-17 * scaleOf, ...errors.map(([, e]) => Math.abs(e)).filter(Number.isFinite));
      const last = errors[errors.length - 1], end = Math.max(last[0], 1), X = (s) => 8 + (w - 16) * (s - errors[0][0]) / Math.max(end - errors[0][0], 1), Y = (e) => h / 2 + 6 - (h / 2 - 18) * e / top;
      path(g, [[8, Y(0)], [w - 8, Y(0)]], colour("rule"));
      path(g, errors.map(([s, e]) => [X(s), Y(e)]), hues[2]);
      caption(g, `error of the energy over the size of its terms, largest ${(top / scaleOf).toExponential(1)}`, w);
    }
  }
  function dot(g, x, y, r, style) { g.fillStyle = style; g.beginPath(); g.arc(x, y, r, 0, 7); g.fill(); }

  // --- put together ---------------------------------------------------------------------------------------------------
  function show(state) {
    data = state; levels = {}; lit = {}; chosen = null;
    for (const level of data.levels) levels[level.name] = level;
    if (!levels[shown]) shown = "tpir";
    document.title = data.name;
    $("name").textContent = data.name.replace(/_/g, " ");
    $("question").textContent = data.question;
    $("file").textContent = (levels.source.files || []).join(", ") || "your file";
    $("foot").textContent = `tinyphysics ${data.version} · ${data.method} · the run of this page is computed here, in WebAssembly${data.kernel && data.kernel.gpu ? " or on its GPU" : ""}; nothing is loaded and nothing is sent`;
    $("end").textContent = data.run ? `⇥ step ${data.run.steps}` : "";
    tabs(); source.show(levels.source); listing.show(levels[shown]); found();
    going = false; run = null;
    $("right").hidden = false;
    $("ongpu").hidden = !(data.kernel && data.kernel.gpu && data.kernel.gpu.text);
    $("gpu").checked = false; $("adapter").textContent = "";
    if (data.kernel) sliders();
    return begin();
  }
  $("go").onclick = () => { going = !going && !$("stop").textContent; $("go").textContent = going ? "❚❚ pause" : "▶ run"; };
  $("again").onclick = () => { going = false; begin(); $("go").textContent = "▶ run"; };
  $("gpu").onchange = () => { going = false; $("adapter").textContent = ""; begin(); $("go").textContent = "▶ run"; };
  $("members").onchange = () => { going = false; begin(); $("go").textContent = "▶ run"; };
  $("end").onclick = () => {
    if (!run || busy) return;
    going = false;
    const left = data.run.steps - run.step;
    if (left < 0) { begin().then(() => $("end").click()); return; }
    if (gpu) { take(left).then(() => { look(); told(); draw(); }); return; }
    for (let k = 0; k < left && !$("stop").textContent; k++) { run.advance(1); look(); }
    if (run.step === data.run.steps) told();
    draw();
  };
  $("phase").onclick = (e) => {
    if (!run || !phaseFrame) return;
    const { q, p } = coordinates(), values = [...data.run.start];
    const put = (row, value) => { values[row] = stored(row, value); };
    put(p ? q.row : 0, phaseFrame.x(e.offsetX));
    if (p || values.length > 1) put(p ? p.row : 1, phaseFrame.y(e.offsetY));
    begin(values);
  };
  addEventListener("resize", () => { source.draw(); listing.draw(); draw(); });
  requestAnimationFrame(frame);
  window.page = { show, choose, lineage: () => lit, data: () => data, run: () => run, trail: () => trail, gpu: () => gpu, adapter: () => adapter };
  if (packed) await show(await unpacked(packed));
  document.documentElement.dataset.ready = "yes";
  if (asked.has("go") && !matchMedia("(prefers-reduced-motion: reduce)").matches && !$("go").disabled) $("go").click();
})();
