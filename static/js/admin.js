// Shows the whole text of a cell that is cut off, as its tooltip.
document.addEventListener("pointerover", ({ target }) => {
  const cell = target.closest?.("#result_list td, #result_list th");
  if (cell && !cell.title && cell.scrollWidth > cell.clientWidth) cell.title = cell.innerText.trim();
});
// Only one of the panels that open over the list is open at a time, and Escape closes it.
const panels = [...document.querySelectorAll("details.pop")];
for (const panel of panels) {
  panel.addEventListener("toggle", () => {
    if (panel.open) for (const other of panels) if (other !== panel) other.open = false;
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    panel.open = false;
    panel.querySelector("summary").focus();
  });
}
