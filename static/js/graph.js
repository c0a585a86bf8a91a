// Zoom and pan of the graph's picture, by pointer, touch and keys. Without this script, the picture can be scrolled.
for (const frame of document.querySelectorAll("[data-graph]")) zoomable(frame);

function zoomable(frame) {
  const view = frame.querySelector(".graph-view");
  const svg = view.querySelector("svg");
  const [left, top, width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const NAME = 12; // size of a name in units, as in the style sheet
  const READABLE = 11; // smallest size of a name on the screen in pixels
  const MAX_SCALE = 4; // pixels of a unit when zoomed in as far as possible
  const STEP = 1.3;
  let box = { x: left, y: top, w: width, h: height };
  frame.classList.add("zoomable");
  for (const part of frame.querySelectorAll(".graph-tools, [data-graph-keys]")) part.hidden = false;

  const size = () => view.getBoundingClientRect();
  const limit = (value, low, high) => Math.min(Math.max(value, low), high);

  function show(next) {
    const { width: w, height: h } = size();
    const smallest = Math.min(w / MAX_SCALE, width);
    box.w = limit(next.w, smallest, Math.max(width, w, height * (w / h)) * 1.2);
    box.h = box.w * (h / w);
    // At least the middle of the view stays on the picture.
    box.x = limit(next.x, left - box.w / 2, left + width - box.w / 2);
    box.y = limit(next.y, top - box.h / 2, top + height - box.h / 2);
    svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`);
    placeTexts(box.w / w);
  }
  // Names keep a readable size when the picture is small. A text that would cover another one is left out; the names
  // of the nodes come first, in their order, which is that of the list. Links keep their names for screen readers.
  const texts = [...svg.querySelectorAll(".node-name"), ...svg.querySelectorAll(".node-size"), ...svg.querySelectorAll(".edge-label")];
  let placed = 0;
  function placeTexts(unit) {
    if (Math.abs(unit - placed) < 0.01 * unit) return;
    placed = unit;
    svg.style.setProperty("--text-scale", Math.max(1, (unit * READABLE) / NAME));
    for (const text of texts) text.classList.remove("covered");
    const taken = [];
    for (const [text, area] of texts.map((text) => [text, text.getBBox()])) {
      const isCovered = taken.some((other) => area.x < other.x + other.width && other.x < area.x + area.width && area.y < other.y + other.height && other.y < area.y + area.height);
      text.classList.toggle("covered", isCovered);
      if (!isCovered) taken.push(area);
    }
  }
  function centerOn(x, y, w = box.w) {
    const ratio = size().height / size().width;
    show({ x: x - w / 2, y: y - (w * ratio) / 2, w });
  }
  // Zoom so that the point at these shares of the view stays where it is.
  function zoom(factor, across = 0.5, down = 0.5) {
    const { x, y, w, h } = box;
    const before = { x: x + w * across, y: y + h * down };
    show({ x, y, w: w / factor });
    show({ x: before.x - box.w * across, y: before.y - box.h * down, w: box.w });
  }
  function fit() {
    const ratio = size().height / size().width;
    centerOn(left + width / 2, top + height / 2, Math.max(width, height / ratio));
  }
  const nodeAt = (link) => [Number(link.dataset.x), Number(link.dataset.y)];

  const actions = { in: () => zoom(STEP), out: () => zoom(1 / STEP), fit };
  frame.addEventListener("click", (event) => actions[event.target.closest("[data-zoom]")?.dataset.zoom]?.());

  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = box.w / 8;
    const moves = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] };
    if (moves[event.key]) show({ x: box.x + moves[event.key][0], y: box.y + moves[event.key][1], w: box.w });
    else if (event.key === "+" || event.key === "=") zoom(STEP);
    else if (event.key === "-") zoom(1 / STEP);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  // A node that gets the focus comes into view, since the keyboard can't point at what is outside of it.
  view.addEventListener("focusin", (event) => {
    const link = event.target.closest("a[data-x]");
    if (!link || !link.matches(":focus-visible")) return;
    const [x, y] = nodeAt(link);
    if (x < box.x || x > box.x + box.w || y < box.y || y > box.y + box.h) centerOn(x, y);
  });

  view.addEventListener("wheel", (event) => {
    // Without a modifier, the wheel scrolls the page, unless the picture has the focus.
    if (!event.ctrlKey && !event.metaKey && !view.contains(document.activeElement)) return;
    event.preventDefault();
    const { left: l, top: t, width: w, height: h } = size();
    zoom(event.deltaY < 0 ? STEP : 1 / STEP, (event.clientX - l) / w, (event.clientY - t) / h);
  }, { passive: false });

  const pointers = new Map();
  let dragged = 0;
  view.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    dragged = 0;
  });
  view.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const { left: l, top: t, width: w, height: h } = size();
    const now = [event.clientX, event.clientY];
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const distance = ([x, y]) => Math.hypot(x - other[0], y - other[1]);
      zoom(distance(now) / Math.max(distance(last), 1), ((now[0] + other[0]) / 2 - l) / w, ((now[1] + other[1]) / 2 - t) / h);
    } else {
      show({ x: box.x - ((now[0] - last[0]) * box.w) / w, y: box.y - ((now[1] - last[1]) * box.h) / h, w: box.w });
    }
    dragged += Math.hypot(now[0] - last[0], now[1] - last[1]);
    pointers.set(event.pointerId, now);
    if (dragged > 4 && !view.hasPointerCapture(event.pointerId)) view.setPointerCapture(event.pointerId);
  });
  for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) view.addEventListener(kind, (event) => pointers.delete(event.pointerId));
  view.addEventListener("dragstart", (event) => event.preventDefault()); // links would be dragged instead
  view.addEventListener("click", (event) => {
    if (dragged > 4 && event.detail) event.preventDefault(); // the end of a drag opens nothing; Enter has no detail
    dragged = 0;
  }, true);

  fit();
  let lastWidth = size().width;
  new ResizeObserver(() => {
    if (Math.abs(size().width - lastWidth) < 1) return;
    lastWidth = size().width;
    fit();
  }).observe(view);
}
