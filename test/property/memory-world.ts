// Engines that share a memory budget, moved message by message: the real pool memory and the real engine loops over a
// backend of hashes, with a queue for each direction between them. The caller decides what happens next, so that
// every order of messages can be tried.

import type { Batch, StepResult } from '../../src/compute/backend.ts';
import { Engine } from '../../src/engine/engine.ts';
import type { EngineSubscriber } from '../../src/engine/engine-monitor.ts';
import { handleCommand, type ToEngine } from '../../src/engine/protocol.ts';
import type { EngineRequest } from '../../src/engine/request.ts';
import { unloadedError } from '../../src/engine/request-errors.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import type { BlockDemand } from '../../src/engine/scheduler/stats.ts';
import type { StepReport } from '../../src/engine/step-report.ts';
import type { ModelMemory } from '../../src/pool/model-memory.ts';
import { PoolMemory } from '../../src/pool/pool-memory.ts';
import { UnfinishedRequests } from '../../src/pool/unfinished-requests.ts';
import { validateSampling } from '../../src/sampling/parameters.ts';
import { END_TOKEN, HashBackend, VOCABULARY } from './hash-backend.ts';

const WEIGHTS = 1000;
const STEP_TOKENS = 64;

export interface WorldRequest {
  readonly model: number;
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly enqueuedMs: number;
  /** Its client may leave at any moment. */
  readonly leaves?: boolean;
}

export interface Scene {
  readonly models: number;
  /** KV blocks that all models share. */
  readonly blocks: number;
  readonly firstBlocks: number;
  readonly requests: readonly WorldRequest[];
}

/** What may happen next. */
export type Move =
  /** The engine of a model hears what the pool said first. */
  | `hear ${number}`
  /** Its step is computed. */
  | `compute ${number}`
  /** The pool hears what the engine said first. */
  | `tell ${number}`
  /** A client leaves. */
  | `leave ${number}`;

export class MemoryWorld {
  readonly #scene: Scene;
  readonly #places: readonly Place[];
  readonly #left = new Set<number>();

  private constructor(scene: Scene) {
    this.#scene = scene;
    const budget = scene.models * WEIGHTS + scene.blocks;
    const memory: ModelMemory = {
      kvType: 'f16',
      weightBytes: WEIGHTS,
      blockBytes: 1,
      blockCount: scene.blocks,
      firstBlocks: scene.firstBlocks,
      fixed: false,
    };
    const pool = new PoolMemory(budget, {
      standing: (name) => ({
        state: 'loaded',
        unloadable: false,
        pinned: false,
        lastUsed: 0,
        oldestMs: this.#places[Number(name)]?.unfinished.oldestMs,
      }),
      waiting: () => ({ sinceMs: 0, background: false, atOnce: true }),
      unload: () => {
        throw new Error('nothing is idle');
      },
      close: () => {},
    });
    this.#places = Array.from({ length: scene.models }, () => new Place(memory));
    for (const [at, place] of this.#places.entries()) {
      void pool.claim(String(at), memory);
      pool.attach(String(at), place);
    }
    for (const [n, request] of scene.requests.entries())
      this.#places[request.model]?.submit(asEngineRequest(request, n));
  }

  static async open(scene: Scene, moves: readonly Move[] = []): Promise<MemoryWorld> {
    const world = new MemoryWorld(scene);
    await settled();
    for (const move of moves) await world.#move(move);
    return world;
  }

  get unfinished(): number {
    return this.#places.reduce((sum, { unfinished }) => sum + unfinished.size, 0);
  }

  moves(): Move[] {
    const moves: Move[] = [];
    for (const [at, place] of this.#places.entries()) {
      if (place.toEngine.length > 0) moves.push(`hear ${at}`);
      if (place.backend.computing) moves.push(`compute ${at}`);
      if (place.toPool.length > 0) moves.push(`tell ${at}`);
    }
    for (const [n, { leaves, model }] of this.#scene.requests.entries())
      if (leaves && !this.#left.has(n) && this.#places[model]?.unfinished.has(String(n)))
        moves.push(`leave ${n}`);
    return moves;
  }

  /** With every check afterwards. */
  async make(move: Move): Promise<void> {
    await this.#move(move);
    for (const { engine, backend } of this.#places) if (!backend.computing) checkIntegrity(engine.scheduler);
    const held = this.#places.reduce(
      (sum, { engine }) => sum + engine.scheduler.tables.pool.residentCount,
      0,
    );
    if (held > this.#scene.blocks) throw new Error(`${held} blocks are held, of ${this.#scene.blocks}`);
  }

  async #move(move: Move): Promise<void> {
    const [kind, number] = move.split(' ');
    const at = Number(number);
    if (kind === 'leave') {
      this.#left.add(at);
      this.#places[this.#scene.requests[at]?.model as number]?.toEngine.push({
        kind: 'cancel',
        ids: [String(at)],
      });
      return;
    }
    const place = this.#places[at] as Place;
    if (kind === 'hear') place.hear();
    else if (kind === 'compute') place.backend.finish();
    else place.tell();
    await settled();
  }

  /** All that can matter for what happens later. */
  get state(): string {
    return JSON.stringify([this.#places.map((place) => place.state), [...this.#left]]);
  }

  async close(): Promise<void> {
    for (const place of this.#places) place.close();
    await settled();
  }
}

/** A model's engine, and what is on its way between it and the pool. */
class Place {
  readonly toEngine: ToEngine[] = [];
  readonly toPool: StepReport[] = [];
  readonly unfinished = new UnfinishedRequests();
  readonly backend: GatedBackend;
  readonly engine: Engine;
  readonly monitor = {
    subscribe: (subscriber: EngineSubscriber) => {
      this.#subscriber = subscriber;
      return { snapshot: () => Promise.reject(), resendPrefixes: () => {}, end: () => {} };
    },
  };
  #subscriber: EngineSubscriber = {};
  #heard: BlockDemand | undefined;
  #told: BlockDemand | undefined;

  constructor({ blockCount, firstBlocks }: ModelMemory) {
    this.backend = new GatedBackend(blockCount);
    this.engine = new Engine(
      this.backend,
      {
        blockCount,
        blockLimit: firstBlocks,
        budget: { kind: 'fixed', maxStepTokens: STEP_TOKENS },
        speculation: false,
        vocabSize: VOCABULARY,
        contextLength: 1 << 20,
        endIds: [END_TOKEN],
      },
      (report) => {
        this.toPool.push(report);
        this.#told = report.blocks;
      },
      () => 0,
    );
    void this.engine.run();
  }

  allow(blocks: number): void {
    this.toEngine.push({ kind: 'allow', blocks });
  }

  submit(request: EngineRequest): void {
    this.unfinished.add(request);
    this.toEngine.push({ kind: 'submit', requests: [request] });
  }

  hear(): void {
    handleCommand(this.engine, this.toEngine.shift() as ToEngine, () => {});
  }

  tell(): void {
    const { events, blocks } = this.toPool.shift() as StepReport;
    this.unfinished.note(events);
    this.#heard = blocks;
    this.#subscriber.blocks?.(blocks);
  }

  close(): void {
    this.engine.end(unloadedError);
    this.backend.finish();
  }

  get state(): unknown {
    const { scheduler } = this.engine;
    return [
      this.toEngine.map((message) =>
        message.kind === 'submit' ? message.requests.map(({ id }) => id) : message,
      ),
      this.toPool.map(({ events, blocks }) => [blocks, events.map(({ id, kind }) => [id, kind])]),
      this.unfinished.all().map(({ id }) => id),
      this.backend.computing,
      scheduler.demand(),
      scheduler.next.sequence?.id,
      scheduler.running.map(({ id, length, computed, blocks }) => [id, length, computed, blocks.length]),
      [...scheduler.waiting()].map(({ id, length, state }) => [id, length, state]).sort(),
      scheduler.tables.pool.cachedFreeCount,
      this.#told,
      this.#heard,
    ];
  }
}

/** Computes a step when it is told to. */
class GatedBackend extends HashBackend {
  #finish: (() => void) | undefined;

  get computing(): boolean {
    return this.#finish !== undefined;
  }

  finish(): void {
    const finish = this.#finish;
    this.#finish = undefined;
    finish?.();
  }

  override async step(batch: Batch): Promise<StepResult> {
    await new Promise<void>((resolve) => {
      this.#finish = resolve;
    });
    return super.step(batch);
  }
}

function asEngineRequest({ promptTokens, newTokens, enqueuedMs }: WorldRequest, n: number): EngineRequest {
  const sampling = validateSampling(
    { temperature: 0, maxTokens: newTokens, ignoreEos: true },
    { vocabSize: VOCABULARY, freshSeed: { low: 1, high: 2 } },
  );
  if (!sampling.ok) throw new Error(`${sampling.parameter} ${sampling.problem}`);
  return {
    id: String(n),
    prompt: Int32Array.from({ length: promptTokens }, (_, i) => 1 + ((1000 * n + i) % (VOCABULARY - 1))),
    choice: 0,
    parameters: sampling.parameters,
    priority: 1,
    salt: '',
    account: '',
    enqueuedMs,
  };
}

/** Everything has happened that happens without a message. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
