// Which view is shown, the keyboard, and what stands around the views.

import { keepTime, make, replace, sign } from "./dom.js";
import { onContact } from "./live.js";
import { Detail } from "./detail.js";
import { Overview } from "./overview.js";

const main = document.getElementById("main");
const help = document.getElementById("help");
const overview = new Overview();
let view = null;
let viewed = "";

/** Show what the address names: `#/`, `#/bd/NAME`, or a part of that. */
function route() {
  const [, kind, name, ...part] = location.hash.split("/").map(decode);
  const wanted = kind === "bd" && name ? `bd/${name}` : "";
  if (!view || wanted !== viewed) {
    view?.leave();
    view = wanted ? new Detail(name) : overview;
    viewed = wanted;
    document.title = wanted ? `${name} – RukPak` : "RukPak";
    showTrail(wanted && name);
    replace(main);
    view.enter(main);
    window.scrollTo(0, wanted ? 0 : overview.scrolled);
  }
  view.show(part);
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function showTrail(name) {
  const items = [["BundleDeployments", "#/"], ...(name ? [[name, `#/bd/${encodeURIComponent(name)}`]] : [])];
  const last = items.length - 1;
  replace(
    document.getElementById("trail"),
    ...items.map(([text, href], index) => make("li", {}, make("a", { href, "aria-current": index === last && "page" }, text))),
  );
}

const WORDS = { live: "live", connecting: "connecting", away: "cluster away", denied: "no permission", unserved: "no controller", stopped: "disconnected" };

function showContact({ state, message, since }) {
  const pill = document.getElementById("live");
  if (pill.dataset.state !== state) {
    pill.dataset.state = state;
    pill.textContent = WORDS[state];
  }
  const seconds = since ? Math.round((Date.now() - Date.parse(since)) / 1000) : 0;
  const old = since ? ` What is shown is ${seconds} s old.` : "";
  const texts = {
    away: `The cluster does not answer: ${message}.${old}`,
    denied: `BundleDeployments cannot be listed: ${message}.`,
    unserved: `${message}.`,
    stopped: `No answer from "rukpak ui": it has ended, or this page was closed for it.${old}`,
  };
  const banner = document.getElementById("contact");
  const text = texts[state] ?? "";
  banner.hidden = !text;
  document.body.classList.toggle("stale", Boolean(text) && state !== "unserved"); // then objects are shown as they are
  if (banner.textContent !== text) banner.textContent = text;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.matches("input, select, textarea");
  if (event.key === "?" && !isTyping) help.showModal();
  else if (event.key === "u" && !isTyping) location.hash = "#/";
  else if (view.key(event, isTyping)) event.preventDefault();
});

document.getElementById("help-button").addEventListener("click", () => help.showModal());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("legend").append(
  ...["stalled", "progressing", "waiting", "paused", "ready", "missing", "terminating", "drift"].map((state) =>
    make("li", {}, sign(state), state),
  ),
);
window.addEventListener("hashchange", route);
keepTime();
onContact(showContact);
route();
