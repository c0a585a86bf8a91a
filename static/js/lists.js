// Lists: the keys j, k, x and ? on their rows, selecting rows, and compact rows.
import { isFree } from "./keys.js";
import { kept, keptForTab } from "./storage.js";

const sheet = document.getElementById("keys-sheet");

// Visible rows of all lists on the page, in document order.
function rows() {
  return [...document.querySelectorAll("[data-rows] > li, [data-rows] > tbody > tr")].filter((row) => row.checkVisibility());
}
const linkOf = (row) => (row.hasAttribute("tabindex") ? row : row.querySelector("a[href], .row-link"));

document.addEventListener("keydown", (event) => {
  if (!isFree(event)) return;
  if (event.key === "?") {
    event.preventDefault();
    return sheet?.showModal();
  }
  if (!["j", "k", "x"].includes(event.key) || document.querySelector(`[data-key="${event.key}"]`)) return;
  const all = rows();
  const at = all.findIndex((row) => row.contains(document.activeElement));
  if (event.key === "x") {
    all[at]?.querySelector("input[type=checkbox]")?.click();
  } else if (all.length) {
    const next = at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + (event.key === "j" ? 1 : -1)));
    event.preventDefault();
    linkOf(all[next])?.focus();
    all[next].scrollIntoView({ block: "nearest" });
  }
});

// After a decision in a row, the row that has its place now gets the focus, so that the keys go on from there.
const PLACE = "row decided";
document.addEventListener("submit", ({ target }) => {
  const row = target.closest("[data-rows] > [tabindex]");
  if (row) keptForTab.set(PLACE, rows().indexOf(row));
});
const place = keptForTab.get(PLACE);
if (place !== null) {
  keptForTab.remove(PLACE);
  const all = rows().filter((row) => row.hasAttribute("tabindex"));
  all[Math.min(Number(place), all.length - 1)]?.focus();
}

// Selecting rows must not trigger a search, although the search form listens for changes inside the results.
document.addEventListener("change", (event) => {
  if (event.target.matches(".pick, .choose-all, .all-matching")) event.stopPropagation();
  if (event.target.matches(".choose-all")) {
    for (const box of event.target.form.elements) if (box.name === "ids" || box.matches(".pick")) box.checked = event.target.checked;
  }
}, true);

// Selecting the first of a group of near-duplicates selects the whole group.
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-heads]")) return;
  for (const box of document.querySelectorAll(`[data-group="${CSS.escape(event.target.dataset.group)}"]`)) box.checked = event.target.checked;
});

// Compact lists. The choice is stored in this browser.
const root = document.documentElement;
root.dataset.compact = kept.get("compact") || "off";
function labelCompact() {
  for (const toggle of document.querySelectorAll(".compact-toggle")) toggle.setAttribute("aria-pressed", root.dataset.compact === "on");
}
document.addEventListener("click", (event) => {
  if (!event.target.closest(".compact-toggle")) return;
  root.dataset.compact = root.dataset.compact === "on" ? "off" : "on";
  kept.set("compact", root.dataset.compact);
  labelCompact();
});
labelCompact();

// A choice replaces the filters of My Knowledge. They stay as they were: unfolded, and open in a small window.
// The element is looked up in the document, because the swap of a step back in the history has no target.
let filters = null;
document.addEventListener("htmx:beforeSwap", () => {
  const facets = document.getElementById("facets");
  filters = facets && { isOpen: facets.matches(":popover-open"), isUnfolded: facets.querySelector("details")?.open };
});
document.addEventListener("htmx:afterSwap", () => {
  const facets = document.getElementById("facets");
  const details = facets?.querySelector("details");
  if (details && filters?.isUnfolded) details.open = true;
  if (facets && filters?.isOpen && !facets.matches(":popover-open")) facets.showPopover();
});
