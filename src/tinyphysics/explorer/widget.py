"""A run as a widget of a notebook: the page of tp explore in a frame, which the browser computes.

anywidget is imported here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import anywidget
import traitlets

from tinyphysics.explorer.page import page

# A frame of its own: styles of the notebook and of the page do not meet, and the page can reach nothing of the notebook.
SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.style.cssText = "width:100%;border:0;border-radius:6px";
  const show = () => { frame.srcdoc = model.get("page"); };
  const size = () => { frame.style.height = model.get("height") + "px"; };
  model.on("change:page", show);
  model.on("change:height", size);
  size(); show();
  el.appendChild(frame);
  return () => { model.off("change:page", show); model.off("change:height", size); };
}
export default { render };
"""


class RunWidget(anywidget.AnyWidget):
    """`sim.widget(...)`: shown by a notebook, and still alive in one that was saved."""

    _esm = SCRIPT
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(680).tag(sync=True)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Beside the widget the same frame as HTML, for a viewer that has no widgets."""
        found = super()._repr_mimebundle_(**options)
        data, about = found if isinstance(found, tuple) else (found, {})
        style = f"width:100%;height:{self.height}px;border:0"
        frame = f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self.page)}"></iframe>'
        return {**(data or {}), "text/html": frame}, about


def widget(state: Mapping[str, Any], height: int) -> RunWidget:
    return RunWidget(page=page(state), height=height)
