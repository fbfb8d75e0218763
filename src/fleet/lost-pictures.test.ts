// Requests with pictures over a message system that loses messages, and workers that are cut off: every file arrives as it was
// sent, once for all that show it, and what cannot be read is refused.

import { createHash, randomBytes } from 'node:crypto';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { MemoryWire } from '../../test/support/memory-wire.ts';
import { idleModel } from '../../test/support/node-status.ts';
import { rowOf } from '../../test/support/sampling-requests.ts';
import type { AnswerRequest, EngineRequest, FinishEvent, PromptPicture } from '../engine/request.ts';
import { PictureError } from '../images/picture.ts';
import { type MeasuredPicture, pictureKey } from '../images/picture-workers.ts';
import { planViews } from '../images/view-plan.ts';
import type { PreprocessingSpec } from '../model/vision/preprocessing.ts';
import type { VisionSpec } from '../model/vision/vision-spec.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import { nodeClock } from '../runtime/clock.ts';
import { Subjects } from './bus.ts';
import { FleetNode } from './fleet-node.ts';
import { Dispatcher } from './gateway/dispatcher.ts';
import { ModelTable } from './gateway/model-table.ts';
import { RoutedChoice } from './gateway/worker-choice.ts';
import type { ToGateway } from './messages.ts';
import { FleetWorker } from './worker/fleet-worker.ts';
import { WorkerPictures } from './worker/worker-pictures.ts';

const subjects = new Subjects('test');
const nowMs = () => performance.now();
const model = { name: 'm', key: 'k', vision: 'v' };
const size = { width: 8, height: 8 };
const preprocessing: PreprocessingSpec = {
  views: { kind: 'fixed', ...size },
  filter: 'bicubic',
  mean: [0, 0, 0],
  deviation: [1, 1, 1],
};
const vision = { preprocessing } as VisionSpec;
const plan = planViews(preprocessing.views, size);
const DAMAGED = 'damaged';

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** Its views begin with the hash of its file. */
class CountingReader {
  readonly prepared: string[] = [];
  readonly #kept = new Map<string, Uint8Array>();

  kept(hash: string) {
    const rgb = this.#kept.get(hash);
    return rgb && [{ ...size, rgb }];
  }

  async views({ file }: MeasuredPicture) {
    if (Buffer.from(file).subarray(0, DAMAGED.length).toString() === DAMAGED)
      throw new PictureError('the image cannot be decoded');
    const rgb = Buffer.alloc(3 * 64, sha256(file));
    this.prepared.push(sha256(file));
    this.#kept.set(sha256(file), rgb);
    return [{ ...size, rgb }];
  }
}

const status = idleModel(model);

const closings: (() => void)[] = [];
afterAll(() => {
  for (const close of closings.splice(0)) close();
});

function startNode(wire: MemoryWire, node: string, role: 'worker' | 'gateway') {
  const bus = wire.bus(node);
  const common = { node, bus, subjects, nowMs, clock: nodeClock };
  const self = new FleetNode({
    ...common,
    roles: [role],
    version: '1',
    memoryBytes: 0,
    randomBytes,
    onProblem: () => {},
  });
  closings.push(() => self.close());
  return { self, common: { ...common, membership: self.membership } };
}

/** Answers with how many pictures it was shown, and ends. */
function startWorker(wire: MemoryWire, node: string, sees = true) {
  const { self, common } = startNode(wire, node, 'worker');
  const submitted: EngineRequest[] = [];
  const engine = {
    submit: async function* (request: EngineRequest) {
      submitted.push(request);
      yield { kind: 'token', id: request.id, token: request.images?.images.length ?? 0 };
      const counts = { promptTokens: 1, cachedTokens: 0, generatedTokens: 1 };
      yield { kind: 'finish', id: request.id, reason: 'length', ...counts };
    },
    cancel: () => {},
  };
  const lease = { model: { name: 'm', engine, spec: { vision } }, release: () => {} };
  const pool = { acquire: async () => ({ ok: true, lease }) } as unknown as ModelPool;
  const reader = new CountingReader();
  const limits = { maxBytes: 2 ** 25, maxPixels: 1e6 };
  const pictures = new WorkerPictures({ reader, limits, roomBytes: 2 ** 22 }, nodeClock);
  const worker = new FleetWorker({
    ...common,
    start: self.start,
    pool,
    pictures,
    onEnd: () => {},
    onRefused: () => {},
  });
  const { vision: _, ...blind } = status;
  self.startWorker(
    () => ({
      draining: worker.draining,
      models: [sees ? status : blind],
      heard: Object.fromEntries(worker.heard),
    }),
    async () => ({ kind: 'answer' }),
  );
  closings.push(() => void worker.close(0));
  self.publishStatus();
  return { reader, submitted, pictures };
}

function startGateway(wire: MemoryWire, node: string): Dispatcher {
  const { self, common } = startNode(wire, node, 'gateway');
  const choice = new RoutedChoice({ ...common, models: ModelTable.of(self.membership), ask: self.ask });
  const dispatcher = new Dispatcher({
    ...common,
    choice,
    find: async () => undefined,
    directory: undefined,
  });
  closings.push(() => dispatcher.close());
  self.publishStatus();
  return dispatcher;
}

function pictureOf(file: Uint8Array, place = 0): PromptPicture {
  const hash = sha256(file);
  const key = pictureKey(hash, preprocessing, plan);
  return { key, hash, file, size, places: Int32Array.of(place), detail: 'auto', where: `image ${place}` };
}

function requestOf(id: string, files: readonly Uint8Array[]): AnswerRequest {
  return {
    id,
    prompt: new Int32Array(files.length + 1),
    pictures: { images: files.map(pictureOf) },
    priority: 1,
    salt: '',
    account: '',
    enqueuedMs: Date.now(),
    parameters: rowOf({ maxTokens: 1 }, 1000).parameters,
  };
}

interface Outcome {
  readonly tokens: readonly number[];
  readonly finish: FinishEvent | undefined;
}

/** One that no worker has taken is asked again, as a client does after a 503. */
async function outcomeOf(dispatcher: Dispatcher, request: AnswerRequest): Promise<Outcome> {
  const tokens: number[] = [];
  let finish: FinishEvent | undefined;
  for await (const event of dispatcher.submit(model, request)) {
    if (event.kind === 'token') tokens.push(event.token);
    else finish = event;
  }
  if (finish?.error?.code === 'no-worker') {
    return outcomeOf(dispatcher, { ...request, id: `${request.id}+` });
  }
  return { tokens, finish };
}

/** What the engines of all workers were shown. */
const shown = (workers: readonly { submitted: readonly EngineRequest[] }[]) =>
  workers.flatMap(({ submitted }) =>
    submitted.map(({ images }) =>
      images?.images.map(({ input }) => Buffer.from(input.views[0]?.rgb ?? []).toString('latin1', 0, 64)),
    ),
  );

function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return (state >>> 8) / 2 ** 24;
  };
}

describe.concurrent('pictures in a fleet', () => {
  it.each([0, 0.15])(
    'arrive as they were sent where %f of all messages are lost',
    {
      timeout: 600_000,
    },
    async (share) => {
      const roll = dice(3);
      const wire = new MemoryWire(() => roll() < share);
      const workers = ['a', 'b'].map((name) => startWorker(wire, name));
      const gateway = startGateway(wire, 'g');
      const files = [100, 300_000, 600_000].map((bytes) => randomBytes(bytes));
      const requests = [files, files.slice(1, 2), files.slice(0, 2)].map((some, i) =>
        requestOf(`r${i}`, some),
      );
      const outcomes = await Promise.all(requests.map((request) => outcomeOf(gateway, request)));
      expect(outcomes.map(({ tokens }) => tokens)).toEqual([[3], [1], [2]]);
      const expected = requests.map(({ pictures }) => pictures?.images.map(({ hash }) => hash));
      for (const one of expected) expect(shown(workers)).toContainEqual(one);
      for (const { pictures } of workers)
        await vi.waitUntil(() => pictures.usedBytes === 0, { timeout: 60_000 });
    },
  );

  it('are fetched and prepared once for all requests that show them', async () => {
    const wire = new MemoryWire();
    const { reader, submitted } = startWorker(wire, 'a');
    const gateways = ['g', 'h'].map((node) => startGateway(wire, node));
    let asked = 0;
    for (const node of ['g', 'h']) {
      wire.bus('observer').subscribe(subjects.news(node), (message) => {
        asked += Number((message as ToGateway).kind === 'picture');
      });
    }
    const file = randomBytes(500_000);
    await Promise.all(
      gateways.flatMap((gateway, at) =>
        Array.from({ length: 8 }, (_, i) => outcomeOf(gateway, requestOf(`r${at}-${i}`, [file]))),
      ),
    );
    expect(submitted).toHaveLength(16);
    expect(reader.prepared).toEqual([sha256(file)]);
    expect(asked).toBe(1);
  });

  it('are fetched by another worker where the first is cut off in the midst of it', async () => {
    const wire = new MemoryWire();
    const workers = new Map(['a', 'b'].map((name) => [name, startWorker(wire, name)]));
    const gateway = startGateway(wire, 'g');
    // Cut off by its first question, so that nothing of the file reaches it.
    let first: string | undefined;
    wire.bus('observer').subscribe(subjects.news('g'), (message) => {
      const { kind, worker } = message as ToGateway;
      if (kind !== 'picture' || first !== undefined) return;
      first = worker;
      wire.cut(worker);
    });
    const file = randomBytes(3_000_000);
    const { tokens } = await outcomeOf(gateway, requestOf('r', [file]));
    expect(tokens).toEqual([1]);
    expect(first).toBeDefined();
    for (const [name, { submitted }] of workers) expect(submitted).toHaveLength(name === first ? 0 : 1);
  });

  it('are refused by the name of the part where they cannot be read, before anything is accepted', async () => {
    const wire = new MemoryWire();
    startWorker(wire, 'a');
    const gateway = startGateway(wire, 'g');
    const request = requestOf('r', [randomBytes(10), Buffer.from(`${DAMAGED} file`)]);
    let accepted = false;
    const events = gateway.submit(model, request);
    void gateway.accepted('r').then(() => {
      accepted = true;
    });
    const first = await events.next();
    expect(first.value).toMatchObject({
      kind: 'finish',
      error: { code: 'unreadable-picture', parameter: 'image 1', message: 'the image cannot be decoded' },
    });
    expect(accepted).toBe(false);
    expect((await events.next()).done).toBe(true);
  });

  it('go to workers alone that read images as the gateway took them', async () => {
    const wire = new MemoryWire();
    const blind = startWorker(wire, 'a', false);
    const seeing = startWorker(wire, 'b');
    const gateway = startGateway(wire, 'g');
    for (let i = 0; i < 6; i++) {
      expect((await outcomeOf(gateway, requestOf(`r${i}`, [randomBytes(10)]))).tokens).toEqual([1]);
    }
    expect([blind.submitted.length, seeing.submitted.length]).toEqual([0, 6]);
  });

  it('wait for room where others have taken it, and leave none taken', async () => {
    const wire = new MemoryWire();
    const { pictures, submitted } = startWorker(wire, 'a');
    const gateway = startGateway(wire, 'g');
    // Each takes three quarters of the room.
    const files = Array.from({ length: 4 }, () => randomBytes(3 * 2 ** 20));
    let most = 0;
    const looking = setInterval(() => {
      most = Math.max(most, pictures.usedBytes);
    }, 1);
    await Promise.all(files.map((file, i) => outcomeOf(gateway, requestOf(`r${i}`, [file]))));
    clearInterval(looking);
    expect(submitted).toHaveLength(4);
    expect(most).toBeLessThanOrEqual(2 ** 22);
    await vi.waitUntil(() => pictures.usedBytes === 0, { timeout: 60_000 });
  });

  it('are given up with their request, and others go on with what both show', async () => {
    const wire = new MemoryWire();
    const { pictures, submitted } = startWorker(wire, 'a');
    const gateway = startGateway(wire, 'g');
    const file = randomBytes(2_000_000);
    const asked = new Promise<void>((resolve) => {
      wire.bus('observer').subscribe(subjects.news('g'), (message) => {
        if ((message as ToGateway).kind === 'picture') resolve();
      });
    });
    const leaving = outcomeOf(gateway, requestOf('r1', [file]));
    const staying = outcomeOf(gateway, requestOf('r2', [file]));
    await asked;
    gateway.cancel('r1');
    expect((await leaving).finish?.reason).toBe('cancelled');
    expect((await staying).tokens).toEqual([1]);
    expect(submitted).toHaveLength(1);
    await vi.waitUntil(() => pictures.usedBytes === 0, { timeout: 60_000 });
  });
});
