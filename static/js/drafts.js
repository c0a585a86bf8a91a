// Drafts: text typed into a form is kept in this browser until the form was carried out, and offered when the form is
// opened again. A draft belongs to one person. It is deleted when the person signs out, when another person signs in,
// and after AGE_MS. Texts of this file's notes are in the template #draft-texts.
import { kept as storage } from "./storage.js";

const PREFIX = "draft ";
const AGE_MS = 7 * 24 * 3600 * 1000;
const MAX_CHARS = 100_000; // of one draft
const MAX_DRAFTS = 30;
const WAIT_MS = 400;
const SECRET = /pass(word|wd|phrase)?|secret|token|api_?key|credential|otp|recovery/i;
const ENDED = "drafts ended"; // when somebody signed out; pages that were open then keep nothing any more
const opened = Date.now();
const template = document.getElementById("draft-texts");
const person = template.dataset.person;
const texts = template.content;

const newName = () => [...crypto.getRandomValues(new Uint8Array(10))].map((byte) => byte.toString(36).padStart(2, "0")).join("");

// -- storage ------------------------------------------------------------------------------------------------

function stored() {
  const drafts = [];
  for (const key of storage.names().filter((name) => name.startsWith(PREFIX))) {
    try {
      const draft = JSON.parse(storage.get(key));
      if (!draft.name || !draft.values || Date.now() - draft.at > AGE_MS) throw new Error("expired");
      drafts.push(draft);
    } catch {
      storage.remove(key);
    }
  }
  return drafts.sort((a, b) => b.at - a.at);
}

const remove = (name) => storage.remove(PREFIX + name);

// Returns whether the draft could be stored. The oldest drafts make room for it.
function store(draft) {
  const text = JSON.stringify(draft);
  if (text.length > MAX_CHARS) return false;
  const others = stored().filter((other) => other.name !== draft.name);
  for (const other of others.splice(MAX_DRAFTS - 1)) remove(other.name);
  for (;;) {
    if (storage.set(PREFIX + draft.name, text)) return true;
    const oldest = others.pop();
    if (!oldest) return false;
    remove(oldest.name);
  }
}

// The server has set a cookie for each draft whose form was carried out.
function removeSent() {
  for (const [, name] of document.cookie.matchAll(/(?:^|; )sent-([0-9a-z]+)=/g)) {
    remove(name);
    document.cookie = `sent-${name}=; path=/; max-age=0`;
  }
}

// -- forms --------------------------------------------------------------------------------------------------

const isSecret = (field) => SECRET.test(field.name) || /one-time-code|password/.test(field.autocomplete);

// Text fields and choices that a draft keeps, each with a key: its name and its place among the fields of this name.
function fieldsOf(form) {
  const counts = {};
  return [...form.elements].filter((field) => field.name && !isSecret(field)
    && field.matches("textarea, select, input[type=text], input[type=search], input:not([type])")).map((field) => {
    counts[field.name] = (counts[field.name] ?? -1) + 1;
    return [`${field.name} ${counts[field.name]}`, field];
  });
}

const isText = (field) => !field.matches("select");
const initial = (field) => field.matches("select")
  ? ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value : field.defaultValue;

function isKept(form) {
  if (!person || form.method !== "post" || "noDraft" in form.dataset || form.closest("[data-keeps-draft]")) return false;
  return !form.querySelector("input[type=password]") && fieldsOf(form).some(([, field]) => isText(field));
}

// Forms with data-draft have the same draft on all pages, others one on each address.
const placeOf = (form) => form.dataset.draft || `${location.pathname}${location.search} ${form.getAttribute("action") || ""}`;

function keep(form) {
  const name = newName();
  const mark = Object.assign(document.createElement("input"), { type: "hidden", name: "draft", value: name });
  const kept = new Set(); // fields of an earlier draft that the form shows; with an error, it shows them from the start
  let timer = 0;
  form.append(mark);

  function save() {
    clearTimeout(timer);
    timer = 0;
    if (Number(storage.get(ENDED)) > opened) return;
    const changed = fieldsOf(form).filter(([key, field]) => kept.has(key) || field.value !== initial(field));
    if (!changed.some(([, field]) => isText(field) && field.value.trim())) return remove(mark.value);
    const values = Object.fromEntries(changed.map(([key, field]) => [key, field.value]));
    const isStored = store({ name: mark.value, person, place: placeOf(form), at: Date.now(), values });
    if (!isStored) note(form, "too-long");
  }
  const later = () => { clearTimeout(timer); timer = setTimeout(save, WAIT_MS); };
  const now = () => { if (timer) save(); };
  form.addEventListener("input", later);
  form.addEventListener("change", later);
  form.addEventListener("submit", save);
  window.addEventListener("pagehide", now);
  document.addEventListener("visibilitychange", now);
  offer(form, (draft) => {
    remove(mark.value);
    mark.value = draft.name; // the form goes on with this draft
    for (const key of Object.keys(draft.values)) kept.add(key);
  });
}

// -- offers -------------------------------------------------------------------------------------------------

function note(form, kind) {
  if (form.parentElement.querySelector(`:scope > .draft-${kind}`)) return null;
  const element = texts.querySelector(`.draft-${kind}`).cloneNode(true);
  (form.querySelector(".told") || form).before(element);
  return element;
}

function offer(form, adopt) {
  const fields = new Map(fieldsOf(form));
  const place = placeOf(form);
  for (const draft of stored().filter((candidate) => candidate.person === person && candidate.place === place)) {
    const differing = Object.entries(draft.values).filter(([key, value]) => fields.has(key) && fields.get(key).value !== value);
    if (!differing.length) { // the form shows the text already, for example with an error message
      adopt(draft);
      continue;
    }
    const element = note(form, "offer");
    if (!element) return; // the newest draft is offered first, and the next one when the form is opened again
    const at = new Date(draft.at);
    const isToday = at.toDateString() === new Date().toDateString();
    const options = isToday ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" };
    const time = new Intl.DateTimeFormat(document.documentElement.lang || undefined, options).format(at);
    const title = element.querySelector("[data-message]");
    title.textContent = title.dataset.message.replace("{time}", time);
    const [, text] = differing.find(([key]) => isText(fields.get(key))) || differing[0];
    element.querySelector(".draft-start").textContent = text.trim().slice(0, 120);
    element.querySelector("[data-restore]").addEventListener("click", () => {
      adopt(draft);
      restore(form, fields, draft);
      element.remove();
    });
    element.querySelector("[data-discard]").addEventListener("click", () => {
      remove(draft.name);
      element.remove();
      offer(form, adopt);
    });
  }
}

function restore(form, fields, draft) {
  for (const [key, value] of Object.entries(draft.values)) {
    const field = fields.get(key);
    if (!field) continue;
    field.value = value;
    field.dispatchEvent(new Event("refill"));
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  for (const details of form.querySelectorAll("details")) {
    if ([...details.querySelectorAll("textarea, input")].some((field) => field.value && field.value !== field.defaultValue)) details.open = true;
  }
  ([...fields.values()].find((field) => isText(field) && !field.hidden))?.focus();
}

// -- start --------------------------------------------------------------------------------------------------

removeSent();
for (const draft of stored()) {
  if (person && draft.person !== person) remove(draft.name);
}
document.addEventListener("submit", (event) => {
  if (!("endsDrafts" in event.target.dataset)) return;
  storage.set(ENDED, Date.now());
  for (const draft of stored()) remove(draft.name);
});
for (const form of document.forms) if (isKept(form)) keep(form);
// Forms that htmx brings later.
document.addEventListener("htmx:load", ({ detail }) => {
  if (detail.elt === document.body) return;
  for (const form of detail.elt.querySelectorAll("form")) if (!form.elements.draft && isKept(form)) keep(form);
});
