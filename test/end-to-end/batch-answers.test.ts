// Lines of a batch whose server is killed in the middle of their answers: the next one goes on with the answers that had begun.

import OpenAI, { toFile } from 'openai';
import { expect, it } from 'vitest';
import { openArchive } from '../../src/app/archive-settings.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { reportUsage } from '../../src/store/usage-report.ts';
import type { OutputLine } from '../support/batch-server.ts';
import { serverHome, waitUntil } from '../support/server-process.ts';

const LINES = 3;
const TOKENS = 600;
const ANONYMOUS = 'anonymous';

const home = serverHome();

/** What the archive knows of a server that is dead. It settles that, as the next server would. */
async function knownTokens(batchId: string): Promise<readonly (readonly number[])[]> {
  const database = await openDatabase(home.database);
  const keys = await database.tables.selectFrom('kept_request').select('key_id').distinct().execute();
  expect(keys).toHaveLength(1);
  const [{ key_id: keyId } = { key_id: ANONYMOUS }] = keys;
  const usage = { recordOnce: () => {}, flush: async () => {} };
  const opened = await openArchive(
    { archive: 'file', archiveBytes: 1e9, archiveKey: undefined },
    database,
    usage,
    { info: () => {}, warn: () => {} } as never,
  );
  const known: (readonly number[])[] = [];
  for (let line = 1; line <= LINES; line++) {
    const kept = await opened?.archive.find(keyId, `${batchId}:${line}`);
    known.push(kept?.tokens?.[0] ?? []);
  }
  await opened?.close();
  await database.close();
  return known;
}

it('goes on from the tokens that were known, though no seed was given, and charges them once', async () => {
  let server = await home.start();
  const clientOf = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 2 });
  const body = {
    model: 'default',
    prompt: 'Once upon a time',
    max_tokens: TOKENS,
    temperature: 1,
    ignore_eos: true,
  };
  const lines = Array.from({ length: LINES }, (_, n) =>
    JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/completions', body }),
  );
  const file = await toFile(Buffer.from(`${lines.join('\n')}\n`), 'input.jsonl');
  const { id: input_file_id } = await clientOf().files.create({ file, purpose: 'batch' });
  const { id } = await clientOf().batches.create({
    input_file_id,
    endpoint: '/v1/completions',
    completion_window: '24h',
  });
  const written = await openDatabase(home.database);
  await waitUntil(async () => {
    const rows = await written.tables.selectFrom('kept_tokens').select('position').execute();
    return rows.length >= 5;
  });
  await written.close();
  server.signal('SIGKILL');
  await server.exited;
  const knownOf = await knownTokens(id);
  for (const tokens of knownOf) {
    expect(tokens.length).toBeGreaterThan(5);
    expect(tokens.length).toBeLessThan(TOKENS);
  }
  server = await home.start();
  await waitUntil(async () => (await clientOf().batches.retrieve(id)).status === 'completed');
  const { output_file_id: output } = await clientOf().batches.retrieve(id);
  const answers = (await (await clientOf().files.content(output as string)).text())
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as OutputLine);
  expect(answers).toHaveLength(LINES);
  for (const [at, { response }] of answers.entries()) {
    const [choice] = (response?.body.choices ?? []) as { text: string }[];
    const text = choice?.text ?? '';
    const asked = await fetch(`${server.url}/detokenize`, {
      method: 'POST',
      body: JSON.stringify({ tokens: knownOf[at] }),
    });
    const { content } = (await asked.json()) as { content: string };
    expect(content.length).toBeGreaterThan(5);
    // An answer is without special tokens, and the end of what is known may be a part of a character.
    const known = content.replaceAll(/<\|\w+\|>/g, '').replace(/\ufffd+$/, '');
    expect(text.slice(0, known.length), `line ${at}`).toBe(known);
    expect(response?.body.usage).toMatchObject({ completion_tokens: TOKENS });
  }
  server.signal('SIGTERM');
  await server.exited;
  const books = await openDatabase(home.database);
  const [used, ...others] = await reportUsage(books, {});
  await books.close();
  expect(others).toEqual([]);
  expect(used).toMatchObject({ requests: LINES, completionTokens: LINES * TOKENS });
}, 300_000);
