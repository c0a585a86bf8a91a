// Runs a plan with either version of the TypeScript SDK.
module.exports = async function run(Client, StdioClientTransport, StreamableHTTPClientTransport) {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const plan = JSON.parse(Buffer.concat(chunks).toString());
  const [command, ...args] = plan.command ?? [];
  const headers = { Authorization: `Bearer ${plan.token}` };
  const transport =
    plan.transport === "http"
      ? new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers } })
      : new StdioClientTransport({ command, args, env: plan.env, cwd: plan.cwd, stderr: "ignore" });
  const client = new Client({ name: "interop", version: "1.0.0" }, { capabilities: {} });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const results = [];
  for (const call of plan.calls) {
    const result = await client.callTool({ name: call.tool, arguments: call.arguments });
    const text = result.content.map((block) => block.text ?? "").join("\n");
    results.push({ text, is_error: Boolean(result.isError) });
  }
  await client.close();
  console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
  process.exit(0);
};
