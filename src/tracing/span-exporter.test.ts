// Spans on their way to a collector: whole, and dropped rather than waited for.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Span } from './span.ts';
import { SpanExporter } from './span-exporter.ts';

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

interface Sent {
  readonly body: { resourceSpans: [{ scopeSpans: [{ spans: { name: string }[] }] }] };
  readonly headers: IncomingMessage['headers'];
}

async function collector(answer: (response: ServerResponse, requests: number) => void) {
  const sent: Sent[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    sent.push({ body: JSON.parse(text), headers: request.headers });
    answer(response, sent.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  endings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { sent, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces` };
}

function exporterTo(url: string) {
  const problems: string[] = [];
  const exporter = new SpanExporter({
    url,
    headers: { authorization: 'Bearer x' },
    version: '1',
    resource: { 'service.name': 'chairlift' },
    onProblem: (problem) => problems.push(problem),
  });
  return { exporter, problems };
}

const span = (name: string, changes: Partial<Span> = {}): Span => ({
  context: {
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    isSampled: true,
    state: 'a=1',
  },
  parentId: 'a3ce929d0e0e4736',
  name,
  kind: 'server',
  startMs: 1_795_034_808_123.25,
  endMs: 1_795_034_808_124.5,
  attributes: { text: 'x', whole: 3, part: 0.5, is: true, list: ['a', 'b'], none: undefined },
  ...changes,
});

const namesIn = (sent: readonly Sent[]) =>
  sent.flatMap(({ body }) => body.resourceSpans[0].scopeSpans[0].spans.map(({ name }) => name));

describe('an exporter of spans', () => {
  it('sends them as OTLP has them in JSON', async () => {
    const { sent, url } = await collector((response) => response.end('{}'));
    const { exporter } = exporterTo(url);
    exporter.add(span('one', { error: 'engine_failed' }));
    await exporter.close();
    expect(sent[0]?.headers).toMatchObject({ authorization: 'Bearer x', 'content-type': 'application/json' });
    expect(sent[0]?.body.resourceSpans[0]).toEqual({
      resource: { attributes: [{ key: 'service.name', value: { stringValue: 'chairlift' } }] },
      scopeSpans: [
        {
          scope: { name: 'chairlift', version: '1' },
          spans: [
            {
              traceId: '0af7651916cd43dd8448eb211c80319c',
              spanId: 'b7ad6b7169203331',
              traceState: 'a=1',
              parentSpanId: 'a3ce929d0e0e4736',
              flags: 1,
              name: 'one',
              kind: 2,
              startTimeUnixNano: '1795034808123250000',
              endTimeUnixNano: '1795034808124500000',
              attributes: [
                { key: 'text', value: { stringValue: 'x' } },
                { key: 'whole', value: { intValue: '3' } },
                { key: 'part', value: { doubleValue: 0.5 } },
                { key: 'is', value: { boolValue: true } },
                {
                  key: 'list',
                  value: { arrayValue: { values: [{ stringValue: 'a' }, { stringValue: 'b' }] } },
                },
                { key: 'error.type', value: { stringValue: 'engine_failed' } },
              ],
              status: { code: 2 },
            },
          ],
        },
      ],
    });
    expect(exporter.counts).toEqual({ exported: 1, dropped: 0 });
  });

  it('sends again what a busy collector did not take', async () => {
    const { sent, url } = await collector((response, requests) => {
      response.statusCode = requests === 1 ? 503 : 200;
      response.end('{}');
    });
    const { exporter, problems } = exporterTo(url);
    for (let i = 0; i < 128; i++) exporter.add(span(`${i}`));
    while (exporter.counts.exported < 128) await new Promise((resolve) => setTimeout(resolve, 20));
    await exporter.close();
    expect(namesIn(sent.slice(1))).toEqual(Array.from({ length: 128 }, (_, i) => `${i}`));
    expect(problems).toEqual([
      expect.stringMatching(/^traces cannot be sent to http:\/\/127\.0\.0\.1:\d+: answers 503$/),
    ]);
    expect(exporter.counts.dropped).toBe(0);
  });

  it('counts what a collector refuses, wholly or in part', async () => {
    const { url } = await collector((response, requests) => {
      response.statusCode = requests === 1 ? 400 : 200;
      response.end(JSON.stringify({ partialSuccess: { rejectedSpans: '2' } }));
    });
    const { exporter } = exporterTo(url);
    for (let i = 0; i < 128 + 5; i++) exporter.add(span(`${i}`));
    await exporter.close();
    expect(exporter.counts).toEqual({ exported: 3, dropped: 128 + 2 });
  });

  it('drops what a collector that says nothing leaves no room for, and ends without it', async () => {
    const { url } = await collector(() => {});
    const { exporter } = exporterTo(url);
    for (let i = 0; i < 10_000; i++) exporter.add(span(`${i}`));
    expect(exporter.counts.dropped).toBeGreaterThan(5000);
    await exporter.close();
    expect(exporter.counts).toEqual({ exported: 0, dropped: 10_000 });
  });

  it('holds nobody up where no collector is there', async () => {
    const { url } = await collector(() => {});
    for (const end of endings.splice(0)) await end();
    const { exporter, problems } = exporterTo(url);
    exporter.add(span('one'));
    await exporter.close();
    expect(exporter.counts).toEqual({ exported: 0, dropped: 1 });
    expect(problems).toEqual([
      expect.stringMatching(/traces cannot be sent to http:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED/),
    ]);
  });
});
