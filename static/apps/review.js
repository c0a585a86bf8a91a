/* The review queue: waiting insights with their evidence, and decisions about them. */

function evidenceOf(insight) {
  const evidence = insight.evidence ?? {};
  const described = (evidence.entities ?? []).map((entity) =>
    ({ text: `${entity.name || entityName(entity.urn)}: ${entity.description || "no description in the catalog"}`, title: entity.urn }));
  const against = (evidence.disagreements ?? []).map((text) => ({ text: `Disagrees: ${text}` }));
  const suggested = (insight.suggested_actions ?? []).map((action) =>
    ({ text: `Suggests: ${action.action_type.replaceAll("_", " ")} ${action.target ?? ""} ${action.detail ?? ""}` }));
  return [...against, ...described, ...suggested, ...(evidence.note ? [{ text: evidence.note }] : [])];
}

function insightItem(insight, urn) {
  const decided = insight.reviewed_by ? `${insight.state} by ${insight.reviewed_by}` : "";
  const byline = [insight.captured_by, moment(insight.created_at), decided].filter(Boolean).join(" · ");
  const fields = { text: insight.insight_text, state: insight.state, category: insight.category?.replaceAll("_", " "), byline, message: insight.review_notes };
  const item = clone("insight", fields, { entities: chips(insight.entity_urns), evidence: evidenceOf(insight) });
  const isWaiting = insight.state === "pending" && Boolean(insight.seen);
  item.querySelectorAll("[data-part=decision]").forEach((part) => { part.hidden = !isWaiting || !canCall(); });
  item.querySelector("[data-part=plan]").hidden = insight.state !== "approved" || Boolean(insight.changeset_id) || !canCall();
  for (const action of ["approve", "reject", "needs_more"]) act(item, action, () => decide(item, insight, action, urn));
  act(item, "plan", () => plan(insight, urn));
  return item;
}

async function decide(item, insight, action, urn) {
  const notes = item.querySelector("[data-input=notes]");
  notes.removeAttribute("aria-invalid");
  if (action !== "approve" && !notes.value.trim()) {
    notes.setAttribute("aria-invalid", "true");
    notes.focus();
    throw new Error(action === "reject" ? "Write the reason first." : "Write the question first.");
  }
  const args = { action, insight_ids: [insight.id], seen: { [insight.id]: insight.seen } };
  if (notes.value.trim()) args.review_notes = notes.value.trim();
  let outcome = "";
  try {
    const result = await callTool("apply_knowledge", args);
    outcome = result.note ?? { approve: "Approved.", reject: "Rejected.", needs_more: "The author was asked." }[action];
    tellModel(`In the view, the person chose ${action} for insight ${insight.id}.`);
  } catch (error) {
    if (error.code !== "conflict") throw error;
    outcome = `Not decided: ${error.message}`;  // somebody else was faster; the reloaded insight shows their decision
  }
  await reload(urn);
  say(outcome, outcome.startsWith("Not decided"));
}

async function reload(urn) {
  await knowledge(urn ? { action: "review", entity_urn: urn } : { action: "bulk_review" });
  document.getElementById("title").focus();
}

async function plan(insight, urn) {
  const insight_ids = [insight.id];
  const { proposed_changes, note } = await callTool("apply_knowledge", { action: "synthesize", insight_ids, entity_urn: urn });
  if (!proposed_changes.length) throw new Error(note || "There is nothing to change.");
  const changes = proposed_changes.map(({ change_type, target, suggested_value, query_sql, query_description }) =>
    Object.fromEntries(Object.entries({ change_type, target, detail: suggested_value, query_sql, query_description }).filter(([, value]) => value)));
  await knowledge({ action: "apply", insight_ids, changes, entity_urn: urn, dry_run: true });
}

function showReview(result) {
  const items = result.insights.map((insight) => insightItem(insight, result.entity_urn));
  const more = result.omitted ? `${result.omitted} left out` : "";
  page(`Review: ${entityName(result.entity_urn)}`, [`${result.total} insights`, more, result.note], items,
    [button("Back to the queue", () => knowledge({ action: "bulk_review" }))]);
}

function showQueue(result) {
  const items = result.by_entity.map((row) => {
    const item = clone("row", { text: entityName(row.urn), state: `${row.count} waiting`, byline: moment(row.latest_at) });
    labelled(item, entityName(row.urn));
    act(item, "open", () => reload(row.urn));
    return item;
  });
  items.push(...(result.insights ?? []).map((insight) => insightItem(insight, "")));
  const alone = result.without_entity && `${result.without_entity} of them name no entity`;
  page("Review queue", [`${result.total_pending} waiting`, alone, result.more_entities && "more entities wait than are listed"], items);
}

/* Results of apply_knowledge are told apart by their keys. */
function showKnowledge(result, args) {
  if (result.by_entity) showQueue(result);
  else if (result.preview) showPreview(result, args);
  else if (result.changeset_id && result.state) showChangeset(result);
  else if (result.changesets?.[0]?.changes) showChangeset(result.changesets[0]);
  else if (result.changesets) showChangesets(result);
  else if (result.insights && result.entity_urn) showReview(result);
  else showOther(result, args);
}

function showOther(result, args) {
  const urn = args.entity_urn || result.entity_urn;
  const buttons = [button("Show the review queue", () => knowledge({ action: "bulk_review" }))];
  if (urn) buttons.unshift(button("Show the review of this entity", () => reload(urn)));
  const errors = (result.errors ?? []).map(({ error }) => error);
  page("Review", [result.message, result.updated !== undefined && `${result.updated} of ${result.total} updated`, result.note, ...errors], [], buttons);
}

connect((result) => showKnowledge(result, host.input)).catch((error) => say(error.message, true));
