// The spans of requests that a real model answers: what clients began goes on, and nothing of a prompt is in them.

import { afterAll, describe, expect, it } from 'vitest';
import { messages, sharedServer } from '../../../test/support/keyed-server.ts';
import type { Span } from '../../tracing/span.ts';
import { Tracer } from '../../tracing/tracer.ts';

const spans: Span[] = [];
const tracer = new Tracer({ add: (span) => spans.push(span) }, 1);
const { post } = sharedServer({ tracer });
afterAll(() => spans.splice(0));

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parentId = 'b7ad6b7169203331';
const parent = (flags: string) => ({ traceparent: `00-${traceId}-${parentId}-${flags}`, tracestate: 'a=1' });

async function spansOf(body: object, headers = {}, url = '/v1/chat/completions'): Promise<Span[]> {
  spans.splice(0);
  const response = await post(url, body, headers);
  expect(response.statusCode, response.body).toBe(200);
  return spans.splice(0);
}

describe('the spans of an answer', () => {
  it('are parts of the client’s trace: the request, its queue, its prompt and its tokens', async () => {
    const [request, ...phases] = await spansOf({ messages, max_tokens: 5 }, parent('01'));
    expect(request).toMatchObject({
      parentId,
      name: expect.stringMatching(/^chat /),
      kind: 'server',
      attributes: {
        'http.route': '/v1/chat/completions',
        'gen_ai.operation.name': 'chat',
        'gen_ai.usage.output_tokens': 5,
        'gen_ai.response.finish_reasons': ['length'],
        'chairlift.outcome': 'ok',
      },
    });
    expect(phases.map(({ name }) => name)).toEqual(['queue', 'prefill', 'decode']);
    for (const one of phases) expect(one.parentId).toBe(request?.context.spanId);
    for (const { context } of [request as Span, ...phases])
      expect(context).toMatchObject({ traceId, isSampled: true, state: 'a=1' });
    const [start, end] = [request?.startMs ?? 0, request?.endMs ?? 0];
    for (const { startMs, endMs } of phases) {
      expect(startMs).toBeGreaterThanOrEqual(start);
      expect(endMs).toBeGreaterThanOrEqual(startMs);
      expect(endMs).toBeLessThanOrEqual(end + 1);
    }
    expect(Math.abs(end - Date.now())).toBeLessThan(60_000);
  });

  it('have nothing of what was asked and answered', async () => {
    const secret = 'a-word-that-nobody-else-says';
    const all = await spansOf({ messages: [{ role: 'user', content: secret }], max_tokens: 5 });
    expect(all.length).toBe(4);
    expect(JSON.stringify(all)).not.toContain(secret);
  });

  it('are not taken where the client takes none', async () => {
    expect(await spansOf({ messages, max_tokens: 2 }, parent('00'))).toEqual([]);
  });

  it('name what other protocols do', async () => {
    const names = async (body: object, url: string) => (await spansOf(body, {}, url))[0]?.name;
    expect(await names({ prompt: 'Once', max_tokens: 2 }, '/v1/completions')).toMatch(/^text_completion /);
    expect(await names({ messages, max_tokens: 2, model: 'default' }, '/v1/messages')).toMatch(/^chat /);
  });
});
