// Failures of htmx requests, and a note if the page is from an earlier version. The texts are in #failure-texts.
const template = document.getElementById("failure-texts");
const texts = template.content;
const textOf = (kind) => texts.querySelector(`[data-kind="${kind}"]`)?.textContent;
const version = template.dataset.version;

// Show an alert before the element whose request failed. The next successful request of that element removes it.
function showAlert(element, message) {
  element.parentElement.querySelector(":scope > .told")?.remove();
  const note = document.createElement("p");
  note.className = "note warn told";
  note.setAttribute("role", "alert");
  note.textContent = message;
  element.before(note);
}

document.addEventListener("htmx:responseError", ({ detail }) => {
  const status = detail.xhr.status;
  showAlert(detail.elt, textOf(status) || textOf("other").replace("{status}", status));
});
for (const name of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, ({ detail }) => showAlert(detail.elt, textOf("none")));
}

document.addEventListener("htmx:afterOnLoad", ({ detail }) => {
  if (detail.successful) detail.elt.parentElement?.querySelector(":scope > .told")?.remove();
});

// A page that stays open during an upgrade gets fragments of the new version, which its scripts and styles don't fit.
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  const current = detail.xhr.getResponseHeader("X-Page-Version");
  if (!current || current === version || document.querySelector(".upgraded")) return;
  document.getElementById("content")?.prepend(texts.querySelector(".upgraded").cloneNode(true));
});
document.addEventListener("click", (event) => {
  if (event.target.closest(".upgraded button")) location.reload();
});
