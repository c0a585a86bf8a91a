// Single-key shortcuts and the panels that they open. A held key acts once. While a panel is open (<details data-panel>, for
// example the reasons of a rejection), or anything of a panel has the focus, no key but Escape acts: whoever types a reason
// must not decide with its letters.
import { kept } from "./storage.js";
import { texts } from "./texts.js";

const root = document.documentElement;
root.dataset.keys = kept.get("keys") || "on";
const TYPING = "input:not([type=checkbox], [type=radio], [type=range], [type=button], [type=submit]), textarea, select, [contenteditable]";
const openPanel = () => document.querySelector("[data-panel][open]");
const summaryOf = (panel) => panel.querySelector(":scope > summary");

// Whether a key may act: it is none of a combination, and nobody is typing.
export function isFree(event) {
  const at = event.target instanceof Element ? event.target : document.body;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || root.dataset.keys === "off") return false;
  const isElsewhere = openPanel() || document.querySelector("dialog[open]");
  return !isElsewhere && !at.closest("[data-panel], dialog") && !at.closest(TYPING);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return leave(event);
  if (event.repeat || event.defaultPrevented || !isFree(event)) return;
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

// Of the keys of a list's rows, those of the row with the focus act, or else those of the first row.
const ROWS = "[data-rows] > *";
function targetOf(key) {
  const row = document.activeElement.closest(ROWS) || document.querySelector(ROWS);
  return [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].find((element) => {
    const panel = element.closest("[data-panel]"); // a closed one
    const of = element.closest(ROWS);
    return (!of || of === row) && (!panel || element === summaryOf(panel)) && element.checkVisibility();
  });
}

function leave(event) {
  const at = event.target instanceof Element ? event.target : document.body;
  const row = at.closest(`${ROWS}[tabindex]`);
  if (at.matches("input, textarea")) row ? row.focus({ preventScroll: true }) : at.blur();
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

document.addEventListener("pointerdown", ({ target }) => {
  const panel = openPanel();
  if (panel && !panel.contains(target) && !target.closest("form.decide")) panel.open = false;
});

// The button that switches the shortcuts off.
document.addEventListener("click", (event) => {
  if (!event.target.closest(".keys-toggle")) return;
  root.dataset.keys = root.dataset.keys === "off" ? "on" : "off";
  kept.set("keys", root.dataset.keys);
  labelKeys();
});

function labelKeys() {
  for (const toggle of document.querySelectorAll(".keys-toggle")) {
    const on = root.dataset.keys !== "off";
    toggle.textContent = on ? texts.shortcutsOn : texts.shortcutsOff;
    toggle.setAttribute("aria-pressed", on);
  }
}
labelKeys();
document.addEventListener("htmx:afterSettle", labelKeys);
