// One BundleDeployment: pipeline, what waits for approval, objects, history, timeline; and in a drawer an object, YAML or a diff.

import { ago, copy, make, mark, replace, sign } from "./dom.js";
import { follow, stop } from "./live.js";
import { ask, send } from "./acts.js";
import { graph, weigh } from "./graph.js";
import { linesOf, short } from "./lines.js";
import { Panel, moment } from "./panel.js";

const SETTLING = 2000; // until all watches of a view that was opened have told what there is
const MANY = 12; // healthy objects of a kind from which on they are folded

export class Detail {
  constructor(name) {
    this.name = name;
    this.parts = {};
    this.known = {};
    this.nodes = new Map();
    this.folded = new Map(); // by group, what the user has chosen
    this.detail = undefined;
    this.isGraph = false;
    this.drawn = "";
    this.opened = Date.now();
  }

  get address() {
    return `#/bd/${encodeURIComponent(this.name)}`;
  }

  /** The address without a drawer. */
  get home() {
    return this.isGraph ? `${this.address}/graph` : this.address;
  }

  get path() {
    return `/api/deployments/${encodeURIComponent(this.name)}`;
  }

  enter(main) {
    const part = (name, tag = "section", about = {}) => (this.parts[name] = make(tag, { class: name, ...about }));
    this.drawer = make("dialog", { class: "drawer", "aria-labelledby": "drawer-title", onclose: () => { if (this.drawn) location.hash = this.home; } });
    this.panel = null;
    main.append(
      part("head", "div"),
      part("steps", "section", { "aria-label": "Pipeline" }),
      part("pending", "section", { "aria-label": "Awaiting approval" }),
      part("notes", "section", { "aria-label": "Warnings" }),
      make("div", { class: "columns" },
        part("objects", "section", { "aria-label": "Objects" }),
        make("div", { class: "side" }, part("history", "section", { "aria-label": "History" }), part("moments", "section", { "aria-label": "Timeline" })),
      ),
      this.drawer,
    );
    replace(this.parts.head, make("h1", {}, this.name), make("p", { class: "quiet" }, "Loading…"));
    follow(`/api/stream?name=${encodeURIComponent(this.name)}`, {
      detail: (news) => this.take(news),
      unchanged: () => this.panel?.refreshIf(this.detail?.objects ?? []),
    });
  }

  leave() {
    this.panel?.leave();
    stop();
  }

  key(event, isTyping) {
    if (event.key !== "g" || isTyping) return false;
    location.hash = this.isGraph ? this.address : `${this.address}/graph`;
    return true;
  }

  take({ detail, offers, dependents }) {
    const isFirst = Date.now() - this.opened < SETTLING;
    this.detail = detail;
    if (!detail) {
      for (const [name, part] of Object.entries(this.parts)) if (name !== "head") replace(part);
      this.known = {};
      this.panel?.refreshIf([]);
      replace(this.parts.head, make("h1", {}, this.name), make("p", { class: "quiet", role: "status" }, `BundleDeployment "${this.name}" does not exist.`));
      return;
    }
    this.put("head", [detail.row, detail.acts, offers, dependents], () => this.head(detail, offers, dependents), isFirst);
    this.put("steps", detail.steps, () => steps(detail.steps), isFirst);
    this.put("pending", [detail.pending, offers], () => this.pending(detail.pending, offers), isFirst);
    this.put("notes", detail.notes, () => detail.notes.map((text) => make("p", {}, sign("drift"), make("span", {}, text))), true);
    this.putObjects(isFirst);
    this.panel?.refreshIf(detail.objects);
    this.put("history", [detail.history, offers], () => this.history(detail, offers), isFirst);
    this.put("moments", detail.moments, () => moments(detail.moments), isFirst);
  }

  /** Show a part again if it has changed. */
  put(name, value, draw, isQuiet) {
    const text = JSON.stringify(value);
    if (this.known[name] === text) return;
    this.known[name] = text;
    const part = this.parts[name];
    replace(part, ...[draw()].flat());
    part.hidden = !part.childNodes.length;
    if (!isQuiet && !part.hidden) mark(part);
  }

  putObjects(isFirst) {
    const { objects, waves, row } = this.detail;
    const [left, top] = ["scrollLeft", "scrollTop"].map((side) => this.parts.objects.querySelector(".graph")?.[side] ?? 0);
    this.put("objects", [objects, waves, this.isGraph && [row.state, row.reason]], () => this.objects(this.detail, isFirst), true);
    this.parts.objects.querySelector(".graph")?.scrollTo(left, top);
  }

  head({ row, acts }, offers, dependents) {
    const links = (names, about) => names.length && make("span", {}, names.flatMap((name) => [make("a", { href: `#/bd/${encodeURIComponent(name)}`, key: `${about} ${name}` }, name), " "]));
    const titles = { pause: "Pause", resume: "Resume", reconcile: "Reconcile", undo: "Undo rollback" };
    const buttons = offers ? acts.filter((verb) => titles[verb]).map((verb) => this.button(verb, titles[verb])) : [];
    return [
      make("div", { class: "title" },
        make("h1", {}, this.name),
        make("p", { class: `verdict ${row.state}` }, sign(row.state), make("strong", {}, row.state), row.reason && row.reason.toLowerCase() !== row.state ? make("span", { class: "reason" }, row.reason) : ""),
        make("div", { class: "acts" }, buttons, make("a", { class: "button", href: `${this.address}/yaml`, key: "yaml" }, "YAML")),
      ),
      row.message ? make("p", { class: "message" }, row.message) : "",
      make("dl", { class: "facts" }, ...[
        ["Format", row.format],
        ["Namespace", row.namespace],
        ["Revision", row.revision],
        ["Objects", row.total ? `${row.healthy} of ${row.total} healthy` : ""],
        ["Drift", row.drifted ? `${row.drifted} drifted` : ""],
        ["Version", row.version],
        ["Requires", links(row.requires, "requires")],
        ["Required by", links(dependents, "required by")],
        ["Last change", ago(row.changed)],
      ].filter(([, value]) => value).map(([title, value]) => make("div", {}, make("dt", {}, title), make("dd", {}, value)))),
    ];
  }

  button(verb, title, given = {}, about = {}) {
    return make("button", { type: "button", key: `${verb} ${given.revision ?? ""}`, onclick: () => this.act(verb, title, given), ...about }, title);
  }

  /** Return what a verb would change, for the question before it: nothing for one that changes no object at once. */
  changeOf(verb, { revision }) {
    if (!["resume", "approve", "rollback"].includes(verb)) return undefined;
    const { objects, row } = this.detail;
    const live = objects.filter((node) => node.uid);
    return { path: this.path, drifted: live.filter((node) => node.drift), strays: live.filter((node) => node.is_stray), to: revision ?? row.desired, from: row.installed };
  }

  async act(verb, title, given) {
    const change = this.changeOf(verb, given);
    if (await ask(verb, this.name, { ...given, change })) await send(this.path, verb, title, this.name, given);
  }

  pending(pending, offers) {
    if (!pending) return [];
    const given = { revision: pending.revision, shown: pending.shown, pending };
    const list = (title, items) => (items.length ? [make("h3", {}, title), make("ul", {}, items.map((item) => make("li", {}, item)))] : []);
    return [
      make("div", { class: "title" }, make("h2", {}, sign("waiting"), `Revision ${pending.short} awaits approval`),
        make("div", { class: "acts" },
          make("a", { class: "button", href: `${this.address}/diff/${encodeURIComponent(pending.revision)}`, key: "diff pending" }, "Show changes"),
          offers ? [this.button("deny", "Deny", given), this.button("approve", "Approve", given, { class: "primary" })] : [],
        ),
      ),
      make("p", {}, pending.changes, " · waiting for ", ago(pending.since), " · applied as ", pending.account ? `ServiceAccount ${pending.account}` : "the controller"),
      ...list("Problems", pending.problems),
      ...list("New permissions", [...pending.permissions, ...(pending.more ? ["and more"] : [])]),
      ...list("Sources", pending.sources),
    ];
  }

  // objects

  objects({ objects: nodes, waves, row }, isFirst) {
    const before = this.nodes;
    this.nodes = new Map();
    const bad = nodes.filter((node) => !["healthy", "waiting"].includes(node.state)).length;
    const [drifted, strays] = [nodes.filter((node) => node.drift).length, nodes.filter((node) => node.is_stray).length];
    const summary = [`${nodes.length} objects`, bad ? `${bad} not healthy` : "", drifted ? `${drifted} drifted` : "", strays ? `${strays} part of no revision` : ""].filter(Boolean).join(", ");
    const choice = (title, href, isChosen) => make("a", { href, key: title, "aria-current": isChosen && "true" }, title);
    const title = make("div", { class: "title" }, make("h2", {}, "Objects ", make("small", {}, summary)),
      make("nav", { class: "tabs acts", "aria-label": "Show objects as" }, choice("List", this.address, !this.isGraph), choice("Graph", `${this.address}/graph`, this.isGraph)));
    if (this.isGraph) return [title, this.graph(nodes, waves, row)];
    const draw = (node) => this.node(node, isFirst ? null : before);
    const spaces = (found, wave = "") => [...group(found, (node) => node.namespace)].map(([namespace, inside]) => make("div", { class: "space" },
      make("h3", {}, namespace || "cluster"),
      ...[...group(inside, (node) => node.kind)].map(([kind, members]) => this.kind(`${wave}${namespace}/${kind}`, kind, members, draw)),
    ));
    return [
      title,
      ...waves.map((wave) => make("section", { class: `wave ${wave.state.toLowerCase()}`, "aria-label": waveTitle(wave) },
        make("h3", {}, waveTitle(wave), wave.state ? make("span", { class: "word waiting" }, wave.state.toLowerCase()) : "", wave.since ? ago(wave.since) : ""),
        wave.awaits.length ? make("p", { class: "message" }, `waits for ${some(wave.awaits)}`) : "",
        ...spaces(wave.places.map((place) => nodes[place]), `${wave.number}/`),
      )),
      ...spaces(waves.length ? nodes.filter((node) => node.hook) : nodes),
      nodes.length ? "" : make("p", { class: "quiet" }, "None yet."),
    ];
  }

  graph(nodes, waves, row) {
    const groups = waves.map((wave) => ({
      kind: waveTitle(wave),
      name: wave.awaits.length ? `waits for ${some(wave.awaits)}` : wave.state.toLowerCase(),
      state: { Applying: "progressing", Waiting: "waiting" }[wave.state] ?? "",
      children: wave.places.map((place) => nodes[place]),
    }));
    const root = { kind: "BundleDeployment", name: this.name, state: row.state, reason: row.reason, isOrdered: groups.length > 0 };
    root.children = groups.length ? [...groups, ...nodes.filter((node) => node.hook)] : nodes;
    return graph(root, ({ uid }) => uid && `${this.address}/object/${uid}`, this.address);
  }

  kind(key, kind, nodes, draw) {
    const isCalm = nodes.every((node) => node.state === "healthy" && !node.drift && !node.is_stray);
    const isOpen = this.folded.has(key) ? this.folded.get(key) : !(isCalm && nodes.length >= MANY);
    const counts = [...group(nodes, (node) => node.state)].map(([state, found]) => make("span", { class: "tally", title: state }, sign(state), String(found.length), make("span", { class: "hidden" }, ` ${state}`)));
    nodes = [...nodes].sort((one, other) => weigh(other) - weigh(one)); // equal ones stay in order of name
    const list = make("ul", { class: "tree" });
    const fillIn = () => {
      if (!list.childNodes.length) list.append(...nodes.map(draw));
    };
    if (isOpen) fillIn();
    for (const node of nodes) this.nodes.set(node.uid || `${key}/${node.name}`, face(node));
    return make("details", { open: isOpen, ontoggle: (event) => { this.folded.set(key, event.target.open); if (event.target.open) fillIn(); } },
      make("summary", { key }, make("span", { class: "kind" }, kind), ...counts), list);
  }

  node(node, before) {
    const id = node.uid || `${node.namespace}/${node.kind}/${node.name}`;
    const title = node.uid ? make("a", { href: `${this.address}/object/${node.uid}`, key: id }, node.name) : make("span", {}, node.name);
    const isOne = node.kind === "BundleDeployment" && !node.namespace; // it has a page of its own
    const page = isOne ? make("a", { href: `#/bd/${encodeURIComponent(node.name)}`, key: `page ${id}` }, "open") : "";
    const line = make("div", { class: "node" },
      sign(node.state), make("span", { class: "hidden" }, `${node.state}: `), title, page,
      node.hook ? make("span", { class: "flag" }, `${node.hook} hook`) : "",
      node.reason && node.reason.toLowerCase() !== "healthy" ? make("span", { class: `word ${node.state}` }, node.reason) : "",
      node.containers.map((each) => make("span", { class: `container ${each.ready || each.state === "Completed" ? "ok" : ""}` }, `${each.name}: ${each.state}`, each.restarts ? ` (${each.restarts} ${each.restarts === 1 ? "restart" : "restarts"})` : "")),
      node.message ? make("span", { class: "message" }, node.message) : "",
      node.drift || node.is_stray ? make("span", { class: "drift" }, sign("drift"), node.is_stray ? "part of no revision" : node.drift) : "",
    );
    if (before && before.get(id) !== face(node)) queueMicrotask(() => mark(line));
    this.nodes.set(id, face(node));
    const below = node.children.map((child) => this.node({ ...child, label: child.kind }, before));
    const kind = node.label ? make("span", { class: "kind" }, node.label) : "";
    if (kind) line.insertBefore(kind, title);
    return make("li", {}, line, below.length ? make("ul", {}, below) : "");
  }

  history({ history }, offers) {
    if (!history.length) return [make("h2", {}, "History"), make("p", { class: "quiet" }, "No revision was applied yet.")];
    const items = history.map((entry, index) => {
      const older = history[index + 1];
      const diff = older ? make("a", { href: `${this.address}/diff/${encodeURIComponent(entry.revision)}/${encodeURIComponent(older.revision)}`, key: `diff ${entry.revision}` }, "changes") : "";
      const back = offers && entry.state === "kept" ? this.button("rollback", "Roll back", { revision: entry.revision, short: entry.short }) : "";
      return make("li", {},
        make("div", { class: "entry" }, make("code", {}, entry.short), make("span", { class: `flag ${entry.state}` }, entry.state), entry.outcome ? make("span", { class: `outcome ${entry.outcome.toLowerCase()}` }, entry.outcome) : "", ago(entry.installed), diff, back),
        entry.bundle || entry.sources ? make("div", { class: "quiet" }, [entry.bundle, entry.sources].filter(Boolean).join(" · ")) : "",
        entry.message ? make("div", { class: "message" }, entry.message) : "",
      );
    });
    return [make("h2", {}, "History"), make("ol", { class: "entries" }, items), history.length > 2 ? this.chooser(history) : ""];
  }

  chooser(history) {
    const choose = (title, index) => make("select", { "aria-label": title, key: title }, history.map((entry, at) => make("option", { value: entry.revision, selected: at === index }, entry.short)));
    const [before, after] = [choose("Compare revision", history.length - 1), choose("with revision", 0)];
    const open = () => { location.hash = `${this.address}/diff/${encodeURIComponent(after.value)}/${encodeURIComponent(before.value)}`; };
    return make("div", { class: "chooser" }, before, " → ", after, make("button", { type: "button", onclick: open, key: "compare" }, "Compare"));
  }

  // the drawer

  /** Show what the rest of the address names: `graph`, `yaml`, `object/UID[/TAB]` or `diff/REVISION[/BEFORE]`. */
  async show(part) {
    const isBare = !part[0] || part[0] === "graph";
    if (isBare && this.isGraph !== (part[0] === "graph")) {
      this.isGraph = !this.isGraph;
      if (this.detail) this.putObjects(true);
    }
    const [kind, one, other] = isBare ? [] : part;
    const wanted = [kind, one, other].filter(Boolean).join("/");
    if (wanted === this.drawn) return;
    this.drawn = wanted;
    if (this.panel && (kind !== "object" || this.panel.uid !== one)) {
      this.panel.leave();
      this.panel = null;
    }
    if (!kind) {
      this.drawer.close();
      return;
    }
    if (kind === "object") {
      if (!this.panel) {
        this.panel = new Panel(this, one);
        this.panel.enter(this.drawer);
      }
      if (!this.drawer.open) this.drawer.showModal();
      await this.panel.show(other);
      return;
    }
    const query = new URLSearchParams(kind === "diff" ? { revision: one ?? "", before: other ?? "" } : {});
    const title = kind === "diff" ? (other ? `Changes from ${short(other)} to ${short(one)}` : `What ${short(one)} would change`) : `BundleDeployment ${this.name}`;
    const text = make("pre", { class: kind, tabindex: "0", "aria-label": title }, "Loading…");
    replace(this.drawer,
      make("div", { class: "title" }, make("h2", { id: "drawer-title" }, title),
        make("div", { class: "acts" }, make("button", { type: "button", onclick: (event) => copy(event.target, text.textContent) }, "Copy"), make("button", { type: "button", onclick: () => this.drawer.close() }, "Close"))),
      text);
    if (!this.drawer.open) this.drawer.showModal();
    const reply = await fetch(`${this.path}/${kind === "diff" ? "diff" : "yaml"}?${query}`);
    const lines = kind === "diff" || !reply.ok ? await linesOf(reply) : [await reply.text()];
    if (this.drawn === wanted) replace(text, ...lines);
  }

  /** Return what an object is called; it may not be known yet. */
  titleOf(uid) {
    const waiting = [...(this.detail?.objects ?? [])];
    for (let node = waiting.pop(); node; node = waiting.pop()) {
      if (node.uid === uid) return `${node.kind} ${node.namespace ? `${node.namespace}/` : ""}${node.name}`;
      waiting.push(...node.children);
    }
    return "Object";
  }
}

/** Return what of an object counts as a change. */
function face({ state, reason, message, drift, is_stray, containers }) {
  return JSON.stringify([state, reason, message, drift, is_stray, containers]);
}

const waveTitle = ({ number }) => (number === null ? "Wave not known" : `Wave ${number}`);

/** Return the first of many names, and how many more there are. */
const some = (names) => names.slice(0, 5).join(", ") + (names.length > 5 ? ` and ${names.length - 5} more` : "");

function group(items, keyOf) {
  const found = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(item);
  }
  return found;
}

function steps(found) {
  return [
    make("ol", {}, found.map((step) => make("li", { class: step.state },
      make("div", { class: "step" }, sign(step.state), make("h2", {}, step.title), make("span", { class: "hidden" }, step.state), ago(step.time)),
      step.reason && step.state !== "done" ? make("p", { class: "reason" }, step.reason) : "",
      make("ul", {}, step.facts.map((fact) => make("li", {}, fact))),
      step.message ? make("p", { class: "message" }, step.message) : "",
    ))),
  ];
}

function moments(found) {
  return [make("h2", {}, "Timeline"), make("ol", { class: "line-of-time" }, found.map(moment))];
}
