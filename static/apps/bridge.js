/* The view's side of MCP Apps: JSON-RPC with the host by postMessage, and rendering of results.
   Texts of others reach the page only as textContent. */
"use strict";

const PROTOCOL = "2026-01-26";
const THEME = {
  "--color-background-primary": "--surface", "--color-background-secondary": "--page",
  "--color-background-tertiary": "--raised", "--color-text-primary": "--text",
  "--color-text-secondary": "--quiet", "--color-border-primary": "--line",
  "--font-sans": "--sans", "--font-mono": "--mono",
};
const waiting = new Map();
const host = { capabilities: {}, input: {} };
let lastId = 0;

function post(message) {
  // The origin of the host is unknown to a sandboxed view; messages contain only what the host already has.
  parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function request(method, params) {
  const id = ++lastId;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    post({ id, method, params });
  });
}

function applyContext(context = {}) {
  const root = document.documentElement;
  if (context.theme === "light" || context.theme === "dark") root.dataset.theme = context.theme;
  for (const [theirs, ours] of Object.entries(THEME)) {
    const value = context.styles?.variables?.[theirs];
    if (value) root.style.setProperty(ours, value);
  }
}

/* Calls a tool through the host. Returns its structured content, and throws an Error with `code` if it failed. */
async function callTool(name, args) {
  const result = await request("tools/call", { name, arguments: args });
  if (result.isError) throw errorOf(result);
  return result.structuredContent;
}

function errorOf(result) {
  const text = result.content?.find((block) => block.type === "text")?.text ?? "The call failed.";
  try {
    const { error, code } = JSON.parse(text);
    return Object.assign(new Error(error || text), { code });
  } catch {
    return new Error(text);
  }
}

function canCall() {
  return Boolean(host.capabilities.serverTools);
}

/* Tells the model what the person decided in the view. */
function tellModel(text) {
  if (host.capabilities.updateModelContext)
    request("ui/update-model-context", { content: [{ type: "text", text }] }).catch(() => {});
}

function say(text, isError = false) {
  const status = document.getElementById("status");
  status.textContent = visible(text);
  status.hidden = !text;
  status.classList.toggle("error", isError);
}

function entityName(urn) {
  const [, name] = urn.match(/^urn:li:\w+:\(.*?,(.+),\w+\)$/) ?? [];
  return name ?? urn.replace(/^urn:li:\w+:/, "");
}

/* Shows invisible characters as code points, as foundation/operations/display.py does on the server. */
const INVISIBLE = /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

function visible(text) {
  const point = (character) => character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return String(text).replace(INVISIBLE, (character) => `⟦U+${point(character)}⟧`);
}

function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

function moment(text) {
  return text ? new Date(text).toLocaleDateString(undefined, { dateStyle: "medium" }) : "";
}

/* Clones a template. `fields` fill elements with text, and an element without text is hidden. */
function clone(id, fields, lists = {}) {
  const item = document.getElementById(id).content.firstElementChild.cloneNode(true);
  for (const element of item.querySelectorAll("[data-field]")) {
    element.textContent = visible(fields[element.dataset.field] ?? "");
    element.hidden = !element.textContent;
  }
  for (const element of item.querySelectorAll("[data-list]")) {
    const isList = element.tagName === "UL";
    for (const { text, title = "" } of lists[element.dataset.list] ?? []) {
      const entry = document.createElement(isList ? "li" : "span");
      if (!isList) entry.className = "chip";
      entry.textContent = visible(text);
      entry.title = title;
      element.append(entry, " ");
    }
  }
  return item;
}

function chips(urns = []) {
  return urns.map((urn) => ({ text: entityName(urn), title: urn }));
}

/* Runs the action of a button once, with the buttons of its item disabled, and shows an error beside them. */
function act(item, name, work) {
  const button = item.querySelector(`[data-act="${name}"]`);
  button?.addEventListener("click", async () => {
    const buttons = item.querySelectorAll("button");
    buttons.forEach((each) => { each.disabled = true; });
    try {
      await work();
    } catch (error) {
      tell(item, error.message, true);
    } finally {
      buttons.forEach((each) => { each.disabled = false; });
    }
  });
}

function tell(item, text, isError = false) {
  const message = item.querySelector("[data-field=message]");
  if (!message) return say(text, isError);
  message.textContent = visible(text);
  message.hidden = false;
  message.classList.toggle("error", isError);
}

function hostMessage(message, show) {
  const { method, params = {} } = message;
  if (method === "ui/notifications/tool-input") host.input = params.arguments ?? {};
  else if (method === "ui/notifications/tool-result") {
    if (params.isError) say(errorOf(params).message, true);
    else if (params.structuredContent) show(params.structuredContent);
    else say("The host passed on no structured result.", true);
  } else if (method === "ui/notifications/tool-cancelled") say("The call was cancelled.", true);
  else if (method === "ui/notifications/host-context-changed") applyContext(params);
  else if (message.id !== undefined && (method === "ping" || method === "ui/resource-teardown"))
    post({ id: message.id, result: {} });
  else if (message.id !== undefined)
    post({ id: message.id, error: { code: -32601, message: `unknown method ${method}` } });
}

/* Connects to the host. `show` is called with the structured content of each result of the tool. */
async function connect(show) {
  addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== parent || message?.jsonrpc !== "2.0") return;
    if (message.method) return hostMessage(message, show);
    const call = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) call?.reject(new Error(message.error.message));
    else call?.resolve(message.result ?? {});
  });
  const appInfo = { name: "commonplace", version: document.body.dataset.version };
  const appCapabilities = { availableDisplayModes: ["inline", "fullscreen"] };
  const answer = await request("ui/initialize", { protocolVersion: PROTOCOL, appInfo, appCapabilities });
  host.capabilities = answer.hostCapabilities ?? {};
  applyContext(answer.hostContext);
  post({ method: "ui/notifications/initialized" });
  new ResizeObserver(() => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    post({ method: "ui/notifications/size-changed", params: { height } });
  }).observe(document.body);
}
