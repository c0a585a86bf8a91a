// What any page does: copy buttons, the browser history of searches, the time zone, and saved views.
import { texts } from "./texts.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const label = button.textContent;
  button.textContent = texts.copied;
  setTimeout(() => { button.textContent = label; }, 1500);
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

// Tell the server the browser's time zone. It is used unless the user has set one.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes(`zone=${encodeURIComponent(zone)}`)) {
  document.cookie = `zone=${encodeURIComponent(zone)}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
}

// Save a view with the current address, because htmx changes the filters without reloading the page.
document.addEventListener("submit", (event) => {
  const here = event.target.querySelector(".here");
  if (here) here.value = location.pathname + location.search;
}, true);

// What a small window shows on demand closes when the focus leaves it, and when the window grows.
const closeSheets = (from) => {
  for (const sheet of document.querySelectorAll("#menu:popover-open, #facets:popover-open")) {
    if (!from || !sheet.contains(from)) sheet.hidePopover();
  }
};
document.addEventListener("focusin", ({ target }) => closeSheets(target));
matchMedia("(max-width: 52rem)").addEventListener("change", () => closeSheets());
matchMedia("(max-width: 60rem)").addEventListener("change", () => closeSheets());
