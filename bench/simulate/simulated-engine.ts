// A worker's pool with one model and one engine, as the fleet's real worker sees them: the engine's own scheduler and caches,
// with a clock that advances by what steps cost.

import { statSync } from 'node:fs';
import type { EngineMonitor, EngineSubscriber } from '#src/engine/engine-monitor.ts';
import type { AnswerRequest, RequestEvent } from '#src/engine/request.ts';
import { RequestStreams } from '#src/engine/request-streams.ts';
import { embeddedModelPath } from '#src/pool/model-homes.ts';
import type { ModelEntry, ModelPool } from '#src/pool/model-pool.ts';
import type { ServedModel } from '#src/pool/served-model.ts';
import type { EventQueue } from './event-queue.ts';
import { SimulatedWorker, type WorkerShape } from './simulated-worker.ts';
import type { Turn } from './traffic.ts';

/** Its text side is what gateways open; nothing is computed with it. */
const MODEL_FILE = embeddedModelPath();
export const MODEL_NAME = 'simulated';

interface Running {
  readonly id: string;
  readonly turn: Turn;
  given: number;
}

class SimulatedEngine {
  readonly #worker: SimulatedWorker;
  readonly #streams = new RequestStreams();
  readonly #running = new Map<number, Running>();
  readonly #subscribers = new Set<EngineSubscriber>();
  readonly #turnOf: (id: string) => Turn;
  readonly #events: EventQueue;
  readonly #wallMs: (simulatedMs: number) => number;
  #numbers = 0;
  #steps = 0;

  constructor(
    shape: WorkerShape,
    events: EventQueue,
    turnOf: (id: string) => Turn,
    wallMs: (simulatedMs: number) => number,
  ) {
    this.#events = events;
    this.#turnOf = turnOf;
    this.#wallMs = wallMs;
    this.#worker = new SimulatedWorker(shape, events, {
      onAdmitted: () => {},
      onFirstToken: () => {},
      onToken: (id, token) => this.#deliver(id, (one) => ({ kind: 'token', id: one.id, token })),
      onEnd: (id) => this.#end(id),
      onStep: (plan, stepMs) => {
        this.#steps += 1;
        const step = {
          step: this.#steps,
          tokens: plan.load.tokens,
          sequences: plan.items.length,
          admitted: [],
          preempted: [],
          finished: [],
          times: { scheduleMs: 0, computeMs: stepMs, sampleMs: 0, emitMs: 0 },
        };
        for (const one of this.#subscribers) {
          one.step?.(step, []);
          one.blocks?.(this.#worker.blocks);
          const news = one.prefixes && this.#worker.takeCacheChange();
          if (news !== undefined) one.prefixes?.({ kind: 'change', ...news });
        }
      },
    });
  }

  readonly monitor: EngineMonitor = {
    starts: 1,
    subscribe: (subscriber) => {
      this.#subscribers.add(subscriber);
      return {
        snapshot: () => Promise.reject(new Error('nothing is computed')),
        resendPrefixes: () =>
          this.#events.at(this.#events.nowMs, () =>
            subscriber.prefixes?.({ kind: 'all', keys: this.#worker.cachedKeys() }),
          ),
        end: () => this.#subscribers.delete(subscriber),
      };
    },
  };

  submit(request: AnswerRequest): AsyncGenerator<RequestEvent, void, void> {
    const { id, prompt, answer = [], priority, enqueuedMs } = request;
    const turn = this.#turnOf(id);
    const number = ++this.#numbers;
    const events = this.#streams.open(id, () => {});
    this.#running.set(number, { id, turn, given: 0 });
    this.#worker.submit({
      id: number,
      gateway: 0,
      tokens: turn.conversation.tokens,
      promptTokens: prompt.length + answer.length,
      answerTokens: turn.answerTokens - answer.length,
      priority,
      enqueuedMs: enqueuedMs - this.#wallMs(0),
    });
    return events;
  }

  #end(number: number): void {
    this.#deliver(number, ({ id, turn, given }) => ({
      kind: 'finish',
      id,
      reason: 'length',
      promptTokens: turn.promptTokens,
      cachedTokens: 0,
      generatedTokens: given,
    }));
    this.#running.delete(number);
  }

  #deliver(number: number, eventOf: (one: Running) => RequestEvent): void {
    const one = this.#running.get(number);
    if (one === undefined) return;
    one.given += 1;
    this.#streams.deliver([eventOf(one)]);
  }
}

export function simulatedPool(
  shape: WorkerShape,
  events: EventQueue,
  turnOf: (id: string) => Turn,
  wallMs: (simulatedMs: number) => number,
): ModelPool {
  const engine = new SimulatedEngine(shape, events, turnOf, wallMs);
  const served = { name: MODEL_NAME, path: MODEL_FILE, engine, blockCount: shape.blocks, direct: false };
  const model = served as unknown as ServedModel;
  const entry: ModelEntry = {
    name: MODEL_NAME,
    aliases: ['small'],
    path: MODEL_FILE,
    state: 'loaded',
    pinned: false,
    createdSeconds: 1_795_000_000,
    memoryBytes: statSync(MODEL_FILE).size,
    busy: 0,
    computedBy: 'C++ on AVX-512 (AMX, VNNI)',
  };
  const acquired = async () => ({ ok: true, lease: { model, release: () => {} } }) as const;
  return {
    memoryBytes: 16 * 2 ** 30,
    list: () => [entry],
    loaded: () => [model],
    acquire: acquired,
    load: acquired,
    unload: async () => false,
    close: async () => {},
  };
}
