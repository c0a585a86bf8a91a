// Autocomplete for fields with data-pick (entity, column, person or tag). With data-many, a field holds several values,
// separated by lines or commas and shown as chips. The original field stays in the form and works without JavaScript.
import { texts } from "./texts.js";

const SEPARATORS = { line: "\n", comma: ", " };
const WAIT_MS = 150;
let pickers = 0;

function nameOf(value) {
  const parts = value.match(/^urn:li:\w+:\(?(?:[^,]+,)?([^,)]+)/);
  return parts ? parts[1] : value;
}

function makePicker(field) {
  const separator = SEPARATORS[field.dataset.many]; // undefined for a field with a single value
  const input = separator ? document.createElement("input") : field;
  const list = document.createElement("ul");
  const box = document.createElement("div");
  const chips = document.createElement("ul");
  const labels = new Map();
  let timer = 0, requestCount = 0;
  pickers += 1;
  box.className = "picker";
  list.className = "options";
  list.id = `options-${pickers}`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", texts.suggestions);
  field.before(box);
  if (separator) {
    chips.className = "chips";
    input.type = "text";
    input.id = `${field.id}-pick`;
    input.placeholder = field.dataset.pick === "entity" ? texts.typeName : "";
    field.labels[0]?.setAttribute("for", input.id);
    field.hidden = true;
    box.append(chips, input, field, list);
    showChips();
  } else {
    box.append(field, list);
  }
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-expanded", "false");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("autocomplete", "off");

  function values() {
    return field.value.split(separator.trim() || "\n").map((value) => value.trim()).filter(Boolean);
  }
  function setValues(all) {
    field.value = all.join(separator);
    showChips();
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }
  function showChips() {
    chips.replaceChildren(...values().map((value) => {
      const chip = document.createElement("li");
      const remove = document.createElement("button");
      const label = labels.get(value) || nameOf(value);
      chip.className = "chip";
      chip.title = value;
      remove.type = "button";
      remove.textContent = "×";
      remove.setAttribute("aria-label", texts.remove.replace("{name}", label));
      remove.addEventListener("click", () => { setValues(values().filter((other) => other !== value)); input.focus(); });
      chip.append(label, " ", remove);
      return chip;
    }));
  }
  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function choose(option) {
    labels.set(option.dataset.value, option.dataset.label);
    if (separator) {
      setValues([...new Set([...values(), option.dataset.value])]);
      input.value = "";
    } else {
      input.value = option.dataset.value;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }
    close();
  }
  function addTypedValue() {
    if (!separator || !input.value.trim()) return;
    const typed = input.value.trim();
    input.value = "";
    setValues([...new Set([...values(), typed])]);
  }
  async function showSuggestions() {
    const number = requestCount += 1;
    const about = document.getElementById(field.dataset.about)?.value.split("\n")[0] || "";
    if (field.dataset.pick === "column" && !about) return close();
    const response = await fetch(`/pick/${field.dataset.pick}/?${new URLSearchParams({ q: input.value.trim(), about })}`).catch(() => null);
    if (number !== requestCount || !response?.ok || document.activeElement !== input) return; // outdated or failed
    list.innerHTML = await response.text(); // escaped by the server
    for (const option of list.querySelectorAll("[role=option]")) option.id = `${list.id}-${option.id}`;
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }
  function move(step) {
    const options = [...list.querySelectorAll("[role=option]")];
    const at = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    const next = options.at((at + step + options.length) % options.length) || options[0];
    for (const option of options) option.setAttribute("aria-selected", option === next);
    if (!next) return;
    input.setAttribute("aria-activedescendant", next.id);
    next.scrollIntoView({ block: "nearest" });
  }

  input.addEventListener("input", (event) => {
    if (separator) event.stopPropagation(); // an incomplete name is not a change of the form
    clearTimeout(timer);
    timer = setTimeout(showSuggestions, WAIT_MS);
  });
  input.addEventListener("focus", () => { if (field.dataset.pick === "column") showSuggestions(); });
  input.addEventListener("keydown", (event) => {
    const chosen = list.querySelector('[aria-selected="true"]');
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) showSuggestions(); else move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && !list.hidden && chosen) {
      event.preventDefault();
      choose(chosen);
    } else if (event.key === "Enter" && separator && input.value.trim()) {
      event.preventDefault();
      addTypedValue();
      close();
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      close();
    } else if (event.key === "Backspace" && separator && !input.value && values().length) {
      setValues(values().slice(0, -1));
    }
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault(); // keep the focus in the field
    const option = event.target.closest("[role=option]");
    if (option) choose(option);
  });
  // Adding a chip moves the elements below. Wait until the click that took the focus away has reached its target.
  input.addEventListener("blur", () => { clearTimeout(timer); requestCount += 1; setTimeout(addTypedValue, 200); close(); });
  field.form?.addEventListener("submit", addTypedValue, true);
  if (separator) field.addEventListener("refill", showChips);
}

for (const field of document.querySelectorAll("[data-pick]")) makePicker(field);

// Show a field with data-for only while that kind of change is selected.
function showFieldsForKind() {
  for (const field of document.querySelectorAll("[data-for]")) {
    const kind = field.closest("fieldset").querySelector("select");
    field.closest(".field").hidden = kind.value !== field.dataset.for;
  }
}
document.addEventListener("change", showFieldsForKind);
showFieldsForKind();
