// A visitor's own polygon: one choice after another, kept nowhere but in this page, and sent only to be counted.

import { byId, json, make } from "./common.js";

const PLACE = "/console/fingerprints/yours";
let tasks = [];
let least = 0;
let at = 0;
const choices = [];

const complain = (error) => { byId("visit-trouble").textContent = error.message; };

function show() {
  const isOver = at >= tasks.length;
  byId("visit-progress").textContent = `${choices.length} chosen, ${tasks.length - at} left`
    + (choices.length < least ? `; a polygon needs ${least} choices` : "");
  byId("visit-show").disabled = choices.length < least;
  byId("visit-skip").disabled = isOver;
  if (isOver) {
    byId("visit-texts").replaceChildren(make("p", { textContent: tasks.length ? "These were all." : "The project has no texts." }));
    return;
  }
  const { kind, question, texts } = tasks[at].shown;
  byId("task-title").textContent = question || `The best of these${kind ? `: ${kind.replaceAll("_", " ")}` : ""}`;
  byId("visit-texts").replaceChildren(...texts.map((text, number) => {
    const name = `Text ${number + 1}`;
    const button = make("button", { type: "button", textContent: `${name} is the best` });
    button.addEventListener("click", () => choose(number + 1));
    return make("article", {}, make("h3", { textContent: name }), make("p", { className: "text", textContent: text }), button);
  }));
}

function choose(number) {
  if (number) choices.push({ task: tasks[at].id, choice: number });
  at += 1;
  show();
  byId("task-title").focus();
}

async function draw() {
  byId("visit-trouble").textContent = "";
  try {
    const found = await json(`${PLACE}/polygon`, { method: "POST", body: JSON.stringify({ choices }) });
    byId("visit-said").textContent = found.said;
    byId("visit-figure").innerHTML = found.html; // made by the gateway, which has escaped what is in it
    byId("visit-polygon").hidden = false;
    byId("polygon-title").focus();
  } catch (error) {
    complain(error);
  }
}

if (byId("visit")) {
  byId("visit-skip").addEventListener("click", () => choose(null));
  byId("visit-show").addEventListener("click", draw);
  json(`${PLACE}/tasks`).then((found) => { ({ tasks, least } = found); show(); }, complain);
}
