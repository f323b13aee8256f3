// Logging in: the key is posted once, and the answer's cookie is what stays; no script can read it.

import { SESSION, byId, call } from "./common.js";

const UNLOCK = "#key="; // in the address, before a control key: a link that unlocks the console
const next = byId("login").dataset.to;

async function unlock(key) {
  const sent = String.fromCharCode(...new TextEncoder().encode(key)); // a header's characters are bytes
  try {
    await call(SESSION, { method: "POST", headers: { authorization: `Bearer ${sent}` } });
    location.replace(next);
  } catch (error) {
    byId("message").textContent = error.status === 401 ? "That key was not accepted." : error.message;
    byId("key").focus();
  }
}

// A fragment is sent to no server and is in no log; the address bar and the tab's history lose it here.
function takeKey() {
  if (!location.hash.startsWith(UNLOCK)) return null;
  const key = location.hash.slice(UNLOCK.length);
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(key);
  } catch {
    return key; // Not percent-encoded: it is meant as it stands.
  }
}

// Who followed a link from another site is here though the session goes on: the cookie comes with our own links only.
function goOnWithSession() {
  return call(SESSION).then(() => location.replace(next), () => undefined);
}

const enter = () => {
  const given = takeKey();
  return given ? unlock(given) : goOnWithSession();
};

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = byId("key").value;
  byId("key").value = "";
  unlock(key);
});
addEventListener("hashchange", enter);
enter();
