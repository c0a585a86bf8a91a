/* The hits of a recall: who said it, when, about what, and why it matched. */

function whyFound(memory) {
  const scores = memory.scores;
  const parts = [
    scores && `Words matched: ${Math.round(scores.coverage * 100)} %`,
    scores?.cosine != null && `meaning: ${Math.round(scores.cosine * 100)} %`,
    memory.to_verify, memory.stale_reason,
  ];
  return parts.filter(Boolean).join(" · ");
}

function memoryItem(memory) {
  const verified = memory.verified_by ? `verified by ${memory.verified_by}` : "";
  const edited = memory.edited_by ? `edited by ${memory.edited_by}` : "";
  const byline = [memory.created_by, edited, verified, moment(memory.created_at)].filter(Boolean).join(" · ");
  const category = memory.category?.replaceAll("_", " ");
  const fields = { ...memory, category, byline, why: whyFound(memory), content: memory.cut ? `… ${memory.content} …` : memory.content };
  const item = clone("memory", fields, { entities: chips([...(memory.entity_urns ?? []), ...(memory.detected_urns ?? [])]) });
  for (const verdict of ["useful", "wrong"]) {
    act(item, verdict, async () => {
      const { message } = await callTool("memory_manage", { command: "feedback", id: memory.id, verdict });
      tell(item, message);
    });
    item.querySelector(`[data-act=${verdict}]`).hidden = !canCall();
  }
  act(item, "open", async () => {
    const id = memory.id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    await request("ui/open-link", { url: `${document.body.dataset.portal}/memories/${id}/` });
  });
  item.querySelector("[data-act=open]").hidden = !host.capabilities.openLinks;
  return item;
}

connect((result) => {
  const memories = result.memories ?? [];
  document.getElementById("list").replaceChildren(...memories.map(memoryItem));
  const left = result.omitted ? `${result.omitted} more were left out.` : "";
  const none = memories.length ? "" : "Nothing relevant is known.";
  say([none, left, result.note].filter(Boolean).join(" "), false);
}).catch((error) => say(error.message, true));
