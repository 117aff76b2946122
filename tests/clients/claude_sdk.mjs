// Prints what the reader of Claude's agent SDK makes of sessions: lines of "CONFIG_DIR SESSION_ID" on standard input.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { getSessionMessages } = await import(
  pathToFileURL(`${process.argv[2]}/node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs`)
);
for await (const line of createInterface({ input: process.stdin })) {
  const [folder, session, cwd] = line.split('\t');
  process.env.CLAUDE_CONFIG_DIR = folder;
  try {
    const found = await getSessionMessages(session, { dir: cwd });
    console.log(JSON.stringify({ messages: found.map((one) => [one.type, one.uuid]) }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
