// A process of `bench -- nodes`: one node of a fleet, joined as the program joins it, on a real message system. A worker answers
// without a model, at once; a gateway places requests when it is asked to.

import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { AnswerRequest, RequestEvent } from '#src/engine/request.ts';
import { openBucket, openBucketReader } from '#src/fleet/bucket.ts';
import { type JoinOptions, joinFleet } from '#src/fleet/join.ts';
import { connectNats } from '#src/fleet/nats-bus.ts';
import { openLocalModel } from '#src/pool/local-model.ts';
import { embeddedModelPath } from '#src/pool/model-homes.ts';
import type { ModelEntry, ModelPool } from '#src/pool/model-pool.ts';
import type { ServedModel } from '#src/pool/served-model.ts';
import { nodeClock } from '#src/runtime/clock.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom } from '#src/sampling/random.ts';
import { findEntry } from '#src/server/request/find-model.ts';

export interface Placed {
  /** From the name of a model to the message that gives the request to a worker. */
  readonly placingMs: readonly number[];
  /** To the end of an answer of one token. */
  readonly answeredMs: readonly number[];
}

const PROMPT_TOKENS = 512;
const PAUSE_MS = 5;
const [node = '', role = '', port = '', folder = '', workers = '0'] = process.argv.slice(2);
const onProblem = (problem: string) => process.stderr.write(`${node}: ${problem}\n`);

/** Its text side is what gateways open. */
const path = embeddedModelPath();
const entry: ModelEntry = {
  ...{ name: 'none', aliases: [], path, state: 'loaded', pinned: false },
  ...{ createdSeconds: 1, busy: 0, computedBy: 'nothing' },
};
const engine = {
  async *submit({ id, prompt }: AnswerRequest): AsyncGenerator<RequestEvent, void, void> {
    yield { kind: 'token', id, token: 1 };
    yield {
      ...{ kind: 'finish', id, reason: 'length' },
      ...{ promptTokens: prompt.length, cachedTokens: 0, generatedTokens: 1 },
    };
  },
  cancel: () => {},
};
const model = { name: entry.name, path, engine, blockCount: 4096, direct: false } as unknown as ServedModel;
const acquired = async () => ({ ok: true, lease: { model, release: () => {} } }) as const;
const pool: ModelPool = {
  memoryBytes: 16 * 2 ** 30,
  list: () => [entry],
  loaded: () => [model],
  acquire: acquired,
  load: acquired,
  unload: async () => false,
  close: async () => {},
};

const keys = { of: async () => 'of-no-model' } as unknown as NonNullable<JoinOptions['worker']>['keys'];
const bus = await connectNats(
  { servers: `127.0.0.1:${port}`, name: node },
  { refusal: () => undefined, onProblem },
);
const joined = await joinFleet({
  bus,
  openBucket: (name, limits) => openBucket(bus.connection, name, limits, onProblem),
  readBucket: (name) => openBucketReader(bus.connection, name, onProblem),
  clock: nodeClock,
  randomBytes: (count) => randomBytes(count),
  fleet: 'bench',
  node,
  version: '1.0.0',
  folder,
  worker: role === 'worker' ? { pool, keys, determinism: (by) => by, maxRunning: 64 } : undefined,
  gateway:
    role === 'gateway'
      ? {
          openText: ({ path: copy }) => openLocalModel(copy),
          pins: new Map(),
          archive: { storage: 'memory', maxBytes: 2 ** 26 },
        }
      : undefined,
  onProblem,
});
if (role === 'gateway') {
  while (joined.membership.workers().filter(({ models }) => models.length > 0).length < Number(workers))
    await new Promise((resolve) => setTimeout(resolve, 100));
}
process.on('message', (count: number) => void place(count).then((placed) => process.send?.(placed)));
process.on('disconnect', () => process.exit());
process.send?.('ready');

async function place(count: number): Promise<Placed> {
  const own = joined.pool as ModelPool;
  const validation = validateSampling({ maxTokens: 1 }, { vocabSize: 1000, freshSeed: seedFrom(1n) });
  if (!validation.ok) throw new Error(validation.problem);
  const { parameters } = validation;
  const placingMs: number[] = [];
  const answeredMs: number[] = [];
  for (let i = 0; i < count; i++) {
    const prompt = Int32Array.from(randomBytes(PROMPT_TOKENS));
    const startMs = performance.now();
    const lease = await own.acquire(findEntry(own, entry.name).name);
    if (!lease.ok) throw new Error(lease.message);
    const id = `${node}-${i}-${Buffer.from(randomBytes(4)).toString('hex')}`;
    const events = lease.lease.model.engine.submit({
      ...{ id, prompt, priority: 1, salt: '', account: '', enqueuedMs: Date.now(), parameters },
    });
    placingMs.push(performance.now() - startMs);
    for await (const event of events)
      if (event.kind === 'finish' && event.reason !== 'length') throw new Error(event.reason);
    answeredMs.push(performance.now() - startMs);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return { placingMs, answeredMs };
}
