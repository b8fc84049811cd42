// Acts: what would be done is said first, and then sent with the token that only this page has.

import { make, replace } from "./dom.js";
import { linesOf } from "./lines.js";

const QUESTIONS = {
  pause: ["Pause", () => ["Nothing on the cluster is changed until it is resumed: changes by others stay, and new revisions wait."]],
  resume: ["Resume", () => ["What has drifted is repaired, and the desired revision is installed."]],
  reconcile: ["Reconcile", () => ["All sources are resolved again now. If that leads to another revision, it is installed."]],
  approve: ["Approve", ({ pending }) => decision(pending)],
  deny: ["Deny", ({ pending }) => [...decision(pending), make("p", {}, "What is installed is kept and repaired.")]],
  rollback: ["Roll back", ({ short }) => [`Revision ${short} is applied again. New content and config are ignored until the rollback is undone.`]],
  undo: ["Undo rollback", () => ["The pin is removed: what the sources lead to is installed again."]],
};

function decision(pending) {
  return [
    make("p", {}, `Revision ${pending.short}: ${pending.changes}.`),
    pending.permissions.length ? make("p", {}, "It may, in addition:") : "",
    make("ul", {}, pending.permissions.map((text) => make("li", {}, text)), pending.more ? make("li", {}, "and more") : ""),
  ];
}

/**
 * Return what would change: objects that others have changed, and what a stored revision changes in another one; and the
 * strays, which stay as they are.
 */
function preview({ path, drifted, strays, to = "", from = "" }) {
  const list = (title, nodes) => nodes.length ? [
    make("p", {}, title),
    make("ul", {},
      nodes.slice(0, 20).map(({ kind, namespace, name, drift }) => make("li", {}, `${kind} ${namespace ? `${namespace}/` : ""}${name}${drift ? `: ${drift}` : ""}`)),
      nodes.length > 20 ? make("li", {}, `and ${nodes.length - 20} more`) : ""),
  ] : [];
  const text = make("pre", { class: "preview", role: "region", tabindex: "0", "aria-label": "What would change", hidden: true });
  const fill = async (query, note) => {
    text.hidden = false;
    text.textContent = note;
    replace(text, ...(await linesOf(await fetch(`${path}/diff?${new URLSearchParams(query)}`))));
  };
  if (to && from && to !== from) fill({ revision: to, before: from }, "Comparing the stored revisions…");
  return [
    ...list("Changed by others, and set again:", drifted),
    ...list("Part of no revision, and left as they are:", strays),
    text,
    to ? make("button", { type: "button", onclick: () => fill({ revision: to }, "Asking the cluster, without changing it…") }, "Compare with the cluster") : "",
  ];
}

/** Ask whether to do something; return the answer. */
export function ask(verb, name, given) {
  const [title, explain] = QUESTIONS[verb];
  const dialog = document.getElementById("ask");
  document.getElementById("ask-title").textContent = `${title}: ${name}`;
  const yes = document.getElementById("ask-yes");
  yes.textContent = title;
  replace(document.getElementById("ask-text"), ...explain(given).filter(Boolean), ...(given.change ? preview(given.change).filter(Boolean) : []));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

/** Do it, and say how that ended; the controller reconciles later, if one runs. */
export async function send(path, verb, title, name, { revision = "", shown = "" }) {
  const said = document.getElementById("said");
  said.className = "";
  said.textContent = `${title}: ${name}…`;
  try {
    const csrf = document.querySelector('meta[name="csrf"]').content;
    const reply = await fetch(`${path}/acts/${verb}`, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ revision, shown }) });
    if (!reply.ok) throw new Error((await reply.json()).message);
    said.textContent = `${title}: ${name}: ${verb === "reconcile" ? "requested" : "done"}`;
  } catch (error) {
    said.className = "failed";
    said.textContent = `${title}: ${name}: ${error.message}`;
  }
}
