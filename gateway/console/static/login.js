// Logging in: the key is posted once, and the answer's cookie is what stays; no script can read it.

import { SESSION, byId, call, takeKey, withKey } from "./common.js";

const next = byId("login").dataset.to;

async function unlock(key) {
  try {
    await call(SESSION, { method: "POST", headers: withKey(key) });
    location.replace(next);
  } catch (error) {
    byId("message").textContent = error.status === 401 ? "That key was not accepted." : error.message;
    byId("key").focus();
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
