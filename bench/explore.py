"""What does the explorer cost?  CPU seconds of a first text and of an edit, and a step in WebAssembly beside a native one.

python bench/explore.py
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tinyphysics.explore_child import answer
from tinyphysics.explorer.page import ASSETS

ROOT = Path(__file__).parents[1]
STEPS = 1_000_000
NODE = """
const M = require(process.argv[1]), state = JSON.parse(require("fs").readFileSync(0));
(async () => {
  const r = await M.Run.make(state.kernel, 1);
  r.begin(state.run.start); r.advance(200000);
  const before = process.cpuUsage();
  r.advance(STEPS);
  console.log(process.cpuUsage(before).user / STEPS * 1000);
})();
"""

SERVER = """
import time
import tinyphysics.explore_command, starlette.applications, uvicorn, websockets
print(time.process_time())
"""

if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    text = (ROOT / "examples" / "explore" / "kepler.py").read_text(encoding="utf-8")
    answer({"file": "kepler.py", "text": text}, folder)
    first = time.process_time()
    ran = subprocess.run([sys.executable, "-c", SERVER], capture_output=True, text=True, check=True)
    print(
        f"server, and its child until the first text is answered: {float(ran.stdout):.2f} + {first:.2f} CPU s"
    )
    begin = time.process_time()
    found = answer({"file": "kepler.py", "text": text.replace("-mu /", "-2*mu /")}, folder)
    print(f"edit:                {time.process_time() - begin:.2f} CPU s")

    import tinyphysics as tp
    from tinyphysics.user_file import load

    op = tp.compile(load(str(ROOT / "examples" / "explore" / "kepler.py")).system.bind({}), 0.02).kernel(
        "llvm"
    )
    buffers = op.new_buffers()
    buffers["state"][:, 0] = [1.0, 0.0, 0.0, 1.2]
    op.init(buffers)
    op(buffers, {"steps": 1000})
    begin = time.process_time()
    op(buffers, {"steps": 3 * STEPS})
    native = (time.process_time() - begin) / (3 * STEPS) * 1e9
    print(f"one native lane:     {native:.1f} ns a step")
    if node := shutil.which("node"):
        program = NODE.replace("STEPS", str(STEPS))
        command = [node, "-e", program, str(ASSETS / "machine.js")]
        ran = subprocess.run(command, input=json.dumps(found["state"]), capture_output=True, text=True)
        wasm = float(ran.stdout)
        print(f"WebAssembly in node: {wasm:.1f} ns a step, {wasm / native:.1f} times one lane")
