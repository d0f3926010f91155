/* The page with an editor: it sends the text, and shows what comes back. */
(async () => {
  const $ = (id) => document.getElementById(id), says = (t) => { said.textContent = t; };
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  const box = $("editor"), area = document.createElement("textarea"), said = document.createElement("p");
  const bar = document.createElement("p"), choice = document.createElement("select"), halt = document.createElement("button"), save = document.createElement("button");
  area.spellcheck = false; area.setAttribute("aria-label", "your file"); said.className = "said"; said.setAttribute("role", "status"); bar.className = "controls";
  halt.textContent = "■ stop"; save.textContent = "save as a page"; halt.type = save.type = "button";
  bar.append(choice, halt, save); box.append(bar, area, said); box.className = "box"; box.hidden = false;
  if (token) {
    const answer = await fetch("/session", { method: "POST", body: JSON.stringify({ token }) });
    if (!answer.ok) { says("This address is of another session. Open the one that tp explore has printed."); return; }
    history.replaceState(null, "", "/");
  }
  let socket = null, method = null, timer = 0, before = null;
  const send = (message) => { if (socket && socket.readyState === 1) socket.send(JSON.stringify(message)); };
  const compile = () => { says("compiling …"); send({ text: area.value, method }); };
  window.pin = (name) => { method = name; compile(); };
  area.oninput = () => { clearTimeout(timer); timer = setTimeout(compile, 300); };
  area.onkeydown = (e) => { if (e.key === "Tab") { e.preventDefault(); area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end"); area.oninput(); } };
  halt.onclick = () => send({ stop: true });
  choice.onchange = () => { method = null; before = null; send({ show: choice.value }); };
  save.onclick = () => { location.href = "/page.html"; };
  function mark(line) {
    const lines = area.value.split("\n"), start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.setSelectionRange(start, start + (lines[line - 1] || "").length);
    area.scrollTop = Math.max(0, (line - 4) * 18);
    const source = window.page.data() && window.page.data().levels.find((l) => l.name === "source");
    if (source) { source.bad = new Set([line]); dispatchEvent(new Event("resize")); }
  }
  function open() {
    socket = new WebSocket(`ws://${location.host}/ws`);
    socket.onmessage = async ({ data }) => {
      const m = JSON.parse(data);
      if (m.open) {
        area.value = m.open.text;
        choice.replaceChildren(...m.open.gallery.map((n) => Object.assign(document.createElement("option"), { textContent: n, selected: `${n}.py` === m.open.file })));
        choice.hidden = !m.open.gallery.length;
        compile();
      } else if (m.error) {
        const at = m.error.line ? `Line ${m.error.line}: ` : "";
        says(`${at}${m.error.what.replace(/\.$/, "")}. ${m.error.fix}`);
        said.classList.add("poor");
        if (m.error.line) mark(m.error.line);
      } else if (m.state) {
        said.classList.remove("poor");
        says((m.state.warnings || []).join("\n"));
        await window.page.show(m.state);
        const facts = Object.fromEntries(m.state.report.filter((s) => s.title === "facts").flatMap((s) => s.rows.map((r, k) => [r[0], [r[1], k]])));
        for (const [name, [verdict, k]] of Object.entries(facts)) if (verdict === "no" && before && before[name] && before[name][0] === "yes") { window.page.choose("facts", k); break; }
        before = facts;
        document.documentElement.dataset.shown = String(1 + +(document.documentElement.dataset.shown || 0));
      }
    };
    socket.onclose = () => says("The server has ended, or refused this page. Open the address that tp explore has printed.");
  }
  open();
})();
