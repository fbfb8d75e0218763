// `npm run bench -- tracing`: what traces cost a server. Sixteen clients ask the embedded model again and again; in turns their
// traceparent has them traced or not, so that both are the same server a moment apart. Traces go to a collector in this process.
// Medians over the turns of what server and engine take of the processor for a request, and of requests a second. Turns of a busy
// machine differ by more than traces cost; so the spans of a request are also made and written by themselves, again and again:
// their share of a request's processor time is what traces cost, but for sending them. Ends in one JSON line.

import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median } from '#src/bench/statistics.ts';
import type { TokenUsage } from '#src/generation/answer-source.ts';
import { AnswerSpan } from '#src/server/request/answer-span.ts';
import { otlpBody } from '#src/tracing/otlp.ts';
import type { Span } from '#src/tracing/span.ts';
import { Tracer } from '#src/tracing/tracer.ts';
import { giveUp, print, report } from './harness.ts';
import { type StreamedServer, startServer, stopServer } from './streamed-server.ts';

const CLIENTS = 16;
const TURNS = 20;
const REQUESTS = 96;
const TOKENS = 64;
/** Requests whose spans are made by themselves. */
const SPANNED = 5000;

interface Measured {
  readonly processorMs: number;
  readonly requestsPerSecond: number;
}

/** Of the server and its engine. */
function processorMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`).map((id) => `/proc/${pid}/task/${id}`);
  const engines = threads.flatMap((path) =>
    readFileSync(`${path}/children`, 'utf8').split(' ').filter(Boolean),
  );
  const ns = (path: string) => Number(readFileSync(`${path}/schedstat`, 'utf8').split(' ')[0]);
  const own = threads.reduce((sum, path) => sum + ns(path), 0) / 1e6;
  return engines.reduce((sum, engine) => sum + processorMs(Number(engine)), own);
}

/** Of one request's spans, made and written. */
function spansMs(): number {
  const spans: Span[] = [];
  const tracer = new Tracer({ add: (span) => spans.push(span) }, 1);
  const asked = { headers: {}, id: 'req_1', method: 'POST', routeOptions: { url: '/v1/completions' } };
  const usage = { promptTokens: 10, cachedTokens: 0, completionTokens: TOKENS } as TokenUsage;
  const startMs = performance.now();
  for (let i = 0; i < SPANNED; i++) {
    const span = new AnswerSpan(tracer, asked);
    const nowMs = Date.now();
    span.end({
      ...{ kind: 'completion', answerId: `cmpl-${i}`, model: 'chairlift-demo-14m-q8_0', upstream: undefined },
      ...{ isComputedHere: true, startMs: nowMs, submittedMs: nowMs + 1, admittedMs: nowMs + 2 },
      ...{
        firstTokenMs: nowMs + 9,
        endMs: nowMs + 99,
        usage,
        reasons: ['length'],
        outcome: 'ok',
        failed: false,
      },
    });
    if (spans.length >= 128) JSON.stringify(otlpBody({ resource: {}, version: '1' }, spans.splice(0)));
  }
  return (performance.now() - startMs) / SPANNED;
}

function ask(
  { url, headers }: StreamedServer,
  agent: Agent,
  number: number,
  isTraced: boolean,
): Promise<void> {
  const traceparent = `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-${isTraced ? '01' : '00'}`;
  const body = { prompt: `Story ${number % 32}`, max_tokens: TOKENS, ignore_eos: true, stream: true };
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/v1/completions`, {
      method: 'POST',
      agent,
      headers: { ...headers, 'content-type': 'application/json', traceparent },
    });
    sent.on('response', (response) => response.resume().on('end', resolve).on('error', reject));
    sent.on('error', reject).end(JSON.stringify(body));
  });
}

async function measure(server: StreamedServer, agent: Agent, isTraced: boolean): Promise<Measured> {
  const pid = server.child.pid as number;
  const [startMs, beforeMs] = [performance.now(), processorMs(pid)];
  let number = 0;
  const client = async () => {
    while (number < REQUESTS) await ask(server, agent, number++, isTraced);
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  // Spans are sent once a second.
  const tookMs = performance.now() - startMs;
  await new Promise((resolve) => setTimeout(resolve, 1200));
  return {
    processorMs: (processorMs(pid) - beforeMs) / REQUESTS,
    requestsPerSecond: (1000 * REQUESTS) / tookMs,
  };
}

async function run(server: StreamedServer, spans: () => number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
  for (const isTraced of [true, false]) await measure(server, agent, isTraced);
  const pairs: { readonly traced: Measured; readonly plain: Measured }[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const first = await measure(server, agent, turn % 2 === 0);
    const second = await measure(server, agent, turn % 2 !== 0);
    const pair = turn % 2 === 0 ? { traced: first, plain: second } : { traced: second, plain: first };
    pairs.push(pair);
    const { traced, plain } = pair;
    print(
      `turn ${turn + 1}: ${traced.processorMs.toFixed(2)} ms a request traced, ${plain.processorMs.toFixed(2)} not`,
    );
  }
  agent.destroy();
  spansMs();
  const spanMs = median(Array.from({ length: 9 }, spansMs));
  const plainMs = median(pairs.map(({ plain }) => plain.processorMs));
  const ratio = (of: (one: Measured) => number) =>
    median(pairs.map(({ traced, plain }) => of(traced) / of(plain)));
  report('tracing', {
    turns: TURNS,
    requests: REQUESTS,
    tokens: TOKENS,
    spans: spans(),
    processorMs: plainMs,
    spansMs: spanMs,
    spansShare: spanMs / plainMs,
    processorRatio: ratio(({ processorMs: ms }) => ms),
    requestsRatio: ratio(({ requestsPerSecond }) => requestsPerSecond),
  });
}

if (process.platform !== 'linux') giveUp('the processor time of a process is read as Linux tells it');
const folder = mkdtempSync(join(tmpdir(), 'tracing-'));
let spans = 0;
const collector = createServer(async (incoming, response) => {
  let text = '';
  for await (const chunk of incoming) text += chunk;
  spans += text.split('"spanId"').length - 1;
  response.end('{}');
});
let server: StreamedServer | undefined;
try {
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  const { port } = collector.address() as AddressInfo;
  server = await startServer(folder, ['--otlp-endpoint', `http://127.0.0.1:${port}`, '--threads', '1']);
  await run(server, () => spans);
} finally {
  if (server !== undefined) await stopServer(server);
  collector.closeAllConnections();
  collector.close();
  rmSync(folder, { recursive: true, force: true });
}
