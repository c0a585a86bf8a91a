// Page behavior that HTML lacks: single-key shortcuts, copy buttons, select all, drafts, and errors of htmx requests.
const root = document.documentElement;
root.dataset.keys = localStorage.getItem("keys") || "on";

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.matches("input, textarea")) event.target.blur();
  const typing = event.target.closest("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || root.dataset.keys === "off") return;
  const target = event.key === "/" ? document.getElementById("q") : [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)].find((element) => element.checkVisibility());
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) {
    target.focus();
    target.select();
  } else {
    target.click();
  }
});

// Selecting a row must not trigger a search, although the search form listens for changes inside the results.
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
    toggle.textContent = on ? "Shortcuts on" : "Shortcuts off";
    toggle.setAttribute("aria-pressed", on);
  }
}
labelKeys();

// Keep the text of a submitted form, and restore it if the session had expired and the user had to sign in again.
const DRAFT = "draft";
const textFields = (form) => [...form.querySelectorAll("textarea, input[type=text], input[type=search], select")].filter((field) => field.name);

document.addEventListener("submit", (event) => {
  if (event.target.closest("[data-keeps-draft]") || event.target.method !== "post") return;
  const values = textFields(event.target).map((field) => [field.name, field.value]);
  if (values.some(([, value]) => value.trim())) {
    sessionStorage.setItem(DRAFT, JSON.stringify({ page: location.pathname, person: document.body.dataset.person, values, lost: false }));
  }
});

function restoreSubmittedText() {
  const draft = JSON.parse(sessionStorage.getItem(DRAFT) || "null");
  if (!draft) return;
  if (document.querySelector("[data-keeps-draft]")) {
    sessionStorage.setItem(DRAFT, JSON.stringify({ ...draft, lost: true }));
    return;
  }
  if (draft.lost && draft.page !== location.pathname) return; // the user has not yet returned to the form's page
  sessionStorage.removeItem(DRAFT);
  if (!draft.lost || draft.person !== document.body.dataset.person) return; // a different user has signed in
  const names = draft.values.map(([name]) => name).join();
  const form = [...document.forms].find((candidate) => textFields(candidate).map((field) => field.name).join() === names);
  if (!form) return;
  textFields(form).forEach((field, index) => {
    field.value = draft.values[index][1];
    field.dispatchEvent(new Event("refill"));
  });
  showAlert(form, "Your text has been restored. It was not sent.");
}
restoreSubmittedText();

// Show an alert before the element whose request failed. The next successful request of that element removes it.
function showAlert(element, message) {
  element.parentElement.querySelector(":scope > .told")?.remove();
  const note = document.createElement("p");
  note.className = "note warn told";
  note.setAttribute("role", "alert");
  note.textContent = message;
  element.before(note);
}
const FAILED = {
  403: "You don’t have access to this.",
  413: "The request is too large.",
  429: "Too many of your requests are already waiting. Try again in a moment.",
  503: "The database is not responding. Try again in a moment.",
};
document.addEventListener("htmx:responseError", ({ detail }) => {
  const status = detail.xhr.status;
  showAlert(detail.elt, `${FAILED[status] || `The server returned an error (${status}).`} The page was not updated.`);
});
for (const name of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, ({ detail }) => showAlert(detail.elt, "The server did not respond. The page was not updated. Try again."));
}
document.addEventListener("htmx:afterOnLoad", ({ detail }) => {
  if (detail.successful) detail.elt.parentElement?.querySelector(":scope > .told")?.remove();
});

// Add one entry to the browser history per search, not one per pause while typing.
let searching = false;
document.addEventListener("htmx:beforeHistoryUpdate", ({ detail }) => {
  const isTyping = detail.requestConfig.triggeringEvent?.type === "input";
  if (isTyping && searching) detail.history.type = "replace";
  searching = isTyping;
});
document.addEventListener("focusout", () => { searching = false; });
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
