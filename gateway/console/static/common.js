// What the pages of the console share: asking the control plane, and making elements.

export const SESSION = "/console/session";
export const byId = (id) => document.getElementById(id);

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function call(path, options = {}) {
  const headers = { accept: "application/json", ...(options.body ? { "content-type": "application/json" } : {}), ...options.headers };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused(0, "The gateway does not answer.");
  }
  if (response.ok || path === "/readyz") return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail || `The gateway answered ${response.status}.`);
}

export const json = async (path, options) => (await call(path, options)).json();

export function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const UNLOCK = "#key="; // in the address, before a key: a link that unlocks a page

// A fragment is sent to no server and is in no log; the address bar and the tab's history lose it here.
export function takeKey() {
  if (!location.hash.startsWith(UNLOCK)) return null;
  const key = location.hash.slice(UNLOCK.length);
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(key);
  } catch {
    return key; // Not percent-encoded: it is meant as it stands.
  }
}

// A header's characters are bytes.
export const withKey = (key) => ({ authorization: `Bearer ${String.fromCharCode(...new TextEncoder().encode(key))}` });
