// Says what the runs of a form would cost, before they are started.

import { json, make } from "./common.js";
import { membersOf } from "./forms.js";
import { offerTables } from "./tables.js";

const OF_SCHEDULES = ["name", "cron", "every_seconds"];
const HEADS = ["suite", "items", "requests", "to the judge", "prompt tokens", "reply tokens", "expected", "time"];

const whole = (count) => (count === null ? "–" : count.toLocaleString("en"));

function duration(seconds) {
  if (seconds === null) return "not known";
  if (seconds < 120) return `${Math.ceil(seconds)} s`;
  return seconds < 7200 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function row(name, one) {
  const counts = [one.items, one.requests, one.judge_requests, one.prompt_tokens, one.reply_tokens, one.expected_reply_tokens].map(whole);
  return make("tr", {}, make("th", { scope: "row" }, name), ...[...counts, duration(one.seconds)].map((text) => make("td", { className: "number" }, text)));
}

function shown({ suites, total, left_out: leftOut }) {
  const head = make("tr", {}, ...HEADS.map((name, at) => make("th", { scope: "col", className: at ? "number" : "" }, name)));
  const rows = suites.map((one) => row(one.suite, one));
  if (suites.length > 1) rows.push(row("all", total));
  const notes = suites.filter((one) => one.unknown_because).map((one) => `${one.suite}: ${one.unknown_because}`);
  notes.push(...suites.filter((one) => one.has_more).map((one) => `${one.suite}: asks more items, made from the replies, which are not counted`));
  notes.push(...Object.entries(leftOut).map(([name, why]) => `left out: ${why.startsWith(name) ? why : `${name}: ${why}`}`));
  const said = "Nothing was sent. One request a reply; prompt tokens about, reply tokens at most, without thoughts; expected as in the newest finished run.";
  return [
    make("div", { className: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))),
    ...[said, ...notes].map((text) => make("p", { className: "hint" }, text)),
  ];
}

async function estimate(button) {
  const form = button.form;
  const [place, message] = [form.querySelector("[data-cost]"), form.querySelector("[role=alert]")];
  message.textContent = "";
  place.replaceChildren(make("p", { className: "hint" }, "Working it out …"));
  button.disabled = true;
  try {
    const asked = membersOf(form);
    OF_SCHEDULES.forEach((name) => delete asked[name]);
    place.replaceChildren(...shown(await json("/audits/estimate", { method: "POST", body: JSON.stringify(asked) })));
    offerTables(place);
  } catch (error) {
    place.replaceChildren();
    message.className = "form-message bad";
    message.textContent = error instanceof SyntaxError ? "What should be JSON is none." : error.message;
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("click", (event) => {
  if (event.target.matches("[data-estimate]")) estimate(event.target);
});
