// Every data table as CSV and as JSON, by two links beneath it: a row of it a line, numbers as numbers. A cell may say its
// value in `data-value` and the ends of its interval in `data-lower` and `data-upper`; of other cells the text is read. What
// has `data-member` gives its `data-value` to a column of that name: a heading in addition to its text, parts of a cell instead.

import { make } from "./common.js";

const NUMBER = "[+−-]?(?:[1-9]\\d{0,2}(?:,\\d{3})+|[1-9]\\d{0,14}|0)(?:\\.\\d+)?";
const IS_NUMBER = new RegExp(`^${NUMBER}(?:e[+-]?\\d+)?$`);
const INTERVAL = new RegExp(`^(${NUMBER}) to (${NUMBER})$`);
const ESTIMATE = new RegExp(`^(.*\\S) (${NUMBER}) \\((?:(${NUMBER}) to (${NUMBER})|no interval)\\)$`); // ss 52.10 (48.00 to 56.00)
const LEFT_OUT = "svg, form, button, abbr, .hidden, .table-links";
const IS_FORMULA = /^[=+\-@\t\r]/; // of a text: a spreadsheet would compute it

const numberOf = (text) => Number(text.replaceAll(",", "").replace("−", "-"));
const valueOf = (text) => (["", "–", "None"].includes(text) ? null : IS_NUMBER.test(text) ? numberOf(text) : text);

function textOf(node) {
  const copy = node.cloneNode(true);
  copy.querySelectorAll(LEFT_OUT).forEach((one) => one.remove());
  copy.querySelectorAll("time[datetime]").forEach((one) => one.replaceWith(one.dateTime));
  copy.querySelectorAll("details").forEach((one) => one.replaceWith(one.querySelector("summary")?.textContent ?? ""));
  copy.querySelectorAll("li + li, p + p, br").forEach((one) => one.before("; "));
  return copy.textContent.replace(/\s+/g, " ").trim();
}

// What a cell says, by the ending of the name of its column.
function partsOf(cell) {
  const { value, lower, upper } = cell.dataset;
  if (cell.querySelector("[data-member]")) return {};
  if (cell.dataset.member) return { "": textOf(cell) };
  const parts = value === undefined ? {} : { "": valueOf(value) };
  if (lower !== undefined) return { ...parts, " lower": valueOf(lower), " upper": valueOf(upper) };
  if (value !== undefined) return parts;
  const text = textOf(cell);
  if (cell.tagName === "TH") return { "": text || null };
  const interval = INTERVAL.exec(text);
  if (interval) return { " lower": numberOf(interval[1]), " upper": numberOf(interval[2]) };
  const estimate = ESTIMATE.exec(text);
  if (!estimate) return { "": valueOf(text) };
  return { "": estimate[1], " value": numberOf(estimate[2]), " lower": valueOf(estimate[3] ?? ""), " upper": valueOf(estimate[4] ?? "") };
}

function namesOf(table) {
  const names = [];
  for (const cell of table.tHead.rows[table.tHead.rows.length - 1].cells) {
    const name = cell.dataset.name ?? (textOf(cell) || "unnamed");
    const n = names.filter((one) => one === name || one.startsWith(`${name} #`)).length;
    names.push(n ? `${name} #${n + 1}` : name, ...Array(cell.colSpan - 1).fill(name));
  }
  return names;
}

// Rows as objects that all have the same members; a column in which no row says anything, such as of drawings, is left out.
export function rowsOf(table) {
  const names = namesOf(table);
  const columns = names.map(() => new Set());
  const further = names.map(() => new Set());
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]).map((row) => {
    const members = {};
    let at = 0;
    for (const cell of row.cells) {
      for (const [ending, value] of Object.entries(partsOf(cell))) {
        if (value === null || names[at] === undefined) continue;
        members[names[at] + ending] = value;
        columns[at].add(ending);
      }
      for (const one of [cell, ...cell.querySelectorAll("[data-member]")].filter((one) => one.dataset.member)) {
        members[one.dataset.member] = valueOf(one.dataset.value);
        further[at]?.add(one.dataset.member);
      }
      at += cell.colSpan;
    }
    return members;
  });
  const order = names.flatMap((name, at) => ["", " value", " lower", " upper"].filter((ending) => columns[at].has(ending)).map((ending) => name + ending).concat([...further[at]].sort()));
  return rows.filter((row) => Object.keys(row).length).map((row) => Object.fromEntries(order.map((name) => [name, row[name] ?? null])));
}

function fieldOf(value) {
  if (value === null) return "";
  const text = typeof value === "string" && IS_FORMULA.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// RFC 4180.
const csv = (rows) => [Object.keys(rows[0] ?? {}), ...rows.map(Object.values)].map((row) => `${row.map(fieldOf).join(",")}\r\n`).join("");
const WRITERS = { CSV: ["text/csv;charset=utf-8", csv], JSON: ["application/json", (rows) => `${JSON.stringify(rows, null, 2)}\n`] };

function titleOf(table) {
  const summary = table.closest("details")?.querySelector("summary");
  const before = [...document.querySelectorAll("main h1, main h2, main h3")].filter((one) => one.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING);
  return textOf(table.caption ?? summary ?? before.at(-1) ?? document.querySelector("title"));
}

function fileName(title, ending) {
  const words = `${location.pathname.replace("/console", "")} ${title}`.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 120);
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  return `biasgate-${words.replace(/^-|-$/g, "")}-${time}.${ending}`;
}

function link(table, title, kind, id) {
  const [type, write] = WRITERS[kind];
  const node = make("a", { id, href: `#${id}`, textContent: kind });
  node.setAttribute("aria-label", `${kind}: ${title}`);
  node.addEventListener("click", () => {
    URL.revokeObjectURL(node.href);
    node.href = URL.createObjectURL(new Blob([write(rowsOf(table))], { type }));
    node.download = fileName(title, kind.toLowerCase());
  });
  return node;
}

export function offerTables(root) {
  const tables = [...document.querySelectorAll("main table")];
  for (const table of root.querySelectorAll("table")) {
    if (!tables.includes(table) || !table.tHead || table.dataset.offered || !table.tBodies[0]?.rows[0]?.cells[1]) continue;
    table.dataset.offered = "";
    const title = titleOf(table);
    const links = Object.keys(WRITERS).map((kind) => link(table, title, kind, `table-${tables.indexOf(table)}-${kind.toLowerCase()}`));
    const place = make("span", { className: "table-links" }, ...links);
    if (table.caption) table.caption.append(place);
    else (table.closest(".scroll") ?? table).after(place);
  }
}
