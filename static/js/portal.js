// What HTML can't do alone: single keys, copying, choosing all, remembering whether keys are on.
const root = document.documentElement;
root.dataset.keys = localStorage.getItem("keys") || "on";

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.matches("input, textarea")) event.target.blur();
  const typing = event.target.closest("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || root.dataset.keys === "off") return;
  const target = event.key === "/" ? document.getElementById("q") : [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)].find((one) => one.checkVisibility());
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) {
    target.focus();
    target.select();
  } else {
    target.click();
  }
});

// Choosing a row must not search anew, as changing a filter does.
document.addEventListener("change", (event) => {
  if (event.target.matches(".pick")) event.stopPropagation();
  if (event.target.matches(".choose-all")) {
    for (const box of event.target.form.querySelectorAll("[name=ids]")) box.checked = event.target.checked;
  }
}, true);

document.addEventListener("click", async (event) => {
  const toggle = event.target.closest(".keys-toggle");
  if (toggle) {
    root.dataset.keys = root.dataset.keys === "off" ? "on" : "off";
    localStorage.setItem("keys", root.dataset.keys);
    return labelKeys();
  }
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1500);
});

function labelKeys() {
  for (const toggle of document.querySelectorAll(".keys-toggle")) {
    const on = root.dataset.keys !== "off";
    toggle.textContent = on ? "Keys on" : "Keys off";
    toggle.setAttribute("aria-pressed", on);
  }
}
labelKeys();

// What was typed outlives a session that ended: it is kept while a form is on its way, and put back after signing in.
const DRAFT = "draft";
const typed = (form) => [...form.querySelectorAll("textarea, input[type=text], input[type=search], select")].filter((one) => one.name);

document.addEventListener("submit", (event) => {
  if (event.target.closest("[data-keeps-draft]") || event.target.method !== "post") return;
  const values = typed(event.target).map((one) => [one.name, one.value]);
  if (values.some(([, value]) => value.trim())) {
    sessionStorage.setItem(DRAFT, JSON.stringify({ page: location.pathname, person: document.body.dataset.person, values, lost: false }));
  }
});

function putBack() {
  const draft = JSON.parse(sessionStorage.getItem(DRAFT) || "null");
  if (!draft) return;
  if (document.querySelector("[data-keeps-draft]")) {
    sessionStorage.setItem(DRAFT, JSON.stringify({ ...draft, lost: true }));
    return;
  }
  if (draft.lost && draft.page !== location.pathname) return; // still on the way back
  sessionStorage.removeItem(DRAFT);
  if (!draft.lost || draft.person !== document.body.dataset.person) return; // somebody else has signed in
  const names = draft.values.map(([name]) => name).join();
  const form = [...document.forms].find((one) => typed(one).map((field) => field.name).join() === names);
  if (!form) return;
  typed(form).forEach((field, place) => {
    field.value = draft.values[place][1];
    field.dispatchEvent(new Event("refill"));
  });
  tell(form, "What you had typed is here again. It was not sent.");
}
putBack();

// A request that failed says so beside what was tried, until the next one succeeds.
function tell(beside, says) {
  beside.parentElement.querySelector(":scope > .told")?.remove();
  const note = document.createElement("p");
  note.className = "note warn told";
  note.setAttribute("role", "alert");
  note.textContent = says;
  beside.before(note);
}
const FAILED = {
  403: "This is not yours to see.",
  413: "This is too much for one request.",
  429: "Too many requests of yours wait already. Try again in a moment.",
  503: "The database does not answer. Try again in a moment.",
};
document.addEventListener("htmx:responseError", ({ detail }) => {
  const status = detail.xhr.status;
  tell(detail.elt, `${FAILED[status] || `The server could not do this (${status}).`} What you see is from before.`);
});
for (const name of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, ({ detail }) => tell(detail.elt, "The server did not answer. What you see is from before; try again."));
}
document.addEventListener("htmx:afterOnLoad", ({ detail }) => {
  if (detail.successful) detail.elt.parentElement?.querySelector(":scope > .told")?.remove();
});

// One search is one entry of the history, however often one paused while typing.
let searching = false;
document.addEventListener("htmx:beforeHistoryUpdate", ({ detail }) => {
  const isTyping = detail.requestConfig.triggeringEvent?.type === "input";
  if (isTyping && searching) detail.history.type = "replace";
  searching = isTyping;
});
document.addEventListener("focusout", () => { searching = false; });
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
