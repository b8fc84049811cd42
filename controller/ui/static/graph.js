// The objects of a BundleDeployment as a picture: who owns whom, from left to right. Nested lists; the sheet draws the lines.

import { make, sign } from "./dom.js";

const MOST = 300; // nodes of a picture; the list has all
const NEED = ["healthy", "", "waiting", "terminating", "progressing", "missing", "failed"]; // of attention

/** Return how much attention an object needs; a drifted one or a stray more than one that waits. */
export const weigh = ({ state, drift, is_stray }) => NEED.indexOf(state) + (drift || is_stray ? 3 : 0);

/**
 * Return the picture of a node and of all below it; of too many, those that need attention, with their owners.
 * Args: `linkOf` returns the address of a node, if it has one, and `rest` is that of what is left out. The children of
 * the root stay in their order if it `isOrdered`; other nodes stand after their siblings that need more attention.
 */
export function graph(root, linkOf, rest) {
  const levels = [[root, null]];
  for (const [node] of levels) for (const child of node.children) levels.push([child, node]);
  const owners = new Map(levels);
  const [weights, sizes] = [new Map(), new Map()]; // of a node with all below it
  for (const [node, owner] of [...levels].reverse()) {
    weights.set(node, Math.max(weigh(node), weights.get(node) ?? 0));
    sizes.set(node, 1 + (sizes.get(node) ?? 0));
    weights.set(owner, Math.max(weights.get(owner) ?? 0, weights.get(node)));
    sizes.set(owner, (sizes.get(owner) ?? 0) + sizes.get(node));
  }
  const chosen = choose(levels.map(([node]) => node), owners);
  const draw = (node) => {
    const [shown, others] = [true, false].map((isShown) => node.children.filter((child) => chosen.has(child) === isShown));
    if (node !== root || !root.isOrdered) shown.sort((one, other) => weights.get(other) - weights.get(one));
    const more = others.reduce((sum, child) => sum + sizes.get(child), 0);
    return make("li", {}, box(node, linkOf(node)), node.children.length ? make("ul", {},
      shown.map(draw),
      more ? make("li", {}, make("a", { class: "box", href: rest, key: `more ${node.uid ?? node.kind}` }, `… and ${more} more`)) : "",
    ) : "");
  };
  return make("div", { class: "graph", key: "graph", tabindex: "0", role: "group", "aria-label": "Graph of the objects" }, make("ul", {}, draw(root)));
}

function choose(nodes, owners) {
  const chosen = new Set();
  for (const node of [...nodes].sort((one, other) => weigh(other) - weigh(one))) { // equal ones: the outer first
    const line = [];
    for (let each = node; each && !chosen.has(each); each = owners.get(each)) line.push(each);
    if (chosen.size + line.length > MOST) break;
    line.forEach((each) => chosen.add(each));
  }
  return chosen;
}

function box({ uid, kind, namespace, name, state, reason, drift, is_stray, containers = [] }, href) {
  const restarts = containers.reduce((sum, each) => sum + each.restarts, 0);
  const notes = [
    reason && reason.toLowerCase() !== state ? reason : "",
    restarts ? `${restarts} ${restarts === 1 ? "restart" : "restarts"}` : "",
  ].filter(Boolean);
  return make(href ? "a" : "span", { class: `box ${state}`, href, key: href && uid, title: `${namespace ? `${namespace}/` : ""}${name}` },
    sign(state), make("span", { class: "hidden" }, state ? `${state}: ` : ""),
    make("span", { class: "kind" }, kind), make("span", { class: "name" }, name),
    notes.map((text) => make("span", { class: "word" }, text)),
    drift || is_stray ? make("span", { class: "drift" }, sign("drift"), is_stray ? " stray" : " drifted") : "",
  );
}
