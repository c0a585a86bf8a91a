// Command palette (Ctrl-K).
import { kept } from "./storage.js";

const palette = document.getElementById("palette");
const paletteField = document.getElementById("palette-q");

// Keys of what the person chose, by the letters typed, and the latest keys. Only keys are stored: the server knows the
// texts, and leaves out what may no longer be read.
const MAX_LETTERS = 200;
const MAX_RECENT = 8;
const MAX_CHOSEN = 3;
const choicesName = `palette ${document.body.dataset.person}`;
function readChoices() {
  try {
    const stored = JSON.parse(kept.get(choicesName)) || {};
    return { recent: Array.isArray(stored.recent) ? stored.recent : [], letters: Array.isArray(stored.letters) ? stored.letters : [] };
  } catch {
    return { recent: [], letters: [] }; // changed by hand
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
  kept.set(choicesName, JSON.stringify(stored));
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
  if (event.target.matches("#palette, #keys-sheet")) event.target.close(); // a click on the backdrop
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
