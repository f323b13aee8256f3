// The console: polls the control plane and draws what it says. No framework, no build step, nothing from elsewhere.

import { SESSION, byId, call, json, make } from "./common.js";

const POLL_MILLISECONDS = 3000;
const UNLOCK = "#key="; // in the address, before a control key: a link that unlocks the console (see takeKey)
const ALARM = "#alarm-"; // in the address, before a stream's id: its alarm's exchanges are open
const ALARM_OF = "#alarm?"; // in the address, before labels of a series, as a dashboard knows them: the same
const SERIES = ["auditor", "metric", "axis", "group", "model"];
const SHOWN = 300; // rows of a list
const SVG = "http://www.w3.org/2000/svg";
const OUTCOMES = ["audited", "queued", "not_auditable", "sampled_out", "filtered", "opted_out", "truncated", "expired", "failed"];

// A list of which only the first rows are asked for, and how many there are in all.
async function first(path, limit) {
  const response = await call(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}`);
  return { rows: await response.json(), total: Number(response.headers.get("x-total-count")) };
}

function tellMore(id, shown, total) {
  byId(id).hidden = total <= shown;
  byId(id).textContent = total > shown ? `The first ${whole(shown)} of ${whole(total)}: choose a model above for others.` : "";
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

// Judges and embedders that are sick.

function circuitItem(circuit) {
  const detail = `${circuit.server} · last failed ${ago(circuit.last_error_at)} · live traffic and other auditors go on`;
  return make("li", {}, make("div", {}, make("p", {}, `${circuit.auditor}: ${circuit.summary}`), make("p", { className: "detail" }, detail)));
}

function showCircuits(circuits) {
  byId("circuits-section").hidden = !circuits.length;
  byId("circuits").replaceChildren(...circuits.map(circuitItem));
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

const models = new Set(); // of all streams seen since the page was opened: a filtered list has one

function showEstimates({ rows: estimates, total }) {
  const blocks = new Map();
  for (const one of estimates) {
    models.add(one.model);
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
  offerOptions(byId("model-filter"), ["", ...models], "all");
  tellMore("estimates-more", estimates.length, total);
}

// Drift detectors.

const named = (one) => [one.auditor, words(one.metric), words(one.axis), words(one.group)].filter(Boolean).join(" · ");

function days(value) {
  if (value < 1 / 24) return "under an hour";
  if (value < 2) return `${(24 * value).toFixed(0)} h`;
  return `${value.toFixed(value < 10 ? 1 : 0)} days`;
}

function stage(one) {
  const parts = [make("span", { className: `stage-${one.state}` }, one.state)];
  if (one.state === "learning") {
    parts[0].textContent = `learning ${whole(one.reference_n)} of ${whole(one.reference_window)}`;
    parts.push(make("progress", { max: one.reference_window, value: one.reference_n }));
    parts.push(make("span", { className: "progress-text" }, one.days_until_watching === null ? "too little traffic to tell when it watches" : `watches in ${days(one.days_until_watching)}`));
  } else if (one.reference_goes_on) {
    parts.push(make("span", { className: "reason", title: one.reasons.reference_goes_on || "" }, `goes on learning: ${whole(one.reference_n)} of ${whole(one.reference_next_at)}`));
  }
  if (one.moved_while_learning) parts.push(make("span", { className: "reason stage-alarm" }, "the mean moved while it learned"));
  return make("td", { className: "stage" }, ...parts);
}

function referencePlot(one) {
  const [low, high] = one.range;
  const x = (value) => 1 + (98 * (value - low)) / (high - low);
  const svg = draw("svg", { class: "plot", viewBox: "0 0 100 22", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", one.reference ? `reference ${fixed(one.reference.lower)} to ${fixed(one.reference.upper)}, limits ${fixed(one.limits.lower)} to ${fixed(one.limits.upper)}, on ${low} to ${high}` : one.reasons.reference);
  const line = (name, from, to) => draw("line", { class: name, x1: from, x2: to, y1: 11, y2: 11, "vector-effect": "non-scaling-stroke" });
  svg.append(line("track", 1, 99));
  if (low < 0 && high > 0) svg.append(draw("line", { class: "zero", x1: x(0), x2: x(0), y1: 3, y2: 19, "vector-effect": "non-scaling-stroke" }));
  if (!one.reference) return svg;
  svg.append(line("limits", x(one.limits.lower), x(one.limits.upper)), line("range", x(one.reference.lower), x(one.reference.upper)));
  if (one.mean_since !== null) svg.append(line("halo", x(one.mean_since), x(one.mean_since)), line("point", x(one.mean_since), x(one.mean_since)));
  return svg;
}

function evidence(one) {
  if (one.log_evidence === null) return make("td", { className: "evidence", title: one.reasons.log_evidence }, one.state === "learning" ? "–" : one.reasons.log_evidence);
  const value = Math.max(0, one.log_evidence);
  return make("td", { className: "evidence" }, make("meter", { max: one.log_threshold, value: Math.min(value, one.log_threshold) }), `${one.log_evidence.toFixed(1)}, alarm at ${one.log_threshold.toFixed(1)}`);
}

function finds(one) {
  const change = one.smallest_detectable_change;
  if (change === null) return make("td", { className: "finds", title: one.reasons.smallest_detectable_change }, one.state === "learning" ? "–" : one.reasons.smallest_detectable_change);
  const within = one.within_days === null ? "" : `, ${days(one.within_days)} at present`;
  return make("td", { className: "finds" }, `finds ${fixed(change * (one.range[1] - one.range[0]))} within ${whole(one.within_audits)} audits${within}`);
}

function detectorRow(one) {
  const plotted = make("td", { title: one.reference ? `${fixed(one.reference.lower)} … ${fixed(one.reference.upper)}` : one.reasons.reference }, referencePlot(one));
  const name = make("td", { className: "group", title: `${named(one)} · ${one.instrument}` }, named(one), make("small", { className: "progress-text" }, ` ${one.model}`));
  return make("tr", { className: one.state === "alarm" ? "alarmed" : "" }, name, stage(one), plotted, evidence(one), finds(one));
}

let detectors = [];

function showDetectors({ rows, total }) {
  detectors = rows;
  const table = make("table", { className: "detectors" }, make("tbody", {}, ...rows.map(detectorRow)));
  byId("detectors").replaceChildren(rows.length ? table : make("p", { className: "empty" }, "No stream yet."));
  tellMore("detectors-more", rows.length, total);
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

function alarmItem(alarm) {
  const evidence = alarm.log_evidence === null ? "" : ` · log evidence ${alarm.log_evidence.toFixed(1)}, alarm at ${alarm.log_threshold.toFixed(1)}`;
  const direction = alarm.direction === null ? "" : ` · ${alarm.direction}`;
  const detail = `${alarm.model} · ${alarm.since === null ? "" : ago(alarm.since)}${direction}${evidence}`;
  const link = alarm.exchanges === null ? null : make("a", { href: ALARM + alarm.stream }, "Exchanges behind it");
  const button = make("button", { type: "button", className: "quiet for-admins" }, "Acknowledge");
  button.addEventListener("click", () => askForReason(alarm));
  const about = make("div", {}, make("p", {}, named(alarm)), make("p", { className: "detail" }, detail), ...changeOf(alarm));
  return make("li", {}, about, make("div", { className: "actions" }, link, button));
}

const moment = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;

// What the detector says of the change behind an alarm: before and since, when, and which model was served.
function changeOf(alarm) {
  const found = alarmed.find((one) => one.stream === alarm.stream);
  if (!found) return [];
  const mean = (value, n) => (value === null ? "unknown" : `${fixed(value)} (n ${whole(n)})`);
  const since = found.since === null ? "" : ` · since ${moment(found.since)}`;
  const levels = `mean before ${mean(found.mean_before, found.n_before)} · mean since ${mean(found.mean_since, found.n_since)}${since}`;
  const { fingerprint_before: before, fingerprint_after: after } = found;
  const model = before === null || after === null ? "model before unknown" : before === after ? `model unchanged: ${after}` : `model ${before}, now ${after}`;
  return [make("p", { className: "levels" }, levels), make("p", { className: "levels", title: found.reasons.fingerprint_before || "" }, model)];
}

let acknowledging = null;

function askForReason(alarm) {
  acknowledging = alarm.stream;
  byId("acknowledge-about").textContent = named(alarm);
  byId("acknowledge-message").textContent = "";
  byId("acknowledge-dialog").showModal();
}

async function acknowledge(event) {
  event.preventDefault();
  const form = byId("acknowledge-form");
  const body = { by: form.by.value, reason: form.reason.value, accept_new_level: form.level.value === "new" };
  try {
    await call(`/live/alarms/${encodeURIComponent(acknowledging)}/acknowledge`, { method: "POST", body: JSON.stringify(body) });
  } catch (error) {
    byId("acknowledge-message").textContent = error.message;
    return;
  }
  form.reason.value = "";
  form.level.value = "same";
  byId("acknowledge-dialog").close();
  await refresh().catch(show);
}

function showAcknowledged(entries) {
  byId("acknowledged-section").hidden = !entries.length;
  byId("acknowledged").replaceChildren(...entries.map(acknowledgedItem));
}

function acknowledgedItem(entry) {
  const stream = detectors.find((one) => one.stream === entry.stream);
  const what = entry.accept_new_level ? "accepted the new level" : "kept the reference";
  return make("li", {}, make("span", { className: "detail" }, `${moment(entry.at)} · ${stream ? named(stream) : entry.stream} · `), make("b", {}, entry.by), ` ${what}: ${entry.reason}`);
}

let alarmed = [];

function showAlarms(alarms) {
  standing = alarms;
  byId("alarms-section").hidden = !alarms.length;
  byId("alarms").replaceChildren(...alarms.map(alarmItem));
}

// The exchanges behind an alarm. Asked for once per opening: every look at served text is on record.

function addressed(hash) {
  if (hash.startsWith(ALARM)) return standing.find((one) => ALARM + one.stream === hash);
  const labels = new URLSearchParams(hash.slice(ALARM_OF.length));
  const isSaid = (name) => labels.get(name) && !labels.get(name).startsWith("$"); // Grafana leaves what it lacks
  return standing.find((one) => SERIES.every((name) => (one[name] || "") === (isSaid(name) ? labels.get(name) : "")));
}

async function openExchanges() {
  const dialog = byId("exchanges-dialog");
  const isAsked = location.hash.startsWith(ALARM) || location.hash.startsWith(ALARM_OF);
  if (!isAsked || dialog.open || byId("key-dialog").open) return;
  const opened = location.hash;
  const alarm = addressed(opened);
  byId("exchanges-about").textContent = alarm ? named(alarm) : "";
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
  const button = (label, action, kind = "quiet for-admins") => {
    const node = make("button", { type: "button", className: kind }, label);
    node.addEventListener("click", () => action(node));
    return node;
  };
  const base = `/audits/${encodeURIComponent(audit.id)}`;
  if (audit.status === "done") return [button("Report", () => openReport(base), "quiet")];
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

function askForKey(message = session ? "The session is over." : "") {
  const dialog = byId("key-dialog");
  session = null;
  byId("key-message").textContent = message;
  byId("key-message").className = "form-message bad";
  if (!dialog.open) dialog.showModal();
}

// The session. The key is posted once; what stays is a cookie that no script can read.

let session = null; // {name, role, expires_at}; expires_at is null where the gateway asks for no key

async function unlock(key) {
  const sent = String.fromCharCode(...new TextEncoder().encode(key)); // a header's characters are bytes
  try {
    session = await json(SESSION, { method: "POST", headers: { authorization: `Bearer ${sent}` } });
  } catch (error) {
    return askForKey(error.status === 401 ? "That key was not accepted." : error.message);
  }
  if (byId("key-dialog").open) byId("key-dialog").close();
  return refresh().catch(show);
}

async function logOut() {
  await call(SESSION, { method: "DELETE" }).catch(() => undefined);
  location.reload();
}

function showSession() {
  byId("log-out").hidden = session.expires_at === null;
  byId("log-out").title = `${session.name}, ${session.role}`;
  document.body.classList.toggle("viewer", session.role !== "admin");
}

// A fragment is sent to no server and is in no log; the address bar and the tab's history lose it here.
function takeKey() {
  if (!location.hash.startsWith(UNLOCK)) return null;
  const key = location.hash.slice(UNLOCK.length);
  history.replaceState(null, "", location.pathname);
  try {
    return decodeURIComponent(key);
  } catch {
    return key; // Not percent-encoded: it is meant as it stands.
  }
}

async function refresh() {
  showChecks(await json("/readyz"));
  session ??= await json(SESSION);
  showSession();
  const model = byId("model-filter").value;
  const only = model ? `?model=${encodeURIComponent(model)}` : "";
  const [estimates, watched, alarms, entries, circuits, audits, ledger] = await Promise.all([
    first(`/live/estimates${only}`, SHOWN),
    first(`/live/detectors${only}`, SHOWN),
    first("/live/alarms", SHOWN),
    json("/live/alarms/acknowledgements?limit=10"),
    json("/live/circuits"),
    json("/audits"),
    json("/live/ledger"),
  ]);
  alarmed = alarms.total ? (await first("/live/detectors?state=alarm", SHOWN)).rows : [];
  showCircuits(circuits);
  byId("notice").hidden = true;
  showEstimates(estimates);
  showDetectors(watched);
  showAlarms(alarms.rows);
  showAcknowledged(entries);
  showAudits(audits);
  showLedger(ledger);
  openExchanges();
  if (!suites.length) await fillForm();
  const offered = new Set([...models, ...audits.map((one) => one.model)]);
  const field = byId("start").model;
  if (!field.value && !field.dataset.offered && offered.size) {
    field.value = [...offered][0];
    field.dataset.offered = "yes";
  }
  byId("models").replaceChildren(...[...offered].map((value) => make("option", { value })));
}

async function poll() {
  if (!document.hidden && !byId("key-dialog").open) await refresh().catch(show);
  setTimeout(poll, POLL_MILLISECONDS);
}

byId("start").addEventListener("submit", start);
byId("acknowledge-form").addEventListener("submit", acknowledge);
byId("acknowledge-cancel").addEventListener("click", () => byId("acknowledge-dialog").close());
byId("start").suite.addEventListener("change", offerChoices);
byId("model-filter").addEventListener("change", () => refresh().catch(show));
window.addEventListener("hashchange", () => {
  const key = takeKey();
  return key ? unlock(key) : openExchanges();
});
byId("exchanges-dialog").addEventListener("close", () => history.replaceState(null, "", location.pathname));
byId("log-out").addEventListener("click", logOut);
byId("key-form").addEventListener("submit", () => {
  const key = byId("key-input").value;
  byId("key-input").value = "";
  unlock(key);
});
const given = takeKey();
(given ? unlock(given) : Promise.resolve()).then(poll);
