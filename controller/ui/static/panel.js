// The panel of one object: what is wrong with it and why, the logs of its pods, Events, what it should be, and its YAML.

import { ago, copy, make, replace, sign } from "./dom.js";
import { Log } from "./log.js";

const TABS = { summary: "Summary", logs: "Logs", events: "Events", difference: "Difference", yaml: "YAML" };

export class Panel {
  /** Args: the view of the BundleDeployment, and the UID of one of its objects. */
  constructor(detail, uid) {
    this.detail = detail;
    this.uid = uid;
    this.tab = "";
    this.title = make("h2", { id: "drawer-title" }, "Object");
    this.nav = make("nav", { class: "tabs", "aria-label": "About this object" });
    this.body = make("div", { class: "panel" });
    this.log = null;
    this.mayHavePods = undefined; // until that is known
    this.gone = ""; // what is said once it does not exist any more
    this.asked = 0; // how often: only the answer to the last question counts
  }

  get address() {
    return `${this.detail.address}/object/${this.uid}`;
  }

  enter(drawer) {
    replace(drawer,
      make("div", { class: "title" }, this.title,
        make("div", { class: "acts" }, make("button", { type: "button", onclick: (event) => copy(event.target, this.text()) }, "Copy"), make("button", { type: "button", onclick: () => drawer.close() }, "Close"))),
      this.nav, this.body);
  }

  leave() {
    this.log?.leave();
    this.log = null;
    this.isLeft = true;
  }

  text() {
    return this.log ? this.log.text() : (this.body.querySelector("pre, table") ?? this.body).innerText;
  }

  /** Show a tab. */
  async show(tab) {
    this.tab = TABS[tab] ? tab : "summary";
    this.log?.leave();
    this.log = null;
    this.drawTabs();
    replace(this.body, make("p", { class: "quiet", role: "status" }, "Loading…"));
    await this.refresh();
  }

  /** Show the tabs; only what may have pods has logs, which its YAML does not tell. */
  drawTabs() {
    const hasLogs = this.mayHavePods ?? ["logs", "yaml"].includes(this.tab);
    const tabs = Object.entries(TABS).filter(([name]) => name !== "logs" || hasLogs);
    replace(this.nav, ...tabs.map(([name, title]) => make("a", { href: `${this.address}/${name}`, key: name, "aria-current": name === this.tab && "page" }, title)));
  }

  /** Show again what has changed if the object has, or if it is not among the nodes: it may have come and gone. */
  refreshIf(nodes) {
    const node = find(nodes, this.uid);
    const text = JSON.stringify(node);
    if (this.tab && (!node || text !== this.seen)) this.refresh();
    this.seen = text;
  }

  /** Show again what may have changed. */
  async refresh() {
    const tab = this.tab;
    if (this.gone) {
      this.fail(this.gone);
      return;
    }
    const number = (this.asked += 1);
    const isOld = () => this.isLeft || number !== this.asked;
    const reply = await this.read(tab === "yaml" ? "yaml" : "object", isOld);
    const isText = reply.ok && tab === "yaml";
    const answer = await (isText ? reply.text() : reply.json());
    if (isOld()) return;
    if (!reply.ok) {
      if (reply.status === 404) this.gone = answer.message;
      this.fail(answer.message);
      return;
    }
    if (isText) {
      this.title.textContent = this.detail.titleOf(this.uid);
      replace(this.body, make("pre", { role: "region", tabindex: "0", "aria-label": "YAML" }, answer));
      return;
    }
    const about = answer;
    this.title.textContent = about.title;
    if (this.mayHavePods !== about.may_have_pods) {
      this.mayHavePods = about.may_have_pods;
      this.drawTabs();
    }
    if (tab === "logs") {
      this.log ??= new Log(this.detail.path, this.body);
      this.log.take(about.pods);
    } else replace(this.body, ...{ summary: () => this.summary(about), events: () => events(about), difference: () => difference(about) }[tab]());
  }

  /** Say why there is nothing to show; the lines of a log stay. */
  fail(message) {
    if (this.log) this.log.end(message);
    else replace(this.body, make("p", { role: "status" }, message));
  }

  /** Return a reply; objects are only known once the stream has brought them. */
  async read(what, isOld, tries = 20) {
    const reply = await fetch(`${this.detail.path}/${what}?${new URLSearchParams({ uid: this.uid })}`);
    if (reply.status !== 503 || !tries) return reply;
    await new Promise((resolve) => setTimeout(resolve, 250));
    return isOld() ? reply : this.read(what, isOld, tries - 1);
  }

  summary({ node, owners, created, since, wave, drift, pods }) {
    const link = ({ title, uid }) => make("a", { href: `${this.detail.address}/object/${uid}`, key: uid }, title);
    const facts = [
      ["Since", ago(since || created)],
      ["Created", ago(created)],
      ["Wave", wave],
      ["Hook", node.hook],
      ["Owned by", make("span", {}, make("a", { href: this.detail.address }, `BundleDeployment ${this.detail.name}`), owners.flatMap((owner) => [" → ", link(owner)]))],
    ];
    return [
      make("p", { class: `verdict ${node.state}` }, sign(node.state), make("strong", {}, node.state || "not known"), make("span", { class: "reason" }, node.reason)),
      node.message ? make("p", { class: "message" }, node.message) : "",
      make("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([title, value]) => make("div", {}, make("dt", {}, title), make("dd", {}, value)))),
      ...drifts(node, drift),
      ...(pods.length ? [make("h3", {}, pods.length === 1 ? "Pod" : `${pods.length} Pods`), ...pods.map((pod) => this.pod(pod, link))] : []),
    ].filter(Boolean);
  }

  pod(pod, link) {
    const rows = pod.containers.map((each) => make("tr", {}, ...[
      each.name, each.state, each.ready ? "yes" : "no", String(each.restarts), each.last ? make("span", {}, each.last, " ", ago(each.ended)) : "–",
    ].map((cell) => make("td", {}, cell))));
    const heading = ["Container", "State", "Ready", "Restarts", "Last end"].map((title) => make("th", { scope: "col" }, title));
    return make("div", { class: "pod" },
      make("p", { class: "node" }, sign(pod.state), make("span", { class: "hidden" }, `${pod.state}: `), pod.uid === this.uid ? pod.name : link({ title: pod.name, uid: pod.uid }), pod.message ? make("span", { class: "message" }, pod.message) : ""),
      rows.length ? make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": `Containers of ${pod.name}` }, make("table", {}, make("thead", {}, make("tr", {}, heading)), make("tbody", {}, rows))) : "",
    );
  }
}

function find(nodes, uid) {
  for (const node of nodes) {
    const found = node.uid === uid ? node : find(node.children, uid);
    if (found) return found;
  }
  return undefined;
}

function drifts(node, fields) {
  if (node.is_stray) return [make("h3", {}, "Part of no revision"), make("p", {}, "It has the marks of this BundleDeployment, but none of its revisions contains it, so it is neither changed nor deleted.")];
  if (!node.drift) return [];
  const lines = fields.length ? fields.map(([path, holder]) => make("li", {}, make("code", {}, path), holder ? ` now owned by ${holder}` : " is not ours any more")) : [make("li", {}, node.drift)];
  return [make("h3", {}, "Changed by others"), make("ul", { class: "drifted" }, lines)];
}

function events({ events: found, notes }) {
  return [
    ...notes.map((text) => make("p", { class: "quiet" }, text)),
    found.length ? make("ol", { class: "line-of-time" }, found.map(moment)) : make("p", { class: "quiet" }, "No Events; the API server deletes them after an hour."),
  ];
}

/** Return the line of a condition or an Event. */
export function moment({ kind, tone, time, title, reason, message }) {
  return make("li", { class: `${kind} ${tone}` },
    make("div", {}, ago(time), make("strong", {}, title), reason ? make("span", { class: "reason" }, reason) : ""),
    message ? make("p", { class: "message" }, message) : "");
}

function difference({ difference: rows }) {
  if (!rows) return [make("p", { class: "quiet" }, "What is desired is not known: this object is not part of the installed revision, or you may not read stored revisions.")];
  const changed = rows.filter(([, , differs]) => differs).length;
  const cell = (text, other) => make("td", {}, text, other ? make("span", { class: "hidden" }, " (differs)") : "");
  return [
    make("p", {}, changed ? `${changed} ${changed === 1 ? "line differs" : "lines differ"}` : "As desired", make("span", { class: "quiet" }, " · only fields that the installed revision sets; values of Secrets as hashes")),
    make("div", { class: "wide sides", tabindex: "0", role: "group", "aria-label": "Difference" }, make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Desired"), make("th", { scope: "col" }, "Live"))),
      make("tbody", {}, rows.map(([left, right, differs]) => make("tr", { class: differs && "differs" }, cell(left, differs && left), cell(right, differs && right)))))),
  ];
}
