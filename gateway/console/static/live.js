// Keeps an open page up to date: the server sends those parts of it that changed, and nothing else is touched.

import { SESSION, byId, call } from "./common.js";
import { offerTables } from "./tables.js";

const STALE_MILLISECONDS = 10000; // without a word from the server the page greys out
const RETRY_MILLISECONDS = 3000;

let heardAt = Date.now();
let trouble = "";
const waiting = new Map(); // parts in which the user is reading or writing

function isInUse(node) {
  const focused = document.activeElement;
  if (node.contains(focused) && focused.matches("input, select, textarea")) return true;
  const selection = document.getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

// What the reader did with a part, by ids and places, is done to its successor.
function replace(node, { digest, html }) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  const again = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.getAttribute("href") ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]` : null);
  const open = [...node.querySelectorAll("details[id]")].map(({ id, open: isOpen }) => [id, isOpen]);
  const scrolled = [...node.querySelectorAll(".scroll")].map(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]);
  node.innerHTML = html;
  node.dataset.digest = digest;
  open.forEach(([id, isOpen]) => byId(id)?.toggleAttribute("open", isOpen));
  node.querySelectorAll(".scroll").forEach((one, at) => scrolled[at] && one.scrollTo(...scrolled[at]));
  offerTables(node);
  if (again) node.querySelector(again)?.focus({ preventScroll: true });
  showTimes(node);
  nameCells(node);
  if (node.querySelector("[data-reload]")) location.reload(); // what is made once can be made now
}

function apply() {
  for (const [name, part] of waiting) {
    const node = byId(`live-${name}`);
    if (node && node.dataset.digest !== part.digest) {
      if (isInUse(node)) continue;
      replace(node, part);
    }
    waiting.delete(name);
  }
}

function listen() {
  const source = new EventSource(location.href);
  source.addEventListener("update", (event) => {
    const { title, fragments } = JSON.parse(event.data);
    heardAt = Date.now();
    trouble = "";
    if (document.title !== title) document.title = title;
    Object.entries(fragments).forEach(([name, part]) => waiting.set(name, part));
    apply();
    showFreshness();
  });
  source.addEventListener("trouble", (event) => {
    trouble = event.data;
    showFreshness();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(findOut, RETRY_MILLISECONDS);
  });
  addEventListener("pagehide", () => source.close(), { once: true });
}

// The server refused to go on: the session is over, or it is busy or restarting.
async function findOut() {
  try {
    await call(SESSION);
    listen();
  } catch (error) {
    trouble = error.status === 401 ? "The session is over: reload the page to log in." : error.message;
    showFreshness();
    if (error.status !== 401) setTimeout(findOut, RETRY_MILLISECONDS);
  }
}

function showFreshness() {
  const age = Date.now() - heardAt;
  const isStale = age > STALE_MILLISECONDS;
  document.body.classList.toggle("stale", isStale);
  const seconds = Math.round(age / 1000);
  const text = isStale || trouble
    ? `Not up to date since ${new Date(heardAt).toLocaleTimeString()}. ${trouble || "The gateway does not answer."}`
    : seconds < 5 ? "Up to date" : `Updated ${seconds} s ago`;
  if (byId("fresh").textContent !== text) byId("fresh").textContent = text;
}

function ago(at) {
  const age = (Date.now() - at) / 1000;
  const is = age < 0 ? (text) => `in ${text}` : (text) => `${text} ago`;
  const size = Math.abs(age);
  if (size < 60) return age < 0 ? "in a moment" : "just now";
  if (size < 7200) return is(`${Math.floor(size / 60)} min`);
  if (size < 172800) return is(`${Math.floor(size / 3600)} h`);
  return is(`${Math.floor(size / 86400)} days`);
}

function showTimes(root) {
  for (const node of root.querySelectorAll("time[datetime]")) {
    if (!node.title) node.title = node.textContent;
    const text = ago(Date.parse(node.dateTime));
    if (node.textContent !== text) node.textContent = text;
  }
}

// On a narrow window each row stands as a block: its cells say which column they are of (style.css).
function nameCells(root) {
  for (const table of root.querySelectorAll(".scroll > table")) {
    const columns = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    for (const { cells } of table.tBodies[0].rows) {
      let at = 0;
      for (const cell of cells) {
        if (cell.tagName === "TD" && cell.colSpan < columns.length) cell.dataset.column = columns[at] ?? "";
        at += cell.colSpan;
      }
    }
  }
}

byId("log-out")?.addEventListener("click", async () => {
  await call(SESSION, { method: "DELETE" }).catch(() => undefined);
  location.assign("/console/login");
});
document.addEventListener("selectionchange", () => waiting.size && apply());
document.addEventListener("focusout", () => waiting.size && setTimeout(apply));
setInterval(() => {
  apply();
  showFreshness();
  showTimes(document);
}, 1000);
// Who has a session needs no link with a key, which is not to stay in the address.
const forgetKey = () => location.hash.startsWith("#key=") && history.replaceState(null, "", location.pathname + location.search);
addEventListener("hashchange", forgetKey);
forgetKey();
showTimes(document);
nameCells(document);
offerTables(document);
listen();
