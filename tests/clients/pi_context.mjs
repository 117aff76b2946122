// Reads paths of Pi sessions from standard input, one a line, and prints what SessionManager makes of each.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const module = 'node_modules/@earendil-works/pi-coding-agent/dist/core/session-manager.js';
const { SessionManager } = await import(pathToFileURL(`${process.argv[2]}/${module}`));
for await (const path of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify({ messages: SessionManager.open(path).buildSessionContext().messages }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
