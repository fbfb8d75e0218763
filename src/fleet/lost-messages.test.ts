// Workers and a gateway over a message system that loses messages and nodes: every answer is whole, and right.

import { randomBytes } from 'node:crypto';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { MemoryWire } from '../../test/support/memory-wire.ts';
import { idleModel } from '../../test/support/node-status.ts';
import { rowOf } from '../../test/support/sampling-requests.ts';
import type { AnswerRequest, EngineRequest, RequestEvent } from '../engine/request.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import { nodeClock } from '../runtime/clock.ts';
import { Subjects } from './bus.ts';
import { FleetNode } from './fleet-node.ts';
import { Dispatcher } from './gateway/dispatcher.ts';
import { ModelTable } from './gateway/model-table.ts';
import type { FoundAnswer } from './gateway/open-answer.ts';
import { RoutedChoice } from './gateway/worker-choice.ts';
import type { Attempt } from './messages.ts';
import { FleetWorker } from './worker/fleet-worker.ts';

const subjects = new Subjects('test');
const nowMs = () => performance.now();
const model = { name: 'm', key: 'k' };

/** What every engine answers: it depends on the prompt and the position alone. */
function tokenAt(prompt: Int32Array, place: number): number {
  return ((prompt[0] as number) * 7919 + place * 104_729) % 50_021;
}

async function* answerOf(
  request: AnswerRequest,
  isCancelled: () => boolean,
): AsyncGenerator<RequestEvent, void, void> {
  const { id, prompt, answer = [] } = request;
  const count = request.parameters.maxTokens ?? 0;
  for (let place = answer.length; place < count && !isCancelled(); place++) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    yield { kind: 'token', id, token: tokenAt(prompt, place) };
  }
  const reason = isCancelled() ? 'cancelled' : 'length';
  yield { kind: 'finish', id, reason, promptTokens: prompt.length, cachedTokens: 0, generatedTokens: count };
}

/** A pool with one model, whose engine only counts. */
function countingPool(onSubmit: (request: EngineRequest) => void): ModelPool {
  const cancelled = new Set<string>();
  const engine = {
    submit: (request: EngineRequest) => {
      onSubmit(request);
      return answerOf(request as AnswerRequest, () => cancelled.has(request.id));
    },
    cancel: (id: string) => cancelled.add(id),
  };
  const lease = { model: { name: 'm', engine, adapter: undefined }, release: () => {} };
  return { acquire: async () => ({ ok: true, lease }) } as unknown as ModelPool;
}

const status = idleModel(model);

const closings: (() => void)[] = [];
afterAll(() => {
  for (const close of closings.splice(0)) close();
});

function startNode(wire: MemoryWire, node: string, role: 'worker' | 'gateway') {
  const bus = wire.bus(node);
  const options = {
    node,
    roles: [role],
    version: '1',
    memoryBytes: 0,
    bus,
    subjects,
    nowMs,
    clock: nodeClock,
    randomBytes,
    onProblem: () => {},
  };
  const self = new FleetNode(options);
  closings.push(() => self.close());
  const common = { node, bus, subjects, nowMs, clock: nodeClock, membership: self.membership };
  return { self, common };
}

function startWorker(
  wire: MemoryWire,
  node: string,
  onSubmit: (request: EngineRequest) => void = () => {},
): FleetWorker {
  const { self, common } = startNode(wire, node, 'worker');
  const worker = new FleetWorker({
    ...common,
    start: self.start,
    pool: countingPool(onSubmit),
    onEnd: () => {},
    onRefused: () => {},
  });
  self.startWorker(
    () => ({ draining: worker.draining, models: [status], heard: Object.fromEntries(worker.heard) }),
    async () => ({ kind: 'answer' }),
  );
  closings.push(() => void worker.close(0));
  self.publishStatus();
  return worker;
}

interface Recovery {
  readonly directory: Map<string, string>;
  readonly find: (worker: string, current: Attempt & { gateway: string }) => FoundAnswer | undefined;
}

function startGateway(wire: MemoryWire, node: string, recovery?: Recovery): Dispatcher {
  const { self, common } = startNode(wire, node, 'gateway');
  const choice = new RoutedChoice({ ...common, models: ModelTable.of(self.membership), ask: self.ask });
  const dispatcher = new Dispatcher({
    ...common,
    choice,
    find: async (worker, current) => recovery?.find(worker, { ...current, gateway: node }),
    directory: recovery && {
      note: (id, worker) => recovery.directory.set(id, worker),
      find: async (id) => recovery.directory.get(id),
    },
  });
  closings.push(() => dispatcher.close());
  self.publishStatus();
  return dispatcher;
}

function requestOf(i: number, maxTokens: number): AnswerRequest {
  return {
    id: `r${i}`,
    prompt: Int32Array.of(i + 1, 2, 3),
    priority: 1,
    salt: '',
    account: '',
    enqueuedMs: Date.now(),
    parameters: rowOf({ maxTokens }, 50_021).parameters,
  };
}

/** A request that no worker has taken is asked again, as a client does after a 503. */
async function tokensOf(dispatcher: Dispatcher, request: AnswerRequest): Promise<number[]> {
  const tokens: number[] = [];
  for await (const event of dispatcher.submit(model, request)) {
    if (event.kind === 'token') tokens.push(event.token);
    else if (event.error?.code === 'no-worker' && tokens.length === 0)
      return tokensOf(dispatcher, { ...request, id: `${request.id}+` });
    else expect(event.reason).toBe('length');
  }
  return tokens;
}

function expectedOf({ prompt, parameters: { maxTokens = 0 } }: AnswerRequest): number[] {
  return Array.from({ length: maxTokens }, (_, place) => tokenAt(prompt, place));
}

function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return (state >>> 8) / 2 ** 24;
  };
}

// Each has a message system of its own, and waits for timers most of the time.
describe.concurrent('a fleet whose messages are lost', () => {
  it.each([0, 0.05, 0.3])(
    'gives every answer whole and in order where %f of them are',
    {
      // On a slow machine nodes are taken for dead again and again.
      timeout: 600_000,
    },
    async (share) => {
      const roll = dice(7);
      const wire = new MemoryWire(() => roll() < share);
      for (const name of ['a', 'b', 'c']) startWorker(wire, name);
      const gateway = startGateway(wire, 'g');
      const requests = Array.from({ length: 12 }, (_, i) => requestOf(i, 60));
      const answers = await Promise.all(requests.map((request) => tokensOf(gateway, request)));
      for (const [i, request] of requests.entries()) expect(answers[i]).toEqual(expectedOf(request));
    },
  );

  it('goes on elsewhere where a worker is cut off, and does not believe it when it is back', async () => {
    const wire = new MemoryWire();
    for (const name of ['a', 'b']) startWorker(wire, name);
    const gateway = startGateway(wire, 'g');
    const requests = Array.from({ length: 8 }, (_, i) => requestOf(i, 2500));
    const answers = Promise.all(requests.map((request) => tokensOf(gateway, request)));
    await new Promise((resolve) => setTimeout(resolve, 1000));
    wire.cut('a');
    await new Promise((resolve) => setTimeout(resolve, 4500));
    wire.mend('a');
    for (const [i, tokens] of (await answers).entries()) {
      expect(tokens).toEqual(expectedOf(requests[i] as AnswerRequest));
    }
  });

  it('sends a request again that did not reach a worker with nothing else to do', async () => {
    const wire = new MemoryWire();
    startWorker(wire, 'a');
    const gateway = startGateway(wire, 'g');
    expect(await tokensOf(gateway, requestOf(0, 1))).toHaveLength(1);
    wire.cut('a');
    const request = requestOf(1, 5);
    const tokens = tokensOf(gateway, request);
    wire.mend('a');
    expect(await tokens).toEqual(expectedOf(request));
  });

  it('tells workers how old a request is, and not what its clock says', async () => {
    const wire = new MemoryWire();
    const engine = { submitted: [] as EngineRequest[] };
    startWorker(wire, 'a', (request) => engine.submitted.push(request));
    const gateway = startGateway(wire, 'g');
    const sent: object[] = [];
    wire.bus('observer').subscribe(subjects.work('a'), (message) => sent.push(message as object));
    const request = { ...requestOf(0, 1), enqueuedMs: Date.now() - 7000 };
    await tokensOf(gateway, request);
    const [{ ageMs = 0, ...submission } = {}] = sent as [{ ageMs?: number; request?: object }];
    expect(ageMs).toBeGreaterThanOrEqual(7000);
    expect(ageMs).toBeLessThan(20_000);
    expect(submission.request).not.toHaveProperty('enqueuedMs');
    // By the clock of the worker.
    expect(Math.abs(Date.now() - 7000 - (engine.submitted[0]?.enqueuedMs ?? 0))).toBeLessThan(13_000);
  });

  it('stops what nobody wants any more', async () => {
    const wire = new MemoryWire();
    const worker = startWorker(wire, 'a');
    const gateway = startGateway(wire, 'g');
    for await (const event of gateway.submit(model, requestOf(0, 100_000))) if (event.kind === 'token') break;
    const endMs = Date.now() + 20_000;
    while (worker.ledger.running().length > 0 && Date.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(worker.ledger.running()).toEqual([]);
  });

  it('answers a request again whose client is back before its leaving was noticed', async () => {
    const wire = new MemoryWire();
    startWorker(wire, 'a');
    const gateway = startGateway(wire, 'g');
    const request = requestOf(0, 300);
    const first = (async () => {
      const reasons: string[] = [];
      for await (const event of gateway.submit(model, request))
        if (event.kind === 'finish') reasons.push(event.reason);
      return reasons;
    })();
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(await tokensOf(gateway, request)).toEqual(expectedOf(request));
    expect(await first).toEqual(['error']);
  });

  it.each([0, 0.3])(
    'tells a gateway whose request another has taken over, though %f of messages are lost',
    async (share) => {
      const roll = dice(11);
      const wire = new MemoryWire(() => roll() < share);
      startWorker(wire, 'a');
      const [first, second] = [startGateway(wire, 'g'), startGateway(wire, 'h')];
      const request = requestOf(0, 2000);
      const ended = (async () => {
        for await (const event of first.submit(model, request))
          if (event.kind === 'finish') return event.error;
        return undefined;
      })();
      // A request that no worker has accepted fails with `no-worker` before the message of the takeover arrives, where many are lost.
      await first.accepted(request.id);
      await new Promise((resolve) => setTimeout(resolve, 500));
      const whole = tokensOf(second, { ...request, takeover: 1 });
      expect(await ended).toMatchObject({ code: 'superseded' });
      expect(await whole).toEqual(expectedOf(request));
    },
  );

  it.each([
    ['runs', 400],
    ['has ended at once', 20],
  ])('asks the worker that has an answer for it, and no other, while it %s', async (_, maxTokens) => {
    const wire = new MemoryWire();
    const computed: number[] = [];
    const note = (request: EngineRequest) => computed.push(request.answer?.length ?? 0);
    const workers = new Map(['a', 'b', 'c'].map((name) => [name, startWorker(wire, name, note)]));
    const asked: string[] = [];
    const recovery: Recovery = {
      directory: new Map(),
      find: (worker, current) => {
        asked.push(worker);
        const entry = workers.get(worker)?.handOver(current);
        return entry && { ...entry, determinism: 'cpu' };
      },
    };
    const [first, second] = ['g', 'h'].map((name) => startGateway(wire, name, recovery)) as [
      Dispatcher,
      Dispatcher,
    ];
    const request = { ...requestOf(0, maxTokens), takeover: 0 };
    const whole = tokensOf(first, request).catch(() => []);
    // On a slow machine one that ends at once is noted before its end.
    if (maxTokens === 20) await whole;
    await vi.waitUntil(() => recovery.directory.size > 0, { timeout: 20_000 });
    expect(await tokensOf(second, { ...request, takeover: 1 })).toEqual(expectedOf(request));
    await whole;
    expect(asked).toEqual([recovery.directory.get(request.id)]);
    // What it had was not computed again.
    expect(computed).toHaveLength(maxTokens === 20 ? 1 : 2);
    expect(computed.slice(1).every((answered) => answered > 0)).toBe(true);
  });

  it('gives what a worker cannot end in time to another', async () => {
    const wire = new MemoryWire();
    const [first, second] = ['a', 'b'].map((name) => startWorker(wire, name)) as [FleetWorker, FleetWorker];
    const gateway = startGateway(wire, 'g');
    const requests = Array.from({ length: 6 }, (_, i) => requestOf(i, 800));
    const answers = Promise.all(requests.map((request) => tokensOf(gateway, request)));
    await new Promise((resolve) => setTimeout(resolve, 1200));
    await (first.ledger.running().length > 0 ? first : second).close(50);
    for (const [i, tokens] of (await answers).entries()) {
      expect(tokens).toEqual(expectedOf(requests[i] as AnswerRequest));
    }
  });
});
