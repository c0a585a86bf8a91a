// Command palette (Ctrl-K), shortcut list (?), list navigation (j, k, Enter, x), and compact lists.
const palette = document.getElementById("palette");
const sheet = document.getElementById("keys-sheet");
const paletteField = document.getElementById("palette-q");

// Keys of what the person chose, by the letters typed, and the latest keys. Only keys are stored: the server knows the
// texts, and leaves out what may no longer be read.
const MAX_LETTERS = 200;
const MAX_RECENT = 8;
const MAX_CHOSEN = 3;
const choicesName = `palette ${document.body.dataset.person}`;
function readChoices() {
  try {
    const stored = JSON.parse(localStorage.getItem(choicesName)) || {};
    return { recent: Array.isArray(stored.recent) ? stored.recent : [], letters: Array.isArray(stored.letters) ? stored.letters : [] };
  } catch {
    return { recent: [], letters: [] }; // changed by hand, or storage is off
  }
}
function rememberChoice(key) {
  if (!key || key.startsWith("text:")) return;
  const { recent, letters } = readChoices();
  const typed = typedLetters();
  const others = letters.filter(([text, chosen]) => text !== typed || chosen !== key);
  const stored = {
    recent: [key, ...recent.filter((entry) => entry !== key)].slice(0, MAX_RECENT),
    letters: (typed ? [[typed, key], ...others] : others).slice(0, MAX_LETTERS),
  };
  try {
    localStorage.setItem(choicesName, JSON.stringify(stored));
  } catch { /* storage is full or off: the palette works without it */ }
}
const typedLetters = () => paletteField.value.trim().toLowerCase();

function openPalette() {
  if (!palette || palette.open) return;
  palette.showModal();
  paletteField.select();
  htmx.trigger(paletteField, "open");
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-opens=palette]")) openPalette();
  if (event.target === palette || event.target === sheet) event.target.close(); // a click on the backdrop
});

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
  }
});

const paletteOptions = () => [...palette.querySelectorAll("[role=option]")];
let shownText = null; // the text that the listed results belong to
let enterWaits = false; // Enter was pressed before the results of the typed text arrived

function selectOption(option) {
  for (const other of paletteOptions()) other.setAttribute("aria-selected", other === option);
  if (option) paletteField.setAttribute("aria-activedescendant", option.id);
  else paletteField.removeAttribute("aria-activedescendant");
  option?.scrollIntoView({ block: "nearest" });
}

function choose(option, inNewTab) {
  rememberChoice(option.dataset.key);
  const target = option.dataset.click && document.querySelector(option.dataset.click);
  if (inNewTab && !target) return window.open(option.href, "_blank", "noopener");
  palette.close();
  if (target?.matches("dialog")) target.showModal();
  else if (target) target.click();
  else location.assign(option.href);
}

palette?.addEventListener("keydown", (event) => {
  const options = paletteOptions();
  const at = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
  if (event.isComposing || !options.length && event.key !== "Enter") return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const step = event.key === "ArrowDown" ? 1 : -1;
    selectOption(options[(at + step + options.length) % options.length]);
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (event.repeat) return;
    if (shownText !== typedLetters()) enterWaits = true;
    else if (options.length) choose(options[Math.max(at, 0)], event.ctrlKey || event.metaKey);
  }
});

palette?.addEventListener("click", (event) => {
  const option = event.target.closest("[role=option]");
  if (!option) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey) return rememberChoice(option.dataset.key); // the browser opens it
  event.preventDefault();
  choose(option, false);
});

palette?.addEventListener("htmx:configRequest", (event) => {
  const typed = typedLetters();
  const { recent, letters } = readChoices();
  // What was chosen for these letters, then what was chosen for more letters that begin with them.
  const same = letters.filter(([text]) => text === typed);
  const longer = letters.filter(([text]) => text !== typed && typed.length > 1 && text.startsWith(typed));
  const keys = typed ? [...new Set([...same, ...longer].map(([, key]) => key))].slice(0, MAX_CHOSEN) : recent;
  if (keys.length) event.detail.parameters[typed ? "chosen" : "recent"] = keys;
  event.detail.parameters.q = paletteField.value;
  palette.dataset.asked = typed;
});

palette?.addEventListener("htmx:afterSwap", () => {
  const options = paletteOptions();
  const status = document.getElementById("palette-status");
  shownText = palette.dataset.asked;
  paletteField.setAttribute("aria-expanded", options.length > 0);
  status.textContent = options.length ? `${status.dataset.some}: ${options.length}` : status.dataset.none;
  selectOption(options[0]);
  if (!enterWaits || shownText !== typedLetters()) return;
  enterWaits = false;
  if (options.length) choose(options[0], false);
});
paletteField?.addEventListener("input", () => { enterWaits = false; });
palette?.addEventListener("close", () => { enterWaits = false; });

// Visible rows of all lists on the page, in document order.
function rows() {
  return [...document.querySelectorAll("[data-rows] > li, [data-rows] > tbody > tr")].filter((row) => row.checkVisibility());
}
const linkOf = (row) => row.querySelector("a[href], .row-link");

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, dialog");
  const inPanel = event.target.closest("[data-panel]") || document.querySelector("[data-panel][open]");
  if (typing || inPanel || event.ctrlKey || event.metaKey || event.altKey || document.documentElement.dataset.keys === "off") return;
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

// Selecting the first of a group of near-duplicates selects the whole group.
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-heads]")) return;
  for (const box of document.querySelectorAll(`[data-group="${CSS.escape(event.target.dataset.group)}"]`)) box.checked = event.target.checked;
});

// Compact lists. The choice is stored in this browser.
const compact = document.documentElement.dataset;
compact.compact = localStorage.getItem("compact") || "off";
function labelCompact() {
  for (const toggle of document.querySelectorAll(".compact-toggle")) toggle.setAttribute("aria-pressed", compact.compact === "on");
}
document.addEventListener("click", (event) => {
  if (!event.target.closest(".compact-toggle")) return;
  compact.compact = compact.compact === "on" ? "off" : "on";
  localStorage.setItem("compact", compact.compact);
  labelCompact();
});
labelCompact();

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
