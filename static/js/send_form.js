// Ctrl+Enter (Cmd+Enter on a Mac) in a field sends its form, as its first visible button would. In a form whose buttons
// decide, it presses the only button of the open panel, or the one that sends what was typed, and otherwise nothing.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.repeat || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  const form = event.target.form || event.target.closest("[data-panel][open]")?.closest("form");
  if (!form || event.defaultPrevented || event.target.matches("button, a[href]")) return;
  const buttons = [...form.elements].filter((element) => element.matches("button:not([type=button], [type=reset]), input[type=submit]"));
  const usable = buttons.filter((button) => !button.disabled && button.checkVisibility());
  let button = usable.find((candidate) => candidate.matches(".primary")) || usable[0];
  if (form.matches("[data-decides]")) {
    const panel = event.target.closest("[data-panel][open]");
    const inPanel = usable.filter((candidate) => panel?.contains(candidate));
    button = inPanel.length === 1 ? inPanel[0] : inPanel.find((candidate) => candidate.matches("[data-sends-note]") && event.target.value?.trim());
  }
  event.preventDefault();
  if (!button) return;
  form.requestSubmit(button);
});
