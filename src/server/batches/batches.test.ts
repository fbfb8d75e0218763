// Files and batches through the routes, with the embedded model.

import { describe, expect, it } from 'vitest';
import { inputLine, startBatchServer } from '../../../test/support/batch-server.ts';

const messages = [{ role: 'user', content: 'Hello, who are you?' }];
const short = { messages, max_tokens: 4, temperature: 0 };

describe('a batch', () => {
  it('answers each line as the request alone, and counts its usage', async () => {
    const server = await startBatchServer({ mine: {} });
    const bodies = Array.from({ length: 12 }, (_, n) => ({
      messages: [{ role: 'user', content: `Hello, number ${n}` }],
      max_tokens: 3 + (n % 4),
      temperature: 0.8,
      seed: n,
    }));
    const { id, status } = await server.submit(
      'mine',
      bodies.map((body, n) => inputLine(`line-${n}`, body)),
    );
    expect(status).toBe('validating');
    const batch = await server.ended('mine', id);
    expect(batch).toMatchObject({
      status: 'completed',
      request_counts: { total: 12, completed: 12, failed: 0 },
      error_file_id: null,
      errors: null,
    });
    const lines = await server.read('mine', batch.output_file_id);
    expect(lines.map((line) => line.custom_id)).toEqual(bodies.map((_, n) => `line-${n}`));
    expect(await server.usageOf('mine')).toBe(12);
    for (const [n, body] of bodies.entries()) {
      const alone = (await server.call('mine', 'POST', '/v1/chat/completions', body)).json();
      expect(lines[n]).toMatchObject({
        error: null,
        response: {
          status_code: 200,
          request_id: `${id}:${n + 1}`,
          body: { choices: alone.choices, model: alone.model },
        },
      });
    }
  });

  it('keeps failing lines apart from the rest', async () => {
    const server = await startBatchServer({ mine: {} });
    const { id } = await server.submit('mine', [
      inputLine('good', short),
      inputLine('bad', { ...short, temperature: -1 }),
      inputLine('streamed', { ...short, stream: true }),
    ]);
    const batch = await server.ended('mine', id);
    expect(batch).toMatchObject({
      status: 'completed',
      request_counts: { total: 3, completed: 1, failed: 2 },
    });
    expect((await server.read('mine', batch.output_file_id)).map((line) => line.custom_id)).toEqual(['good']);
    const [bad, streamed] = await server.read('mine', batch.error_file_id);
    expect(bad).toMatchObject({
      custom_id: 'bad',
      error: null,
      response: { status_code: 400, body: { error: { param: 'temperature' } } },
    });
    expect(streamed).toMatchObject({
      custom_id: 'streamed',
      response: { status_code: 400, body: { error: { param: 'stream' } } },
    });
  });
});
