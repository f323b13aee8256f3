// Forms that send JSON to the control plane: `data-send` says how and where, `data-then` where to go next, with the
// answer's members in braces. `data-kind` is the type of a member that is not a string; what is left empty is not sent. Their
// method is "dialog": before this script is there, a click sends nothing.

import { call } from "./common.js";

const KINDS = {
  boolean: (text) => text === "true",
  number: Number,
  json: JSON.parse,
  list: (text) => text.split(",").map((one) => one.trim()).filter(Boolean),
};

export function membersOf(form) {
  const members = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || (field.type === "radio" && !field.checked)) continue;
    if (field.type === "checkbox") {
      if (!field.hasAttribute("value")) members[field.name] = field.checked;
      else if (field.checked) (members[field.name] ??= []).push(field.value);
    } else if (field.multiple) {
      members[field.name] = [...field.selectedOptions].map((option) => option.value);
    } else if (field.value.trim()) {
      const kind = field.dataset.kind || (field.type === "number" ? "number" : null);
      members[field.name] = kind ? KINDS[kind](field.value) : field.value.trim();
    }
  }
  return members;
}

async function send(form) {
  const [method, path] = form.dataset.send.split(" ");
  const message = form.querySelector("[role=alert]");
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach((one) => { one.disabled = true; });
  if (message) message.textContent = "";
  try {
    const members = membersOf(form);
    const hasBody = Object.keys(members).length > 0;
    const answer = await call(path, { method, ...(hasBody ? { body: JSON.stringify(members) } : {}) });
    const said = answer.headers.get("content-type")?.includes("json") ? await answer.json() : {};
    const next = (form.dataset.then || location.href).replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(said[name]));
    if (new URL(next, location.href).href === location.href) location.reload();
    else location.assign(next);
  } catch (error) {
    if (message) {
      message.className = "form-message bad";
      message.textContent = error instanceof SyntaxError ? "What should be JSON is none." : error.message;
    } else alert(error.message);
    buttons.forEach((one) => { one.disabled = false; });
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.send) return;
  event.preventDefault();
  send(event.target);
});
