// `npm run bench -- viewers [MODEL.gguf]`: what it costs streams that others look on. Sixteen streams decode on a server of
// their own while nobody, one and fifty look at /live, in turns; medians of tokens a second, and of what is lost to nobody
// looking in the same turn. All on this machine: what readers of streams and of /live take counts as a loss, too. Where the
// machine is not quiet, the processor time of the server and of its engine's event loop tells more, where the system tells
// it (Linux). Ends in one JSON line.

import { once, setMaxListeners } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { Agent, type ClientRequest, get, type IncomingMessage } from 'node:http';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { median } from '#src/bench/statistics.ts';
import { writeGguf } from '#src/bench/write-gguf.ts';
import { print, report } from './harness.ts';
import { generated, keepStreaming, type StreamedServer, startServer, stopServer } from './streamed-server.ts';

const STREAMS = 16;
const VIEWERS = [0, 1, 50] as const;
const TURNS = 7;
const WINDOW_MS = 3000;
const SETTLE_MS = 500;
/** A quarter of the model's layers: steps are short, so that the share of viewers is large. */
const LAYERS = 4;

async function open({ url, headers }: StreamedServer): Promise<ClientRequest> {
  const viewer = get(`${url}/live`, { headers, agent: false });
  viewer.on('error', () => {});
  const [response] = (await once(viewer, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`/live answered ${response.statusCode}`);
  response.on('error', () => {}).resume();
  return viewer;
}

/** Undefined where the system does not report it. */
function threadTimeNs(pid: number, which: 'all' | 'first'): number | undefined {
  try {
    const threads = which === 'all' ? readdirSync(`/proc/${pid}/task`) : [pid];
    return threads.reduce<number>(
      (sum, id) => sum + Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]),
      0,
    );
  } catch {
    return undefined;
  }
}

function childOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]);
}

/** Of the server, and of the engine's thread that talks to it. */
function processorTimeNs(pid: number): number | undefined {
  const server = threadTimeNs(pid, 'all');
  const engine = server === undefined ? undefined : threadTimeNs(childOf(pid), 'first');
  return server === undefined || engine === undefined ? undefined : server + engine;
}

interface Measured {
  readonly tokensPerSecond: number;
  readonly processorShare: number | undefined;
}

async function measure(server: StreamedServer, viewers: number): Promise<Measured> {
  const watching = await Promise.all(Array.from({ length: viewers }, () => open(server)));
  await sleep(SETTLE_MS);
  const pid = server.child.pid as number;
  const before = { ...(await generated(server)), ns: processorTimeNs(pid) };
  await sleep(WINDOW_MS);
  const after = { ...(await generated(server)), ns: processorTimeNs(pid) };
  for (const viewer of watching) viewer.destroy();
  const ms = after.atMs - before.atMs;
  return {
    tokensPerSecond: ((after.tokens - before.tokens) * 1000) / ms,
    processorShare:
      before.ns === undefined || after.ns === undefined
        ? undefined
        : (after.ns - before.ns) / (1e6 * ms * availableParallelism()),
  };
}

async function run(server: StreamedServer): Promise<void> {
  const ending = new AbortController();
  setMaxListeners(0, ending.signal);
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  const { signal } = ending;
  for (let number = 0; number < STREAMS; number++)
    keepStreaming(server, { prompt: `Story ${number}`, tokens: 8000, agent, signal });
  await measure(server, 0);
  const measured = new Map<number, Measured[]>(VIEWERS.map((count) => [count, []]));
  for (let turn = 0; turn < TURNS; turn++) {
    // Each comes first in turn: contexts grow, and steps with them.
    const order = VIEWERS.map((_, i) => VIEWERS[(i + turn) % VIEWERS.length] as number);
    for (const count of order) measured.get(count)?.push(await measure(server, count));
    const speeds = VIEWERS.map(
      (count) => `${count}: ${measured.get(count)?.at(-1)?.tokensPerSecond.toFixed(1)}`,
    );
    print(`turn ${turn + 1}, tokens/s: ${speeds.join('  ')}`);
  }
  ending.abort();
  const results = VIEWERS.map((viewers) =>
    figures(viewers, measured.get(viewers) ?? [], measured.get(0) ?? []),
  );
  print('viewers | tokens/s | lost | processor time of server and event loop beyond that of nobody looking');
  for (const { viewers, tokensPerSecond, lostShare, extraProcessorShare } of results) {
    print(
      `${viewers} | ${tokensPerSecond.toFixed(1)} | ${percent(lostShare)} | ${percent(extraProcessorShare)}`,
    );
  }
  report('viewers', { streams: STREAMS, turns: TURNS, windowMs: WINDOW_MS, results });
}

function figures(viewers: number, own: readonly Measured[], alone: readonly Measured[]) {
  const pairs = own.map((one, turn) => [one, alone[turn] as Measured] as const);
  const lost = pairs.map(([one, other]) => 1 - one.tokensPerSecond / other.tokensPerSecond);
  const extra = pairs.flatMap(([one, other]) =>
    one.processorShare === undefined || other.processorShare === undefined
      ? []
      : one.processorShare - other.processorShare,
  );
  return {
    viewers,
    tokensPerSecond: median(own.map(({ tokensPerSecond }) => tokensPerSecond)),
    lostShare: median(lost),
    extraProcessorShare: median(extra),
  };
}

function percent(share: number): string {
  return Number.isNaN(share) ? 'not told' : `${(100 * share).toFixed(2)} %`;
}

const folder = mkdtempSync(join(tmpdir(), 'viewers-'));
let server: StreamedServer | undefined;
try {
  let [, , model] = process.argv;
  if (model === undefined) {
    model = join(folder, 'dummy.gguf');
    await writeGguf(dummyModel('llama-3.2-1b', 'Q4_0', LAYERS), model, () => {});
  }
  server = await startServer(folder, ['--model', model]);
  await run(server);
} finally {
  if (server !== undefined) await stopServer(server);
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
