// Ctrl+Enter (Cmd+Enter on a Mac) in a field sends its form, as its first visible button would.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.repeat || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  const form = event.target.form;
  if (!form || event.defaultPrevented || event.target.matches("button")) return;
  const buttons = [...form.elements].filter((element) => element.matches("button:not([type=button], [type=reset]), input[type=submit]"));
  const usable = buttons.filter((button) => !button.disabled && button.checkVisibility());
  const button = usable.find((candidate) => candidate.matches(".primary")) || usable[0];
  if (!button) return;
  event.preventDefault();
  form.requestSubmit(button);
});
