// All BundleDeployments, the worst first. Only the rows on the screen exist as elements.

import { ago, make, mark, sign } from "./dom.js";
import { follow, stop } from "./live.js";

const STATES = ["stalled", "progressing", "waiting", "paused", "ready"];
const MARKS = {
  drifted: { title: "drifted", test: (row) => row.drifted > 0, sign: "drift" },
  pending: { title: "awaiting approval", test: (row) => row.pending, sign: "waiting" },
};
const COLUMNS = ["Name", "State", "Objects", "Format", "Source", "Version", "Namespace", "Changed"];
const VALUES = { // of the choices above the table, each a list
  namespace: (row) => [row.namespace],
  format: (row) => [row.format],
  source: (row) => row.sources,
  version: (row) => [row.version],
  label: (row) => row.labels,
};
const SPARE = 10; // rows above and below the screen

export class Overview {
  constructor() {
    this.rows = new Map();
    this.elements = new Map();
    this.shown = [];
    this.active = -1;
    this.filter = { text: "", states: new Set(), marks: new Set(), ...Object.fromEntries(Object.keys(VALUES).map((kind) => [kind, ""])) };
    this.scrolled = 0;
    this.isListed = false;
    this.isPrinting = false;
    this.build();
  }

  build() {
    const search = make("input", { type: "search", id: "search", placeholder: "Search name, reason or message", "aria-label": "Search", autocomplete: "off", spellcheck: "false", oninput: () => this.narrow({ text: this.search.value.trim().toLowerCase() }) });
    this.search = search;
    this.choices = Object.fromEntries(
      Object.keys(VALUES).map((kind) => [kind, make("select", { "aria-label": `Filter by ${kind}`, onchange: (event) => this.narrow({ [kind]: event.target.value }) })]),
    );
    this.strip = make("div", { class: "strip", role: "group", "aria-label": "Counts; select to filter" });
    this.chips = Object.fromEntries([
      ...STATES.map((state) => [state, this.makeChip(state, state, this.filter.states)]),
      ...Object.entries(MARKS).map(([name, about]) => [name, this.makeChip(name, about.title, this.filter.marks, about.sign)]),
    ]);
    this.strip.append(...Object.values(this.chips));
    this.body = make("tbody", { role: "rowgroup" });
    const head = make("tr", { role: "row" }, COLUMNS.map((title) => make("th", { role: "columnheader", scope: "col" }, title)));
    this.table = make("table", { class: "board", role: "table", "aria-label": "BundleDeployments" }, make("thead", { role: "rowgroup" }, head), this.body);
    this.count = make("p", { class: "count", role: "status" });
    this.section = make(
      "div",
      { class: "overview" },
      make("h1", { class: "hidden" }, "BundleDeployments"),
      this.strip,
      make("div", { class: "tools", role: "search" }, search, ...Object.values(this.choices), this.count),
      this.table,
    );
    this.onScroll = () => this.render();
  }

  makeChip(name, title, chosen, picture = name) {
    const chip = make("button", { type: "button", class: "chip", "aria-pressed": "false", onclick: () => {
      if (!chosen.delete(name)) chosen.add(name);
      chip.setAttribute("aria-pressed", String(chosen.has(name)));
      this.narrow({});
    } }, sign(picture), make("b", {}, "0"), make("span", {}, title));
    return chip;
  }

  enter(main) {
    main.append(this.section);
    follow("/api/stream", { rows: (news) => this.take(news) });
    window.addEventListener("scroll", this.onScroll, { passive: true });
    window.addEventListener("resize", this.onScroll);
    window.onbeforeprint = () => this.print(true);
    window.onafterprint = () => this.print(false);
    this.update();
  }

  leave() {
    this.scrolled = window.scrollY;
    stop();
    window.removeEventListener("scroll", this.onScroll);
    window.removeEventListener("resize", this.onScroll);
    window.onbeforeprint = window.onafterprint = null;
  }

  show() {}

  print(isPrinting) {
    this.isPrinting = isPrinting;
    this.render();
  }

  /** Take rows that are new or have changed, and names of those that are gone. */
  take({ first, rows, gone }) {
    if (first) {
      const names = new Set(rows.map((row) => row.name));
      gone = [...this.rows.keys()].filter((name) => !names.has(name));
    }
    for (const name of gone) this.rows.delete(name);
    for (const row of rows) {
      const known = this.rows.get(row.name);
      row.isNews = this.isListed && (!first || (known && JSON.stringify({ ...known, isNews: undefined }) !== JSON.stringify(row)));
      this.rows.set(row.name, row);
    }
    this.isListed = true;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.update();
    });
  }

  narrow(change) {
    Object.assign(this.filter, change);
    this.active = -1;
    this.update();
  }

  matches(row) {
    const { text, states, marks } = this.filter;
    return (
      (!states.size || states.has(row.state)) &&
      [...marks].every((name) => MARKS[name].test(row)) &&
      Object.entries(VALUES).every(([kind, valuesOf]) => !this.filter[kind] || valuesOf(row).includes(this.filter[kind])) &&
      (!text || `${row.name} ${row.reason} ${row.message} ${row.namespace} ${row.revision} ${row.version} ${row.labels.join(" ")}`.toLowerCase().includes(text))
    );
  }

  /** Filter and sort all rows, and show the counts. */
  update() {
    const all = [...this.rows.values()];
    this.shown = all.filter((row) => this.matches(row)).sort(compare);
    for (const state of STATES) this.setCount(state, all.filter((row) => row.state === state).length);
    for (const [name, about] of Object.entries(MARKS)) this.setCount(name, all.filter(about.test).length);
    for (const [kind, select] of Object.entries(this.choices)) fill(select, kind, all, this.filter[kind]);
    const text = !this.isListed ? "Loading…" : this.shown.length === all.length ? `${all.length} BundleDeployments` : `${this.shown.length} of ${all.length}`;
    if (this.count.textContent !== text) this.count.textContent = text;
    this.table.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.table.classList.toggle("empty", this.isListed && !this.shown.length);
    for (const name of this.elements.keys()) if (!this.rows.has(name)) this.elements.delete(name);
    this.render();
  }

  setCount(name, count) {
    const number = this.chips[name].querySelector("b");
    if (number.textContent !== String(count)) number.textContent = String(count);
    this.chips[name].classList.toggle("zero", !count);
  }

  get height() {
    return parseFloat(getComputedStyle(this.table).getPropertyValue("--row")) || 44;
  }

  /** Show the rows that are on the screen, and as much room as the others take. */
  render() {
    if (!this.body.isConnected) return;
    const height = this.height;
    const above = Math.max(-this.body.getBoundingClientRect().top, 0);
    const from = this.isPrinting ? 0 : Math.max(Math.floor(above / height) - SPARE, 0);
    const to = this.isPrinting ? this.shown.length : Math.min(from + Math.ceil(window.innerHeight / height) + 2 * SPARE, this.shown.length);
    this.body.style.paddingTop = `${from * height}px`;
    this.body.style.paddingBottom = `${Math.max(this.shown.length - to, 0) * height}px`;
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const wanted = this.shown.slice(from, to).map((row, index) => this.element(row, from + index));
    const kept = new Set(wanted);
    for (const each of [...this.body.children].filter((row) => !kept.has(row))) each.remove();
    wanted.forEach((each, index) => {
      if (this.body.children[index] !== each) this.body.insertBefore(each, this.body.children[index] ?? null);
    });
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  element(row, index) {
    let known = this.elements.get(row.name);
    if (known?.row !== row) {
      const isNews = row.isNews;
      row.isNews = false;
      const element = known?.element ?? make("tr", { role: "row" });
      const isFocused = element.contains(document.activeElement);
      element.replaceChildren(...cells(row));
      if (isFocused) element.querySelector("a").focus({ preventScroll: true });
      element.dataset.name = row.name;
      element.dataset.state = row.state;
      known = { row, element };
      this.elements.set(row.name, known);
      if (isNews) mark(element);
    }
    known.element.setAttribute("aria-rowindex", String(index + 2));
    return known.element;
  }

  key(event, isTyping) {
    if (event.key === "/" && !isTyping) {
      this.search.focus();
      this.search.select();
      return true;
    }
    if (event.key === "Escape" && event.target === this.search) {
      this.search.value = "";
      this.narrow({ text: "" });
      return true;
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || (isTyping && event.target !== this.search)) return false;
    this.move(step);
    return true;
  }

  /** Focus the next row, or the previous one. */
  move(step) {
    const focused = document.activeElement?.closest?.("tr[data-name]")?.dataset.name;
    const current = focused ? this.shown.findIndex((row) => row.name === focused) : -1;
    const next = Math.min(Math.max(current + step, 0), this.shown.length - 1);
    if (next < 0) return;
    const height = this.height;
    const top = this.body.getBoundingClientRect().top + window.scrollY + next * height;
    const head = 120; // what stands above while the page is scrolled
    if (top < window.scrollY + head) window.scrollTo(0, Math.max(top - head, 0));
    else if (top + height > window.scrollY + window.innerHeight) window.scrollTo(0, top + height - window.innerHeight + 8);
    this.render();
    this.elements.get(this.shown[next].name).element.querySelector("a").focus({ preventScroll: true });
  }
}

function compare(one, other) {
  return STATES.indexOf(one.state) - STATES.indexOf(other.state) || other.drifted - one.drifted || (one.name < other.name ? -1 : 1);
}

function fill(select, kind, rows, chosen) {
  const values = [...new Set(rows.flatMap(VALUES[kind]).filter(Boolean))].sort();
  const text = values.join("\n");
  if (select.dataset.values === text) return;
  select.dataset.values = text;
  select.replaceChildren(make("option", { value: "" }, `All ${kind}s`), ...values.map((value) => make("option", { value }, value)));
  select.value = chosen;
}

function cells(row) {
  const cell = (kind, ...children) => make("td", { role: "cell", class: kind }, ...children);
  const flags = [
    row.deleting && make("span", { class: "flag" }, "deleting"),
    row.paused && row.state !== "paused" && make("span", { class: "flag" }, "paused"),
    row.pending && make("span", { class: "flag waiting" }, "awaiting approval"),
    row.drifted > 0 && make("span", { class: "flag drift" }, `${row.drifted} drifted`),
  ].filter(Boolean);
  return [
    cell("name", sign(row.state), make("a", { href: `#/bd/${encodeURIComponent(row.name)}`, key: row.name }, row.name)),
    cell("why",
      make("div", {}, make("span", { class: `word ${row.state}` }, row.state), row.reason && row.reason.toLowerCase() !== row.state && !row.pending && make("span", { class: "reason" }, row.reason), ...flags),
      row.state !== "ready" && make("span", { class: "message", title: row.message }, row.message)),
    cell("objects", ...bar(row)),
    cell("format", row.format),
    cell("source", row.sources.join(", ")),
    cell("revision", make("span", { title: row.revision }, row.version || row.revision)),
    cell("namespace", row.namespace),
    cell("changed", ago(row.changed)),
  ];
}

function bar({ healthy, total, state }) {
  if (!total) return [];
  const meter = make("span", { class: `bar-of ${healthy === total ? "ready" : state}`, "aria-hidden": "true" }, make("i"));
  meter.firstChild.style.width = `${(100 * healthy) / total}%`;
  return [meter, make("span", { class: "number" }, `${healthy}/${total}`)];
}
