// Page behavior that HTML lacks: single-key shortcuts, copy buttons, select all, and the browser history of searches.
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
  button.textContent = button.dataset.copied || "Copied";
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

// Add one entry to the browser history per search, not one per pause while typing.
let searching = false;
document.addEventListener("htmx:beforeHistoryUpdate", ({ detail }) => {
  const isTyping = detail.requestConfig.triggeringEvent?.type === "input";
  if (isTyping && searching) detail.history.type = "replace";
  searching = isTyping;
});
document.addEventListener("focusout", () => { searching = false; });
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
