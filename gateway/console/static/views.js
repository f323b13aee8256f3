// Views of the exchanges that the reader named: filters as the address has them, kept by this browser alone.

import { byId, make } from "./common.js";

const KEPT = "biasgate-views";
const MOST = 30;

function read() {
  try {
    const views = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return views.filter(({ name, query }) => typeof name === "string" && typeof query === "string");
  } catch {
    return [];
  }
}

function filters() {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of [...query]) if (name === "before" || !value) query.delete(name);
  return query.toString();
}

function keep(views) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(views.slice(-MOST)));
    byId("view-message").textContent = "";
  } catch {
    byId("view-message").textContent = "This browser keeps nothing.";
  }
  show();
}

function entry({ name, query }) {
  const link = make("a", { href: `${location.pathname}${query ? `?${query}` : ""}` }, name);
  if (query === filters()) link.setAttribute("aria-current", "true");
  const remove = make("button", { type: "button", className: "quiet" }, "×", make("span", { className: "hidden" }, ` Remove ${name}`));
  remove.addEventListener("click", () => {
    keep(read().filter((view) => view.name !== name));
    byId("view-name").focus();
  });
  return make("li", {}, link, remove);
}

function show() {
  byId("view-list").replaceChildren(...read().map(entry));
}

byId("save-view").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = byId("view-name").value.trim();
  if (!name) return;
  keep([...read().filter((view) => view.name !== name), { name, query: filters() }]);
  byId("view-name").value = "";
});
byId("views").hidden = false;
show();
