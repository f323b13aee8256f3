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
