// Connects an MCP host with a Commonplace server: starts mcp-remote with the address, and the token if there is one.
"use strict";
const { spawn } = require("node:child_process");

const given = (name) => (process.env[name] || "").trim();

let address;
try {
  address = new URL(given("COMMONPLACE_ADDRESS"));
  if (!["http:", "https:"].includes(address.protocol)) throw new Error("another protocol");
} catch {
  console.error("address: is not an address; allowed: http(s)://HOST/mcp");
  process.exit(1);
}

// the token stays in the environment: arguments are visible in the list of processes
const token = given("COMMONPLACE_TOKEN");
const header = token ? ["--header", "Authorization:${COMMONPLACE_BEARER}"] : [];
const windows = process.platform === "win32"; // npx is a script there, which only a shell starts
const quoted = (text) => (windows ? `"${text.replaceAll("%", "%%")}"` : text);
const child = spawn("npx", ["-y", "mcp-remote", address.href, ...header].map(quoted), {
  stdio: "inherit",
  shell: windows,
  env: { ...process.env, COMMONPLACE_BEARER: `Bearer ${token}` },
});
child.on("error", (error) => {
  console.error(`npx can't be started (${error.code}): install Node.js from nodejs.org`);
  process.exit(1);
});
child.on("exit", (code) => process.exit(code ?? 1));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
