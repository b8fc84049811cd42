// The one connection of a page: server-sent events about what it shows, and how current that is.

const SILENCE = 8000; // of a server that sends something every two seconds

let source = null;
let followed = null;
let heard = 0;
let contact = { state: "connecting", message: "", since: "" };
let tell = () => {};

/** Open the connection for a view, in place of the last one; `handlers` are called with the data of their events. */
export function follow(address, handlers) {
  stop();
  followed = { address, handlers };
  if (!document.hidden) open(followed);
}

function open({ address, handlers }) {
  source = new EventSource(address);
  heard = Date.now();
  const listen = (kind, handle) =>
    source.addEventListener(kind, (event) => {
      heard = Date.now();
      handle(JSON.parse(event.data));
    });
  listen("beat", show);
  listen("contact", (now) => {
    contact = now;
    show();
  });
  for (const [kind, handle] of Object.entries(handlers)) listen(kind, handle);
  source.addEventListener("error", show);
}

/** Close the connection. */
export function stop() {
  followed = null;
  close();
}

function close() {
  source?.close();
  source = null;
}

// Browsers open six connections to a server at most: pages that nobody looks at must not take them.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) close();
  else if (followed && !source) open(followed);
});

/** Call a function with `{state, message, since}` whenever that may have changed. */
export function onContact(handle) {
  tell = handle;
  setInterval(show, 1000);
}

function show() {
  const isSilent = source && (source.readyState !== EventSource.OPEN || Date.now() - heard > SILENCE);
  const last = new Date(heard).toISOString();
  tell(isSilent && heard ? { state: "stopped", message: "", since: last } : contact);
}
