// A trace through a fleet on a real NATS server: from the client over the gateway to the worker's steps, and on to an upstream.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { natsRefusal } from '../support/nats-server.ts';
import { ServerHome, type ServerProcess, waitUntil } from '../support/server-process.ts';
import { SmallFleet } from '../support/small-fleet.ts';

const refusal = natsRefusal();
const because = refusal === undefined ? '' : ` (${refusal})`;

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly node: string;
  readonly attributes: readonly { readonly key: string; readonly value: { readonly intValue?: string } }[];
}

interface Sent {
  readonly resourceSpans: {
    readonly resource: { readonly attributes: { key: string; value: { stringValue: string } }[] };
    readonly scopeSpans: { readonly spans: SentSpan[] }[];
  }[];
}

describe.skipIf(refusal !== undefined)(`a trace${because}`, () => {
  const spans: SentSpan[] = [];
  const collector = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    for (const { resource, scopeSpans } of (JSON.parse(text) as Sent).resourceSpans) {
      const node =
        resource.attributes.find(({ key }) => key === 'service.instance.id')?.value.stringValue ?? '';
      for (const one of scopeSpans) spans.push(...one.spans.map((span) => ({ ...span, node })));
    }
    response.end('{}');
  });
  let fleet: SmallFleet;
  let gateway: ServerProcess;
  let front: ServerProcess;
  const home = new ServerHome();

  beforeAll(async () => {
    await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
    const { port } = collector.address() as AddressInfo;
    const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` };
    fleet = await SmallFleet.start();
    await fleet.worker('w1', { environment });
    gateway = await fleet.gateway('g1', { environment });
    await fleet.knows(gateway, 'w1');
    home.environment = { ...environment, CHAIRLIFT_NODE: 'front' };
    const upstreams = [
      {
        name: 'fleet',
        url: `${gateway.url}/v1`,
        models: [{ name: 'chairlift-demo-14m-q8_0', as: 'far' }],
      },
    ];
    front = await home.start('--upstreams', JSON.stringify(upstreams), '--threads', '1');
  });

  afterAll(async () => {
    await home.close();
    await fleet?.stop();
    collector.close();
  });

  it('goes from a client through an upstream’s gateway to the steps of its worker', async () => {
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const response = await fetch(`${front.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', traceparent: `00-${traceId}-b7ad6b7169203331-01` },
      body: JSON.stringify({ model: 'far', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 }),
    });
    expect(response.status, await response.text()).toBe(200);
    const own = () => spans.filter((one) => one.traceId === traceId);
    await waitUntil(() => own().length >= 7);
    const chain: string[] = [];
    let above = 'b7ad6b7169203331';
    for (;;) {
      const below = own().filter(({ parentSpanId }) => parentSpanId === above);
      if (below.length !== 1) {
        expect(below.map(({ name }) => name).sort()).toEqual(['decode', 'prefill', 'queue']);
        break;
      }
      const [{ name, node, spanId }] = below as [SentSpan];
      chain.push(`${name.split(' ')[0]} ${node.replace(/.*:\d+$/, 'front')}`);
      above = spanId;
    }
    expect(chain).toEqual(['chat front', 'chat front', 'chat g1', 'compute w1']);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(metrics).toMatch(/chairlift_trace_spans_total\{outcome="exported"\} [1-9]/);
  });

  it('says where a gateway expected the prompt to lie', async () => {
    const prompt = 'The bell of the village rang once more over the quiet hills. '.repeat(12);
    const expectedOf = async (traceId: string) => {
      const response = await fetch(`${gateway.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', traceparent: `00-${traceId}-b7ad6b7169203331-01` },
        body: JSON.stringify({ prompt, max_tokens: 4 }),
      });
      expect(response.status, await response.text()).toBe(200);
      const compute = () =>
        spans.find((one) => one.traceId === traceId && one.name.startsWith('compute')) as SentSpan;
      await waitUntil(() => compute() !== undefined);
      return ['memory', 'host', 'disk'].map((tier) => {
        const name = `chairlift.expected.${tier}_tokens`;
        return Number(compute().attributes.find(({ key }) => key === name)?.value.intValue);
      });
    };
    expect(await expectedOf('1af7651916cd43dd8448eb211c80319c')).toEqual([0, 0, 0]);
    const [memory, ...below] = await expectedOf('2af7651916cd43dd8448eb211c80319c');
    expect(memory).toBeGreaterThanOrEqual(64);
    expect(below).toEqual([0, 0]);
  });
});
