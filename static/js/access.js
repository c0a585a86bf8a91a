// For screen readers and keyboards: announcements, and a focus that stays and can be seen, also when htmx replaces a part
// of the page.

// Browsers announce changes of a live region, but not one that is inserted together with its text. So the texts of
// inserted regions are repeated in this one, which stays.
const live = document.createElement("p");
live.className = "sr";
live.id = "announcements";
live.setAttribute("role", "status");
document.body.append(live);

const LIVE = "[role=status], [role=alert], [aria-live]";
const textOf = (element) => element.textContent.replace(/\s+/g, " ").trim();

function announce(regions) {
  const text = regions.map(textOf).filter(Boolean).join(" ");
  if (text && text !== live.textContent) live.textContent = text; // a page that polls says the same again and again
}

// Messages about what a form did are there when the page opens. They are announced once the region is known.
setTimeout(() => announce([...document.querySelectorAll("[role=status] > .messages li")]), 200);

// Browsers don't scroll to a control of which a part can be seen, for example in the navigation of a narrow window.
document.addEventListener("focusin", ({ target }) => {
  if (!target.matches("a, button, input, select, summary") || !target.matches(":focus-visible")) return;
  (target.closest("label") ?? target).scrollIntoView({ block: "nearest", inline: "nearest" });
});

const focused = new WeakMap(); // request → what had the focus inside the replaced part
const inserted = new Map(); // request → the elements that it has inserted

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const element = document.activeElement;
  if (element !== document.body && detail.target.contains(element)) focused.set(detail.xhr, element);
});

document.addEventListener("htmx:afterSettle", ({ target, detail }) => {
  if (!inserted.has(detail.xhr)) setTimeout(() => finish(detail.xhr, detail.target), 30);
  inserted.set(detail.xhr, [...(inserted.get(detail.xhr) ?? []), target]);
});

function finish(request, target) {
  const parts = [...new Set(inserted.get(request))].filter((part) => part.isConnected);
  inserted.delete(request);
  announce(parts.flatMap(regionsOf));
  const before = focused.get(request);
  if (before && document.activeElement === document.body) successorOf(before, target.isConnected ? [target] : parts)?.focus();
}

// Regions inside a part that was inserted. Changes inside a region that has stayed are announced by the browser.
function regionsOf(part) {
  if (part.parentElement?.closest(LIVE)) return [];
  const regions = part.matches("[role=status]") ? [part] : [...part.querySelectorAll("[role=status]")];
  return regions.filter((region) => region.checkVisibility({ visibilityProperty: true }) || region.matches(".sr"));
}

// The element that stands for the one that had the focus: the same control, or else the part that has replaced it.
function successorOf(before, parts) {
  const controls = parts.flatMap((part) => [part, ...part.querySelectorAll("a[href], button, input, select, textarea, summary")]);
  const same = controls.find((control) => isSame(control, before));
  if (same) return same;
  const [part] = parts;
  if (part && !part.matches("a[href], button, input, select, textarea, [tabindex]")) part.tabIndex = -1;
  return part;
}

function isSame(control, before) {
  if (control.tagName !== before.tagName || !control.checkVisibility()) return false;
  const names = ["id", "name", "value", "href", "aria-label"].filter((name) => before.hasAttribute(name));
  if (names.length) return names.every((name) => control.getAttribute(name) === before.getAttribute(name));
  return textOf(control) === textOf(before);
}
