// Elements from values. Texts are hostile: they become text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; members of `about` are attributes, `on…` listeners, and `key` what it is found again by. */
export function make(tag, about = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "key") element.dataset.key = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child || child === 0));
  return element;
}

// Every state has a shape of its own, so that none is told by its color alone.
const SHAPES = {
  ready: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13z", "M4.8 8.2 7 10.4l4.2-4.6"],
  stalled: ["M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2z", "M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6"],
  progressing: [null, "M8 1.8a6.2 6.2 0 1 1-6.2 6.2M8 4.8V8l2.2 1.6"],
  waiting: ["M8 1 15 8l-7 7-7-7z", "M8 4.6v4M8 10.6v.8"],
  paused: ["M3.5 2h9A1.5 1.5 0 0 1 14 3.5v9a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 2 12.5v-9A1.5 1.5 0 0 1 3.5 2z", "M6.2 5.2v5.6M9.8 5.2v5.6"],
  terminating: [null, "M8 1.8a6.2 6.2 0 1 1 0 12.4a6.2 6.2 0 0 1 0-12.4zM5 8h6"],
  missing: [null, "M8 1.8a6.2 6.2 0 0 1 4.4 1.8M14 6.4a6.2 6.2 0 0 1 0 3.2M12.4 12.4a6.2 6.2 0 0 1-3 1.7M6.4 14a6.2 6.2 0 0 1-2.8-1.6M2 9.6a6.2 6.2 0 0 1 0-3.2M3.6 3.6a6.2 6.2 0 0 1 3-1.7"],
  none: [null, "M8 3.2a4.8 4.8 0 1 1 0 9.6a4.8 4.8 0 0 1 0-9.6z"],
  drift: ["M8 1.6 15 14H1z", "M8 6v3.6M8 11.6v.6"],
};
const SAME = { healthy: "ready", done: "ready", failed: "stalled", working: "progressing" };

/** Return the sign of a state. It says nothing to screen readers: a word beside it does. */
export function sign(state) {
  const name = SAME[state] ?? state;
  const [area, line] = SHAPES[name] ?? SHAPES.none;
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", "aria-hidden": "true", class: `sign ${name}` })) {
    svg.setAttribute(key, value);
  }
  for (const [kind, path] of [["area", area], [area ? "mark" : "line", line]]) {
    if (!path) continue;
    const part = document.createElementNS(SVG, "path");
    part.setAttribute("d", path);
    part.setAttribute("class", kind);
    svg.append(part);
  }
  return svg;
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** Return a duration as kubectl shows an age. */
export function age(seconds) {
  const [size, letter] = UNITS.find(([unit]) => seconds >= 2 * unit) ?? UNITS[3];
  return `${Math.max(Math.floor(seconds / size), 0)}${letter}`;
}

const since = (moment) => age((Date.now() - Date.parse(moment)) / 1000);

/** Return how long ago a moment was; `keepTime` keeps it right. */
export function ago(moment) {
  if (!moment || Number.isNaN(Date.parse(moment))) return "";
  return make("time", { datetime: moment, title: new Date(moment).toLocaleString() }, since(moment));
}

/** Keep all ages right. */
export function keepTime() {
  setInterval(() => {
    for (const each of document.getElementsByTagName("time")) {
      const text = since(each.dateTime);
      if (each.textContent !== text) each.textContent = text;
    }
  }, 1000);
}

/** Copy a text, and say so on the button. */
export async function copy(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
}

const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** Mark an element for a moment: it has changed. */
export function mark(element) {
  element.dataset.changed = String(Date.now());
  const easing = calm.matches ? "steps(1, end)" : "ease-out";
  element.animate([{ backgroundColor: "var(--changed)" }, { backgroundColor: "transparent" }], { duration: 1600, easing });
}

/** Replace what an element contains, and keep the focus on what has the same key. */
export function replace(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...children);
  if (focused !== undefined) {
    [...element.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused)?.focus({ preventScroll: true });
  }
}
