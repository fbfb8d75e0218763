// Sends bodies of bodies.py to the chat API of a server with the embedded model, and counts answers that are valid by
// their schemas, by a validator that is not ours, and those that are what the generator had in mind:
// node ask.js bodies.jsonl. Ends in one line of JSON.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import Ajv from 'ajv';
import { serve } from '../../dist/index.js';

const AT_ONCE = 16;
const [file] = process.argv.slice(2);
if (file === undefined) {
  process.stderr.write('usage: node ask.js bodies.jsonl\n');
  process.exit(1);
}

const ajv = new Ajv.default({ strict: false });
const lines = readFileSync(file, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));

async function ask(url, body) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, temperature: 0 }),
  });
  if (!response.ok) throw new Error(await response.text());
  const answer = /** @type {any} */ (await response.json());
  return answer.choices[0];
}

/** What an answer says, whether its schema allows it, and whether it is what was meant. */
function judge({ body, wanted }, { message, finish_reason: reason }) {
  if (body.tools === undefined) {
    const said = JSON.parse(message.content);
    const valid = reason === 'stop' && ajv.validate(body.response_format.json_schema.schema, said);
    return { valid, right: isDeepStrictEqual(said, wanted), said: message.content };
  }
  const calls = (message.tool_calls ?? []).map(({ function: call }) => ({
    name: call.name,
    arguments: JSON.parse(call.arguments),
  }));
  const fits = (call) => {
    const tool = body.tools.find((one) => one.function.name === call.name);
    return tool !== undefined && ajv.validate(tool.function.parameters, call.arguments);
  };
  return {
    valid: reason === 'tool_calls' && calls.length > 0 && calls.every(fits),
    right: isDeepStrictEqual(calls, wanted),
    said: message.content ?? JSON.stringify(calls),
  };
}

function judged(line, choice) {
  try {
    return judge(line, choice);
  } catch (error) {
    return { valid: false, right: false, said: `${error}: ${JSON.stringify(choice.message)}` };
  }
}

const home = mkdtempSync(join(tmpdir(), 'chairlift-ask-'));
const model = fileURLToPath(new URL('../../models/chairlift-demo-14m-q8_0.gguf', import.meta.url));
const server = await serve({
  port: 0,
  logLevel: 'error',
  model: [model],
  database: join(home, 'ask.db'),
});
const table = {};
const left = lines.entries();
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (const [, line] of left) {
      const { valid, right, said } = judged(line, await ask(server.url, line.body));
      table[line.family] ??= { asked: 0, valid: 0, right: 0 };
      const row = table[line.family];
      row.asked++;
      if (valid) row.valid++;
      if (right) row.right++;
      if (!valid) process.stdout.write(`${line.id} (${line.body.tool_choice ?? 'schema'}): ${said}\n`);
    }
  }),
);
await server.close();
rmSync(home, { recursive: true });
for (const [family, { asked, valid, right }] of Object.entries(table)) {
  const share = (count) => `${((100 * count) / asked).toFixed(1)} %`;
  process.stdout.write(`${family}: ${asked} asked, ${share(valid)} valid, ${share(right)} as meant\n`);
}
process.stdout.write(`${JSON.stringify(table)}\n`);
