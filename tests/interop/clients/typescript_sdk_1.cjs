// The TypeScript SDK, version 1.
const { createRequire } = require("node:module");
const load = createRequire(`${process.env.NODE_FOLDER}/package.json`);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const run = require("./typescript_plan.cjs");

run(Client, StdioClientTransport, StreamableHTTPClientTransport);
