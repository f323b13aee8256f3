// The console: polls the control plane and draws what it says. No framework, no build step, nothing from elsewhere.

const KEY = "biasgate-admin-key";
const POLL_MILLISECONDS = 3000;
const UNLOCK = "#key="; // in the address, before an admin key: a link that unlocks the console (see takeKey)
const ALARM = "#alarm-"; // in the address, before a stream's id: its alarm's exchanges are open
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const OUTCOMES = ["audited", "queued", "sampled_out", "filtered", "opted_out", "truncated", "expired", "failed"];

class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function call(path, options = {}) {
  const key = sessionStorage.getItem(KEY);
  const headers = { accept: "application/json", ...(options.body ? { "content-type": "application/json" } : {}) };
  if (key) headers.authorization = `Bearer ${key}`;
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

const json = async (path, options) => (await call(path, options)).json();

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function draw(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const words = (name) => (name || "").replaceAll("_", " ");
const fixed = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
const whole = (value) => Math.round(value).toLocaleString("en");

function ago(seconds) {
  const age = Math.max(0, Date.now() / 1000 - seconds);
  if (age < 60) return "just now";
  if (age < 3600) return `${Math.floor(age / 60)} min ago`;
  if (age < 86400) return `${Math.floor(age / 3600)} h ago`;
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

// Status line.

function showChecks(readiness) {
  byId("checks").replaceChildren(
    ...Object.entries(readiness.checks).map(([name, text]) =>
      make(
        "li",
        { className: text.startsWith("ok") ? "" : "bad", title: text },
        make("span", { className: "dot" }),
        text.startsWith("ok") ? words(name) : `${words(name)}: ${text}`,
      ),
    ),
  );
}

// Live estimates.

function plot(estimate) {
  const [low, high] = estimate.range;
  const x = (value) => 1 + (98 * (value - low)) / (high - low);
  const svg = draw("svg", { class: "plot", viewBox: "0 0 100 22", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", estimate.value === null ? estimate.reason : `${fixed(estimate.value)}, from ${fixed(estimate.lower)} to ${fixed(estimate.upper)}, on ${low} to ${high}`);
  const line = (name, from, to) => draw("line", { class: name, x1: from, x2: to, y1: 11, y2: 11, "vector-effect": "non-scaling-stroke" });
  svg.append(line("track", 1, 99));
  if (low < 0 && high > 0) svg.append(draw("line", { class: "zero", x1: x(0), x2: x(0), y1: 3, y2: 19, "vector-effect": "non-scaling-stroke" }));
  if (estimate.value === null) return svg;
  svg.append(line("range", x(estimate.lower), x(estimate.upper)));
  // A line without length but with round caps is a dot that the stretched view box cannot squash.
  svg.append(line("halo", x(estimate.value), x(estimate.value)), line("point", x(estimate.value), x(estimate.value)));
  return svg;
}

function estimateRow(estimate) {
  const name = estimate.group ? words(estimate.group) : estimate.axis ? "all groups" : "all";
  const numbers =
    estimate.value === null
      ? [make("td", { className: "nothing", colSpan: 3 }, estimate.reason)]
      : [
          make("td", { className: "number value" }, fixed(estimate.value)),
          make("td", { className: "number interval" }, `${fixed(estimate.lower)} … ${fixed(estimate.upper)}`),
          make("td", { className: "number count", title: `${estimate.n_excluded} audits gave no value` }, `n ${whole(estimate.n)}`),
        ];
  return make(
    "tr",
    { className: estimate.alarm ? "alarmed" : "" },
    make("td", { className: "group", title: estimate.instrument }, name),
    make("td", {}, plot(estimate)),
    ...numbers,
  );
}

function estimateBlock([title, rows]) {
  const { range, model } = rows[0];
  const label = make("h3", {}, title, make("small", {}, `  ${model} · ${range[0]} to ${range[1]}`));
  const table = make("table", { className: "estimates" }, make("tbody", {}, ...rows.map(estimateRow)));
  return make("div", {}, label, table, ...rows.filter((one) => one.most_normal).map(mostNormal));
}

function mostNormal({ most_normal: found }) {
  const others = found.not_told_apart.map(words);
  const certainty = others.length ? `not told apart from ${others.join(", ")}` : "told apart from every other identity";
  const next = `next ${words(found.runner_up)}, farther by ${fixed(found.gap)}`;
  return make("p", { className: "hint most-normal" }, "Most normal identity: ", make("b", {}, words(found.group)), ` (mean distance ${fixed(found.value)}; ${next}), ${certainty}`);
}

function showEstimates(estimates) {
  const wanted = byId("model-filter").value;
  const blocks = new Map();
  for (const one of estimates) {
    if (wanted && one.model !== wanted) continue;
    const title = [one.auditor, words(one.metric), words(one.axis)].filter(Boolean).join(" · ");
    const key = `${title}\n${one.model}`;
    if (!blocks.has(key)) blocks.set(key, [title, []]);
    blocks.get(key)[1].push(one);
  }
  const shown = [...blocks.values()].map(estimateBlock);
  if (!shown.length) {
    shown.push(make("p", { className: "empty" }, "Nothing audited yet: estimates appear once sampled exchanges have been audited."));
  }
  byId("estimates").replaceChildren(...shown);
  offerOptions(byId("model-filter"), ["", ...new Set(estimates.map((one) => one.model))], "all");
}

function offerOptions(select, values, emptyLabel) {
  const kept = select.value;
  const known = [...select.options].map((option) => option.value);
  if (known.length === values.length && known.every((value, index) => value === values[index])) return;
  select.replaceChildren(...values.map((value) => make("option", { value }, value || emptyLabel)));
  if (values.includes(kept)) select.value = kept;
}

// Alarms.

let standing = [];

const subjectOf = (alarm) => [alarm.auditor, words(alarm.metric), words(alarm.axis), words(alarm.group)].filter(Boolean).join(" · ");

function alarmItem(alarm) {
  const evidence = alarm.log_evidence === null ? "" : ` · log evidence ${alarm.log_evidence.toFixed(1)}, alarm at ${alarm.log_threshold.toFixed(1)}`;
  const direction = alarm.direction === null ? "" : ` · ${alarm.direction}`;
  const detail = `${alarm.model} · ${alarm.since === null ? "" : ago(alarm.since)}${direction}${evidence}`;
  const link = alarm.exchanges === null ? null : make("a", { href: ALARM + alarm.stream }, "Exchanges behind it");
  const button = make("button", { type: "button", className: "quiet" }, "Acknowledge");
  button.addEventListener("click", () => act(button, `/live/alarms/${encodeURIComponent(alarm.stream)}/acknowledge`));
  const about = make("div", {}, make("p", {}, subjectOf(alarm)), make("p", { className: "detail" }, detail));
  return make("li", {}, about, make("div", { className: "actions" }, link, button));
}

function showAlarms(alarms) {
  standing = alarms;
  byId("alarms-section").hidden = !alarms.length;
  byId("alarms").replaceChildren(...alarms.map(alarmItem));
}

// The exchanges behind an alarm. Asked for once per opening: every look at served text is on record.

async function openExchanges() {
  const dialog = byId("exchanges-dialog");
  if (!location.hash.startsWith(ALARM) || dialog.open || byId("key-dialog").open) return;
  const opened = location.hash;
  const alarm = standing.find((one) => ALARM + one.stream === opened);
  byId("exchanges-about").textContent = alarm ? subjectOf(alarm) : "";
  byId("exchanges-message").textContent = alarm ? "Loading" : "This alarm does not stand any more: somebody has acknowledged it.";
  byId("exchanges").replaceChildren();
  dialog.showModal();
  if (!alarm) return;
  try {
    const scores = alarm.exchanges === null ? [] : await json(alarm.exchanges);
    if (location.hash === opened) showExchanges(alarm, scores);
  } catch (error) {
    byId("exchanges-message").textContent = error.message;
    if (error.status !== 401) return;
    dialog.close();
    askForKey();
  }
}

function showExchanges(alarm, scores) {
  const ids = [...new Set([...alarm.exchange_ids, alarm.exchange_id])].filter(Boolean);
  const stored = ids.filter((id) => scores.some((one) => one.id === id));
  const gone = ids.length - stored.length;
  byId("exchanges-message").textContent = gone ? `${gone} of ${ids.length} are not stored any more.` : "";
  byId("exchanges").replaceChildren(...stored.map((id) => exchangeItem(alarm, scores.filter((one) => one.id === id))));
}

function exchangeItem(alarm, scores) {
  const [{ id, model, received_at: at, prompt, reply, no_text_because: reason }] = scores;
  const when = new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ");
  const mark = id === alarm.exchange_id ? make("b", { className: "raised" }, "raised the alarm") : null;
  const head = make("p", { className: "detail" }, `${when} UTC · ${model} · request ${scores[0].request_id} `, mark);
  const texts = reason === null ? [said("Asked", prompt), said("Answered", reply)] : [make("p", { className: "empty" }, reason)];
  return make("li", {}, head, make("ul", { className: "scores" }, ...scores.map(scoreItem)), ...texts);
}

function scoreItem(one) {
  const against = one.reference ? `against ${words(one.reference)}` : null;
  return make("li", {}, [words(one.metric), words(one.group), against].filter(Boolean).join(" · "), " ", make("b", {}, fixed(one.value)));
}

function said(speaker, text) {
  return make("div", { className: "said" }, make("p", { className: "detail" }, speaker), make("p", { className: "words" }, text));
}

async function act(button, path) {
  button.disabled = true;
  try {
    await call(path, { method: "POST" });
    await refresh();
  } catch (error) {
    show(error);
  }
  button.disabled = false;
}

// Audits.

function progressCell(audit) {
  const { done, total, eta_seconds: eta } = audit.progress;
  if (audit.status === "failed") {
    return make("td", { className: "progress-text", title: audit.error || "" }, make("span", { className: "reason" }, audit.error || "stopped"));
  }
  if (!total) return make("td", { className: "progress-text" }, audit.status === "queued" ? "waiting for an auditor" : "–");
  const left = eta === null || audit.status !== "running" ? "" : ` · ${Math.ceil(eta)} s left`;
  return make("td", {}, make("progress", { max: total, value: done }), make("span", { className: "progress-text" }, ` ${done}/${total}${left}`));
}

function auditActions(audit) {
  const button = (label, action) => {
    const node = make("button", { type: "button", className: "quiet" }, label);
    node.addEventListener("click", () => action(node));
    return node;
  };
  const base = `/audits/${encodeURIComponent(audit.id)}`;
  if (audit.status === "done") return [button("Report", () => openReport(base))];
  if (audit.status === "queued" || audit.status === "running") return [button("Cancel", (node) => act(node, `${base}/cancel`))];
  return [button("Resume", (node) => act(node, `${base}/resume`))];
}

function auditRow(audit) {
  return make(
    "tr",
    {},
    make("td", { title: `${audit.mode}, ${audit.protocol}` }, audit.suite),
    make("td", { className: "model" }, audit.model),
    make("td", { className: `state state-${audit.status}`, title: audit.error || "" }, audit.status),
    progressCell(audit),
    make("td", { className: "progress-text when" }, ago(audit.started_at ?? audit.created_at)),
    make("td", { className: "actions" }, ...auditActions(audit)),
  );
}

function showAudits(audits) {
  byId("audits-empty").hidden = audits.length > 0;
  byId("audits").replaceChildren(...audits.map(auditRow));
}

async function openReport(base) {
  const tab = window.open("", "_blank");
  try {
    const page = await (await call(`${base}/report`)).blob();
    tab.location = URL.createObjectURL(page);
  } catch (error) {
    tab.close();
    show(error);
  }
}

// The form.

let suites = [];

async function fillForm() {
  const message = byId("start-message");
  try {
    suites = await json("/suites");
    message.textContent = "";
    offerOptions(byId("start").suite, suites.map((suite) => suite.name), "");
    offerChoices();
  } catch (error) {
    if (error.status !== 503) throw error;
    message.textContent = error.message;
  }
}

function offerChoices() {
  const form = byId("start");
  const suite = suites.find((one) => one.name === form.suite.value);
  if (!suite) return;
  offerOptions(form.mode, suite.modes, "");
  offerOptions(form.protocol, ["corrected", "paper", "release"].filter((name) => suite.protocols.includes(name)), "");
  offerOptions(form.data, suite.data === "absent" || suite.data === "damaged" ? ["embedded"] : ["canonical", "embedded"], "");
}

async function start(event) {
  event.preventDefault();
  const form = byId("start");
  const message = byId("start-message");
  const asked = { suites: [form.suite.value], model: form.model.value.trim(), mode: form.mode.value, protocol: form.protocol.value, data: form.data.value };
  if (form.limit.value) asked.limit = Number(form.limit.value);
  if (form.seed.value) asked.seed = Number(form.seed.value);
  try {
    const { id } = await json("/audits", { method: "POST", body: JSON.stringify(asked) });
    message.className = "form-message";
    message.textContent = `Started ${id}.`;
    await refresh();
  } catch (error) {
    message.className = "form-message bad";
    message.textContent = error.message;
  }
}

// Ledger.

function showLedger(ledger) {
  const names = Object.keys(ledger.outcomes).sort((a, b) => OUTCOMES.indexOf(a) - OUTCOMES.indexOf(b));
  const total = names.reduce((sum, name) => sum + ledger.outcomes[name], 0);
  if (!total) {
    byId("ledger").replaceChildren(make("p", { className: "empty" }, "No request yet."));
    return;
  }
  const bar = draw("svg", { class: "ledger-bar", viewBox: `0 0 ${total} 1`, preserveAspectRatio: "none", role: "img", "aria-label": "share of each outcome" });
  let at = 0;
  const entries = names.map((name) => {
    const count = ledger.outcomes[name];
    const kind = `outcome-${OUTCOMES.includes(name) ? name : "unknown"}`;
    bar.append(draw("rect", { class: kind, x: at, y: 0, width: count, height: 1 }));
    at += count;
    const swatch = draw("svg", { class: "swatch", viewBox: "0 0 1 1" }, draw("rect", { class: kind, width: 1, height: 1 }));
    return make("li", {}, swatch, words(name), make("b", {}, whole(count)), make("small", {}, `${((100 * count) / total).toFixed(1)}%`));
  });
  byId("ledger").replaceChildren(bar, make("ul", { className: "legend" }, ...entries));
}

// The loop.

function show(error) {
  if (error.status === 401) return askForKey();
  byId("notice").hidden = false;
  byId("notice").textContent = error.message;
  return undefined;
}

function askForKey() {
  const dialog = byId("key-dialog");
  byId("key-message").textContent = sessionStorage.getItem(KEY) ? "That key was not accepted." : "";
  byId("key-message").className = "form-message bad";
  sessionStorage.removeItem(KEY);
  if (!dialog.open) dialog.showModal();
}

// A fragment is sent to no server and is in no log; the address bar and the tab's history lose it here.
function takeKey() {
  if (!location.hash.startsWith(UNLOCK)) return;
  let key = location.hash.slice(UNLOCK.length);
  try {
    key = decodeURIComponent(key);
  } catch {
    // Not percent-encoded: it is meant as it stands.
  }
  history.replaceState(null, "", location.pathname);
  if (key) sessionStorage.setItem(KEY, key);
}

async function refresh() {
  showChecks(await json("/readyz"));
  const [estimates, alarms, audits, ledger] = await Promise.all([json("/live/estimates"), json("/live/alarms"), json("/audits"), json("/live/ledger")]);
  byId("notice").hidden = true;
  byId("forget").hidden = !sessionStorage.getItem(KEY);
  showEstimates(estimates);
  showAlarms(alarms);
  showAudits(audits);
  showLedger(ledger);
  openExchanges();
  if (!suites.length) await fillForm();
  const models = new Set([...estimates, ...audits].map((one) => one.model));
  const field = byId("start").model;
  if (!field.value && !field.dataset.offered && models.size) {
    field.value = [...models][0];
    field.dataset.offered = "yes";
  }
  byId("models").replaceChildren(...[...models].map((value) => make("option", { value })));
}

async function poll() {
  if (!document.hidden && !byId("key-dialog").open) await refresh().catch(show);
  setTimeout(poll, POLL_MILLISECONDS);
}

byId("start").addEventListener("submit", start);
byId("start").suite.addEventListener("change", offerChoices);
byId("model-filter").addEventListener("change", () => refresh().catch(show));
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith(UNLOCK)) return openExchanges();
  takeKey();
  if (byId("key-dialog").open) byId("key-dialog").close();
  return refresh().catch(show);
});
byId("exchanges-dialog").addEventListener("close", () => history.replaceState(null, "", location.pathname));
byId("forget").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  location.reload();
});
byId("key-form").addEventListener("submit", () => {
  sessionStorage.setItem(KEY, byId("key-input").value);
  byId("key-input").value = "";
  refresh().catch(show);
});
takeKey();
poll();
