// Pickers: a field with data-pick offers what matches while one types (entity, column, person, tag). With data-many it
// keeps several, one a line or between commas, as chips; the field itself stays the form's and works without script.
const SEPARATORS = { line: "\n", comma: ", " };
const WAIT_MS = 150;
let pickers = 0;

function nameOf(value) {
  const parts = value.match(/^urn:li:\w+:\(?(?:[^,]+,)?([^,)]+)/);
  return parts ? parts[1] : value;
}

function makePicker(field) {
  const many = SEPARATORS[field.dataset.many];
  const input = many ? document.createElement("input") : field;
  const list = document.createElement("ul");
  const box = document.createElement("div");
  const chips = document.createElement("ul");
  const labels = new Map();
  let timer = 0, asked = 0;
  pickers += 1;
  box.className = "picker";
  list.className = "options";
  list.id = `options-${pickers}`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  field.before(box);
  if (many) {
    chips.className = "chips";
    input.type = "text";
    input.id = `${field.id}-pick`;
    input.placeholder = field.dataset.pick === "entity" ? "Type a name" : "";
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
    return field.value.split(many.trim() || "\n").map((one) => one.trim()).filter(Boolean);
  }
  function set(all) {
    field.value = all.join(many);
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
      remove.setAttribute("aria-label", `Remove ${label}`);
      remove.addEventListener("click", () => { set(values().filter((one) => one !== value)); input.focus(); });
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
    if (many) {
      set([...new Set([...values(), option.dataset.value])]);
      input.value = "";
    } else {
      input.value = option.dataset.value;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }
    close();
  }
  function keepTyped() {
    if (!many || !input.value.trim()) return;
    const typed = input.value.trim();
    input.value = "";
    set([...new Set([...values(), typed])]);
  }
  async function offer() {
    const number = asked += 1;
    const about = document.getElementById(field.dataset.about)?.value.split("\n")[0] || "";
    if (field.dataset.pick === "column" && !about) return close();
    const answer = await fetch(`/pick/${field.dataset.pick}/?${new URLSearchParams({ q: input.value.trim(), about })}`).catch(() => null);
    if (number !== asked || !answer?.ok || document.activeElement !== input) return;
    list.innerHTML = await answer.text(); // our own fragment, escaped by the server
    for (const option of list.querySelectorAll("[role=option]")) option.id = `${list.id}-${option.id}`;
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }
  function move(step) {
    const options = [...list.querySelectorAll("[role=option]")];
    const at = options.findIndex((one) => one.getAttribute("aria-selected") === "true");
    const next = options.at((at + step + options.length) % options.length) || options[0];
    for (const option of options) option.setAttribute("aria-selected", option === next);
    if (!next) return;
    input.setAttribute("aria-activedescendant", next.id);
    next.scrollIntoView({ block: "nearest" });
  }

  input.addEventListener("input", (event) => {
    if (many) event.stopPropagation(); // half a name is no change of the form
    clearTimeout(timer);
    timer = setTimeout(offer, WAIT_MS);
  });
  input.addEventListener("focus", () => { if (field.dataset.pick === "column") offer(); });
  input.addEventListener("keydown", (event) => {
    const chosen = list.querySelector('[aria-selected="true"]');
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) offer(); else move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && !list.hidden && chosen) {
      event.preventDefault();
      choose(chosen);
    } else if (event.key === "Enter" && many && input.value.trim()) {
      event.preventDefault();
      keepTyped();
      close();
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      close();
    } else if (event.key === "Backspace" && many && !input.value && values().length) {
      set(values().slice(0, -1));
    }
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault(); // keeps the field's focus
    const option = event.target.closest("[role=option]");
    if (option) choose(option);
  });
  // A chip moves what is below; so it comes only after the click that took the focus away.
  input.addEventListener("blur", () => { clearTimeout(timer); asked += 1; setTimeout(keepTyped, 200); close(); });
  field.form?.addEventListener("submit", keepTyped, true);
  if (many) field.addEventListener("refill", showChips);
}

for (const field of document.querySelectorAll("[data-pick]")) makePicker(field);

// A field that only one kind of change needs.
function showWhereNeeded() {
  for (const field of document.querySelectorAll("[data-for]")) {
    const kind = field.closest("fieldset").querySelector("select");
    field.closest(".field").hidden = kind.value !== field.dataset.for;
  }
}
document.addEventListener("change", showWhereNeeded);
showWhereNeeded();
