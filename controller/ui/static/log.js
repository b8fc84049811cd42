// The log of a container, as it is written. Lines come as JSON and without control characters; the latest are kept.

import { make, replace } from "./dom.js";

const MOST_LINES = 5000;
const MOST_CHARACTERS = 4 << 20;

export class Log {
  constructor(path, body) {
    this.path = path;
    this.body = body;
    this.lines = [];
    this.size = 0;
    this.pods = new Map();
    this.list = make("pre", { class: "log", role: "log", "aria-live": "off", tabindex: "0", "aria-label": "Log" });
    this.said = make("p", { class: "quiet", role: "status" });
    const box = (title, isOn, onchange) => make("input", { type: "checkbox", checked: isOn, "aria-label": title, onchange });
    this.choose = { pod: make("select", { "aria-label": "Pod", onchange: () => this.fillContainers() || this.open() }), container: make("select", { "aria-label": "Container", onchange: () => this.open() }) };
    this.previous = box("Previous container", false, () => this.open());
    this.follow = box("Follow", true, () => this.open());
    this.wrap = box("Wrap", true, () => this.list.classList.toggle("wraps", this.wrap.checked));
    this.list.classList.add("wraps");
    this.search = make("input", { type: "search", placeholder: "Search", "aria-label": "Search the log", oninput: () => this.draw() });
    const label = (input, text) => make("label", {}, input, text);
    replace(body,
      make("div", { class: "tools" }, this.choose.pod, this.choose.container, label(this.previous, "previous"), label(this.follow, "follow"), label(this.wrap, "wrap"), this.search),
      this.said, this.list);
  }

  leave() {
    this.reading?.abort();
    this.isLeft = true;
  }

  /** Read no more, and say why; the lines stay. */
  end(message) {
    this.reading?.abort();
    this.said.textContent = message;
  }

  text() {
    return this.shown().join("\n");
  }

  /** Take the pods, of which there may be others now, or with containers that have started again. */
  take(pods) {
    this.pods = new Map(pods.map((pod) => [pod.uid, pod]));
    const chosen = this.choose.pod.value;
    this.openIfNew();
    const order = [...pods].sort((one, other) => (one.state === "healthy") - (other.state === "healthy")); // equal ones stay in order
    const options = order.map((pod) => make("option", { value: pod.uid }, pod.name));
    const text = order.map((pod) => pod.uid).sort().join(" ");
    if (text === this.known) return;
    this.known = text;
    this.choose.pod.replaceChildren(...options);
    this.choose.pod.hidden = !pods.length;
    this.choose.container.hidden = !pods.length;
    if (this.pods.has(chosen)) this.choose.pod.value = chosen;
    if (!pods.length) this.said.textContent = "This object has no pods.";
    else if (!this.pods.has(chosen)) {
      this.fillContainers();
      this.open();
    }
  }

  get container() {
    const found = this.pods.get(this.choose.pod.value)?.containers ?? [];
    return found.find((each) => each.name === this.choose.container.value) ?? {};
  }

  /** Read again if a log that has ended would now be that of another run, or could not be read at all. */
  openIfNew() {
    if (!this.isOver || !this.follow.checked || this.previous.checked || !this.pods.has(this.choose.pod.value)) return;
    const { restarts, state } = this.container;
    if (restarts !== this.opened.restarts || (!this.lines.length && state !== this.opened.state)) this.open();
  }

  fillContainers() {
    const found = this.pods.get(this.choose.pod.value)?.containers ?? [];
    const first = found.find((each) => !each.ready && each.state !== "Completed") ?? found.find((each) => each.ready);
    this.choose.container.replaceChildren(...found.map((each) => make("option", { value: each.name, selected: each === first }, each.name)));
  }

  /** Read the chosen log from its latest lines on. */
  async open() {
    this.reading?.abort();
    const reading = (this.reading = new AbortController());
    this.lines = [];
    this.size = 0;
    this.isOver = false;
    this.opened = this.container;
    this.draw();
    this.said.textContent = "Loading…";
    const query = new URLSearchParams({ uid: this.choose.pod.value, container: this.choose.container.value, previous: this.previous.checked, follow: this.follow.checked });
    try {
      const reply = await fetch(`${this.path}/log?${query}`, { signal: reading.signal });
      if (reply.ok) {
        this.said.textContent = this.follow.checked && !this.previous.checked ? "Following" : "Reading…";
        await this.read(reply.body.pipeThrough(new TextDecoderStream()).getReader());
        this.said.textContent = this.lines.length ? "The log ends here." : "The log is empty.";
      } else this.said.textContent = (await reply.json()).message;
    } catch (error) {
      if (!reading.signal.aborted) this.said.textContent = `The log ends here: ${error.message}`;
    }
    if (reading.signal.aborted) return;
    this.isOver = true;
    this.openIfNew(); // what has happened while it was read
  }

  async read(reader) {
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const texts = (rest + value).split("\n");
      rest = texts.pop();
      for (const text of texts) {
        const line = JSON.parse(text);
        this.lines.push(line);
        this.size += line.length;
      }
      let gone = Math.max(this.lines.length - MOST_LINES, 0);
      for (let index = 0; index < this.lines.length - 1 && (index < gone || this.size > MOST_CHARACTERS); index += 1) {
        this.size -= this.lines[index].length;
        gone = index + 1;
      }
      this.lines.splice(0, gone);
      this.schedule();
    }
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    setTimeout(() => {
      this.scheduled = false;
      if (!this.isLeft) this.draw();
    }, 100);
  }

  shown() {
    const text = this.search.value.toLowerCase();
    return text ? this.lines.filter((line) => line.toLowerCase().includes(text)) : this.lines;
  }

  /** Show the lines; whoever is at their end stays there. */
  draw() {
    const isAtEnd = this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 4;
    const top = this.list.scrollTop;
    this.list.textContent = this.shown().join("\n");
    this.list.scrollTop = isAtEnd ? this.list.scrollHeight : top;
  }
}
