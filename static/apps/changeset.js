/* A changeset, or the preview of one: each value before and after; apply and roll back with a confirmation. */

function changeItem(change) {
  const before = change.was_absent || change.before == null ? "" : asText(change.before);
  const after = change.removes || change.after == null ? "" : asText(change.after);
  const title = change.does ?? change.change_type?.replaceAll("_", " ");
  const fields = { title, outcome: change.outcome, error: change.error, before, after };
  const item = clone("change", fields, { entities: chips(change.urn ? [change.urn] : []) });
  item.querySelector("del").hidden = !before;
  item.querySelector("ins").hidden = !after;
  return item;
}

function page(title, details, items, buttons = []) {
  const heading = document.getElementById("title");
  heading.textContent = visible(title);
  document.getElementById("details").textContent = visible(details.filter(Boolean).join(" · "));
  document.getElementById("list").replaceChildren(...items);
  document.getElementById("actions").replaceChildren(...(canCall() ? buttons : []));
  say(canCall() ? "" : "This host can't call tools from a view. Ask the agent instead.");
}

function button(label, work, style = "") {
  const element = Object.assign(document.createElement("button"), { type: "button", textContent: label, className: style });
  element.addEventListener("click", async () => {
    const actions = document.querySelectorAll("#actions button");
    actions.forEach((each) => { each.disabled = true; });
    try {
      await work();
      document.getElementById("title").focus();
    } catch (error) {
      say(error.message, true);
    } finally {
      actions.forEach((each) => { each.disabled = false; });
    }
  });
  return element;
}

/* Asks in place, because a sandboxed frame can't open dialogs. */
function confirmed(label, question, work) {
  return button(label, async () => {
    const bar = document.getElementById("actions");
    const before = [...bar.children];
    const cancel = Object.assign(document.createElement("button"), { type: "button", textContent: "Cancel" });
    cancel.addEventListener("click", () => { say(""); bar.replaceChildren(...before); before[0].focus(); });
    say(question);
    bar.replaceChildren(button(`Yes, ${label.toLowerCase()}`, work, "danger"), cancel);
  }, "primary");
}

async function knowledge(args) {
  const result = await callTool("apply_knowledge", args);
  showKnowledge(result, args);
  return result;
}

function showPreview(result, args) {
  const isRollback = args.action === "rollback";
  const details = [result.entity_urn && entityName(result.entity_urn), ...(result.chains ?? []),
    ...(result.removed_in_use ?? []).map((used) => `${used.name} is used ${used.users_total ?? "an unknown number of"} times`),
    ...Object.entries(result.replaces ?? {}).map(([id, text]) => `replaces ${text || id}`)];
  const label = isRollback ? "Roll back" : "Apply";
  const work = async () => {
    const { dry_run: _, ...rest } = args;
    const done = await knowledge({ ...rest, confirm: true });
    say(done.note ?? done.message);
    tellModel(`The person confirmed ${isRollback ? "a rollback" : "an apply"} in the view. Changeset ${done.changeset_id}: ${done.message}`);
  };
  const question = `${label} ${result.preview.length} ${result.preview.length === 1 ? "change" : "changes"} in the catalog?`;
  const buttons = args.action ? [confirmed(label, question, work)] : [];
  page(isRollback ? "Preview of a rollback" : "Preview of changes", details, result.preview.map(changeItem), buttons);
}

function showChangeset(changeset) {
  const { changeset_id, state } = changeset;
  const changes = changeset.changes ?? [...(changeset.reverted_changes ?? []), ...(changeset.skipped_changes ?? []), ...(changeset.kept_changes ?? [])];
  const urn = changeset.entity_urn || changeset.target_urn;
  const buttons = [];
  if (["applied", "partial"].includes(state))
    buttons.push(button("Preview a rollback", () => knowledge({ action: "rollback", changeset_id, dry_run: true })));
  if (state === "partial") buttons.push(button("Resume", () => knowledge({ action: "resume", changeset_id })));
  page(`Changeset: ${state.replaceAll("_", " ")}`, [urn && entityName(urn), changeset.applied_by, changeset.message, changeset.note, changeset.error],
    changes.map(changeItem), buttons);
}

/* Names the button of a row, since "Show" alone is ambiguous in a list. */
function labelled(item, name) {
  const show = item.querySelector("button");
  show.hidden = !canCall();
  show.setAttribute("aria-label", `Show ${name}`);
}

function showChangesets(result) {
  const items = result.changesets.map((row) => {
    const byline = [row.applied_by, moment(row.created_at)].filter(Boolean).join(" · ");
    const item = clone("row", { text: row.entity_urn ? entityName(row.entity_urn) : row.changeset_id, state: row.state, byline });
    labelled(item, `${row.state} ${byline}`);
    act(item, "open", () => knowledge({ action: "list_changesets", changeset_id: row.changeset_id }));
    return item;
  });
  page("Changesets", [`${result.total} in all`], items);
}
