// Decisions: forms that are sent once, buttons that a stray Enter or a second click doesn't press, what is said aloud, and
// the offer to undo.
import { keptForTab } from "./storage.js";

// The note of a decision has a field in each panel that sends it along.
document.addEventListener("input", ({ target }) => {
  if (target.name !== "note" || !target.closest("form.decide")) return;
  for (const field of target.form.querySelectorAll("input[name=note]")) if (field !== target) field.value = target.value;
});

// What was decided is said aloud. A message that comes with its page is not, so it is repeated in a live region.
function sayLast() {
  const message = document.querySelector(".last strong");
  const undo = document.querySelector(".last button");
  const text = message ? `${message.textContent} ${undo ? undo.textContent : ""}`.replace(/\s+/g, " ").trim() : "";
  const said = document.getElementById("said"); // the admin has none
  if (said) setTimeout(() => { said.textContent = text; }, 150);
}
sayLast();
document.addEventListener("htmx:afterSettle", sayLast);

// Buttons may stand outside of their form, as those of selected rows do.
function buttonOf(event, forms) {
  const button = event.target.closest("button");
  return button?.type === "submit" && button.form?.matches(forms) ? button : null;
}

// Enter in a field presses the first button of its form. A form whose buttons decide takes Enter on its buttons only.
document.addEventListener("click", (event) => {
  const button = buttonOf(event, "[data-decides]");
  const field = document.activeElement;
  if (!button || event.detail) return; // pressed with a pointer
  if (field.form === button.form && !field.matches("button")) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}, true);

// A form is sent once, whatever is pressed or clicked until the answer arrives. The second click of a double click may
// come when the next insight is already on view: a decision by pointer is ignored shortly after another one.
const SENT_MS = 4000;
const DOUBLE_CLICK_MS = 500;
document.addEventListener("click", (event) => {
  const button = buttonOf(event, ".decide, [data-decides]");
  if (!button || !event.detail) return;
  const last = Number(keptForTab.get("decided") || 0);
  if (Math.abs(Date.now() - last) < DOUBLE_CLICK_MS) {
    event.preventDefault();
    event.stopImmediatePropagation();
  } else {
    keptForTab.set("decided", Date.now());
  }
}, true);
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return event.stopImmediatePropagation();
  }
  form.dataset.sent = "yes";
  setTimeout(() => { delete form.dataset.sent; }, SENT_MS); // for answers that don't replace the page, such as files
}, true);
for (const name of ["pageshow", "htmx:afterRequest"]) {
  window.addEventListener(name, () => { for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent; });
}

// Offer to undo for some seconds. The time stands still while the message is pointed at, focused or in a hidden tab.
function countDown(bar) {
  let left = Number(bar.dataset.seconds) * 10;
  const timer = setInterval(() => {
    if (!bar.isConnected) return clearInterval(timer);
    if (bar.matches(":hover, :focus-within") || document.hidden) return;
    left -= 1;
    if (left > 0) return;
    clearInterval(timer);
    bar.remove();
  }, 100);
}
const countDowns = (root) => root.querySelectorAll(".undo[data-seconds]").forEach(countDown);
countDowns(document);

// htmx replaces the review of one insight by that of another. Back loads the page again, because a decision may have
// been made since.
if (window.htmx) htmx.config.refreshOnHistoryMiss = true;
function showCurrentEntry() {
  const current = document.querySelector(".pane [aria-current]");
  if (current) current.closest("ol").scrollTop = current.parentElement.offsetTop - current.closest("ol").clientHeight / 3;
}
showCurrentEntry();
document.addEventListener("htmx:afterSettle", () => {
  const desk = document.getElementById("review");
  if (!desk || desk.dataset.ready) return;
  desk.dataset.ready = "yes";
  showCurrentEntry();
  countDowns(desk);
});
