// The lines of a diff, as the server writes it.

import { make } from "./dom.js";

/** Return the beginning of a digest. */
export const short = (digest) => (digest ?? "").split(":").pop().slice(0, 12);

/** Return elements for the lines of a reply with a diff, or why there is none. */
export async function linesOf(reply) {
  if (!reply.ok) return [(await reply.json()).message];
  const { lines } = await reply.json();
  const end = lines.indexOf(""); // of the summary, which is prose
  return lines.map((line, index) => make("span", { class: `line ${end < 0 || index < end ? "said" : kindOf(line)}` }, `${line}\n`));
}

/** Return what a line of a unified diff is. */
function kindOf(line) {
  if (line.startsWith("--- ") || line.startsWith("+++ ")) return "place";
  return { "+": "added", "-": "removed", "@": "place" }[line[0]] ?? "";
}
