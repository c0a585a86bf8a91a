// Page behavior that HTML lacks: single-key shortcuts, copy buttons, select all, and the browser history of searches.
const root = document.documentElement;
root.dataset.keys = localStorage.getItem("keys") || "on";
const texts = document.getElementById("texts").dataset; // in the language of the page; see _script_texts.html

// Keys. A held key acts once. While a panel is open (<details data-panel>, for example the reasons of a rejection), or
// anything of a panel has the focus, no key but Escape acts: whoever types a reason must not decide with its letters.
const TYPING = "input:not([type=checkbox], [type=radio], [type=range], [type=button], [type=submit]), textarea, select, [contenteditable]";
const openPanel = () => document.querySelector("[data-panel][open]");
const summaryOf = (panel) => panel.querySelector(":scope > summary");

document.addEventListener("keydown", (event) => {
  const at = event.target instanceof Element ? event.target : document.body;
  if (event.key === "Escape") return leave(at, event);
  if (event.repeat || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (openPanel() || at.closest("[data-panel]") || at.closest(TYPING) || at.closest("dialog") || document.querySelector("dialog[open]") || root.dataset.keys === "off") return;
  const target = event.key === "/" ? document.getElementById("q") : targetOf(event.key);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) {
    target.focus();
    target.select();
    return;
  }
  target.click();
});

function targetOf(key) {
  return [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].find((element) => {
    const panel = element.closest("[data-panel]"); // a closed one
    return (!panel || element === summaryOf(panel)) && element.checkVisibility();
  });
}

function leave(at, event) {
  if (at.matches("input, textarea")) at.blur();
  const panel = openPanel() || at.closest("[data-panel]");
  if (!panel || event.defaultPrevented) return;
  panel.open = false;
  focusHeading();
}

// Not the summary of a closed panel, where no key would act.
function focusHeading() {
  const heading = document.querySelector("main h1");
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

// A panel is opened here and not by the browser, which moves the focus after the next key: a space would close it again.
// An opened panel gets the focus in its first field. A button never gets it: a space that is typed would press it.
document.addEventListener("click", (event) => {
  const summary = event.target.closest("[data-panel] > summary");
  if (!summary) return;
  event.preventDefault();
  const panel = summary.parentElement;
  panel.open = !panel.open;
  if (panel.open) enter(panel);
  else if (event.detail) focusHeading(); // closed with a pointer
});

// One panel at a time, also in browsers that don't know <details name>. A click elsewhere closes it.
document.addEventListener("toggle", ({ target }) => {
  if (!target.open || !target.matches("[data-panel]")) return;
  for (const other of document.querySelectorAll("[data-panel][open]")) if (other !== target) other.open = false;
}, true);

function enter(panel) {
  const content = panel.querySelector(".panel");
  if (content.contains(document.activeElement)) return;
  const field = [...content.querySelectorAll("input, select, textarea")].find((element) => element.checkVisibility());
  if (!field) content.tabIndex = -1;
  (field || content).focus({ preventScroll: true });
}

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
document.addEventListener("pointerdown", ({ target }) => {
  const panel = openPanel();
  if (panel && !panel.contains(target) && !target.closest("form.decide")) panel.open = false;
});

// Enter in a field presses the first button of its form. A form whose buttons decide takes Enter on its buttons only.
document.addEventListener("click", (event) => {
  const button = event.target.closest("form[data-decides] button");
  const field = document.activeElement;
  if (!button || event.detail || button.type !== "submit") return; // pressed with a pointer
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
  const button = event.target.closest("form.decide button");
  if (!button || !event.detail || button.type !== "submit") return;
  const last = Number(sessionStorage.getItem("decided") || 0);
  if (Math.abs(Date.now() - last) < DOUBLE_CLICK_MS) {
    event.preventDefault();
    event.stopImmediatePropagation();
  } else {
    sessionStorage.setItem("decided", Date.now());
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
  labelKeys();
  showCurrentEntry();
  countDowns(desk);
});

// Selecting rows must not trigger a search, although the search form listens for changes inside the results.
document.addEventListener("change", (event) => {
  if (event.target.matches(".pick, .choose-all, .all-matching")) event.stopPropagation();
  if (event.target.matches(".choose-all")) {
    for (const box of event.target.form.elements) if (box.name === "ids") box.checked = event.target.checked;
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
  button.textContent = texts.copied;
  setTimeout(() => { button.textContent = label; }, 1500);
});

function labelKeys() {
  for (const toggle of document.querySelectorAll(".keys-toggle")) {
    const on = root.dataset.keys !== "off";
    toggle.textContent = on ? texts.shortcutsOn : texts.shortcutsOff;
    toggle.setAttribute("aria-pressed", on);
  }
}
labelKeys();

// Add one entry to the browser history per search, not one per pause while typing.
let searching = false;
document.addEventListener("htmx:beforeHistoryUpdate", ({ detail }) => {
  const isTyping = detail.requestConfig.triggeringEvent?.type === "input";
  if (isTyping && searching) detail.history.type = "replace";
  searching = isTyping;
});
document.addEventListener("focusout", () => { searching = false; });
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
