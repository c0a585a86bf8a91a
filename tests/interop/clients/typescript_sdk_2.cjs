// The TypeScript SDK, version 2.
const { createRequire } = require("node:module");
const load = createRequire(`${process.env.NODE_FOLDER}/package.json`);
const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");
const run = require("./typescript_plan.cjs");

run(Client, StdioClientTransport, StreamableHTTPClientTransport);
