// Command palette (Ctrl-K), shortcut list (?), list navigation (j, k, Enter, x), compact lists, and drafts of forms.
const palette = document.getElementById("palette");
const sheet = document.getElementById("keys-sheet");

function openPalette() {
  if (!palette || palette.open) return;
  palette.showModal();
  const field = document.getElementById("palette-q");
  field.select();
  htmx.trigger(field, "open");
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-opens=palette]")) openPalette();
  if (event.target === palette || event.target === sheet) event.target.close(); // a click on the backdrop
});

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
  } else if (palette?.open) {
    walkPalette(event);
  }
});

function walkPalette(event) {
  const links = [...palette.querySelectorAll("#palette-found a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    (next < 0 ? document.getElementById("palette-q") : links[Math.min(next, links.length - 1)])?.focus();
  } else if (event.key === "Enter" && at < 0 && links.length) {
    event.preventDefault();
    links[0].click();
  }
}

// Visible rows of all lists on the page, in document order.
function rows() {
  return [...document.querySelectorAll("[data-rows] > li, [data-rows] > tbody > tr")].filter((row) => row.checkVisibility());
}
const linkOf = (row) => row.querySelector("a[href], .row-link");

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.documentElement.dataset.keys === "off") return;
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

// Drafts: text typed into a form with data-draft is stored in this browser until the form is submitted.
const draftKey = (form) => `draft ${document.body.dataset.person} ${location.pathname} ${form.dataset.draft}`;
const draftFields = (form) => [...form.querySelectorAll("textarea, input[type=text], select")].filter((field) => field.name && field.name !== "text");

for (const form of document.querySelectorAll("form[data-draft]")) {
  const draft = JSON.parse(localStorage.getItem(draftKey(form)) || "null");
  const isFresh = !form.querySelector(".errorlist");
  if (draft && isFresh) offerDraft(form, draft);
  for (const kind of ["input", "change"]) form.addEventListener(kind, () => {
    const values = Object.fromEntries(draftFields(form).map((field) => [field.name, field.value]));
    localStorage.setItem(draftKey(form), JSON.stringify(values));
  });
  form.addEventListener("submit", () => localStorage.removeItem(draftKey(form)));
}

function offerDraft(form, draft) {
  const differing = draftFields(form).filter((field) => field.name in draft && draft[field.name] !== field.value);
  if (!differing.length) return;
  const note = document.createElement("p");
  const restore = document.createElement("button");
  const discard = document.createElement("button");
  note.className = "note draft";
  note.setAttribute("role", "status");
  restore.type = discard.type = "button";
  restore.textContent = "Restore draft";
  discard.textContent = "Discard";
  note.append("You have an unsent draft. ", restore, " ", discard);
  restore.addEventListener("click", () => {
    for (const field of differing) {
      field.value = draft[field.name];
      field.dispatchEvent(new Event("refill"));
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
    note.remove();
  });
  discard.addEventListener("click", () => { localStorage.removeItem(draftKey(form)); note.remove(); });
  form.before(note);
}
