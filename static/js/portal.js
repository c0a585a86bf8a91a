// What HTML can't do alone: single keys, copying, choosing all, remembering whether keys are on.
const root = document.documentElement;
root.dataset.keys = localStorage.getItem("keys") || "on";

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.matches("input, textarea")) event.target.blur();
  const typing = event.target.closest("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || root.dataset.keys === "off") return;
  const target = event.key === "/" ? document.getElementById("q") : document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
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
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
