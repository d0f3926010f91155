// Search on pages that are opened from a disk: browsers start no Worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      const place = () => {
        document.body.appendChild(frame);
        const inside = frame.contentWindow;
        inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
        const script = inside.document.createElement("script");
        script.src = String(url);
        script.onload = () => {
          this.inside = inside;
          this.waiting.splice(0).forEach(data => this.postMessage(data));
        };
        inside.document.head.appendChild(script);
      };
      document.body ? place() : addEventListener("DOMContentLoaded", place);
    }
    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
    terminate() {}
  };
}
