// The OAuth client of the TypeScript SDK: version 1 or 2, as the environment variable SDK says.
const { createServer } = require("node:http");
const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");
const load = createRequire(`${process.env.NODE_FOLDER}/package.json`);
const sdk =
  process.env.SDK === "1"
    ? {
        ...load("@modelcontextprotocol/sdk/client/index.js"),
        ...load("@modelcontextprotocol/sdk/client/streamableHttp.js"),
        ...load("@modelcontextprotocol/sdk/client/auth.js"),
      }
    : load("@modelcontextprotocol/client");

const print = (event) => console.log(JSON.stringify(event));
const store = {};
let redirected = () => {};

const listener = createServer((request, response) => {
  const url = new URL(request.url, "http://127.0.0.1");
  response.end("You can close this window.");
  if (url.pathname === "/callback") redirected(url.searchParams);
});

const provider = () => ({
  redirectUrl: `http://127.0.0.1:${listener.address().port}/callback`,
  clientMetadata: {
    client_name: `TypeScript SDK ${process.env.SDK}`,
    redirect_uris: [`http://127.0.0.1:${listener.address().port}/callback`],
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"],
  },
  state: () => (store.state = crypto.randomUUID()),
  clientInformation: () => store.client,
  saveClientInformation: (client) => void (store.client = client),
  tokens: () => store.tokens,
  saveTokens: (tokens) => void (store.tokens = tokens),
  codeVerifier: () => store.verifier,
  saveCodeVerifier: (verifier) => void (store.verifier = verifier),
  redirectToAuthorization: (url) => print({ open: String(url) }),
  discoveryState: () => store.discovery,
  saveDiscoveryState: (state) => void (store.discovery = state),
  invalidateCredentials: (scope) => scope === "tokens" && delete store.tokens,
});

async function connected(url, authProvider) {
  const client = new sdk.Client({ name: "interop", version: "1.0.0" }, { capabilities: {} });
  const transport = () => new sdk.StreamableHTTPClientTransport(new URL(url), { authProvider });
  const first = transport();
  const answer = new Promise((resolve) => (redirected = resolve));
  try {
    await client.connect(first);
    return client;
  } catch (error) {
    if (!(error instanceof sdk.UnauthorizedError)) throw error;
  }
  const values = await answer;
  if (values.get("state") !== store.state) throw new Error("the state is another one");
  await (process.env.SDK === "1" ? first.finishAuth(values.get("code")) : first.finishAuth(values));
  await client.connect(transport());
  return client;
}

async function main() {
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const authProvider = provider();
  let client;
  for await (const line of createInterface({ input: process.stdin })) {
    const step = JSON.parse(line);
    try {
      client ??= await connected(step.url, authProvider);
      if (step.expire) store.tokens = { ...store.tokens, access_token: "expired" };
      const { tools } = await client.listTools();
      const call = { name: step.tool, arguments: step.arguments };
      const result = await client.callTool(call);
      const text = result.content.map((block) => block.text ?? "").join("\n");
      print({ tools: tools.map((tool) => tool.name), text, access_token: store.tokens.access_token });
    } catch (error) {
      print({ failed: String(error) });
    }
  }
  process.exit(0);
}

main();
