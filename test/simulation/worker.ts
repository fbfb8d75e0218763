// A worker of a simulated fleet: the real node and the real engine loop, over a backend whose right answers are known at once.

import type { Backend, Batch, StepResult } from '../../src/compute/backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import { type JoinedNode, joinFleet } from '../../src/fleet/join.ts';
import type { LocalModel } from '../../src/pool/local-model.ts';
import type { AcquireResult, ModelEntry, ModelPool } from '../../src/pool/model-pool.ts';
import type { ServedModel } from '../../src/pool/served-model.ts';
import { END_TOKEN, HashBackend, VOCABULARY } from '../property/hash-backend.ts';
import type { SimulatedBuckets } from './buckets.ts';
import type { SimulatedNetwork } from './network.ts';
import type { SimulatedProcess } from './process.ts';

export const MODEL = 'm';
export const MODEL_KEY = 'simulated';
const BLOCKS = 96;
const STEP_MS = 40;
const TOKEN_MS = 0.2;
/** The supervisor of an engine replaces one that hangs. */
const HANG_MS = 30_000;
export const ENGINE_RESTART_MS = 1500;

/** Computes as long as its machine lets it. */
class SlowBackend extends HashBackend {
  readonly #process: SimulatedProcess;
  readonly #engine: EngineState;

  constructor(process: SimulatedProcess, engine: EngineState) {
    super(BLOCKS);
    this.#process = process;
    this.#engine = engine;
  }

  override async step(batch: Batch): Promise<StepResult> {
    const ms = (STEP_MS + TOKEN_MS * batch.tokens.length) * this.#engine.slowness;
    await new Promise<void>((resolve) => void this.#process.clock.after(ms, resolve));
    while (this.#engine.hangs)
      await new Promise<void>((resolve) => void this.#process.clock.after(200, resolve));
    if (this.#engine.dies) {
      this.#engine.dies = false;
      throw new Error('the simulated engine died');
    }
    return super.step(batch);
  }
}

interface EngineState {
  slowness: number;
  hangs: boolean;
  dies: boolean;
  restartMs: number;
}

export class SimulatedWorker {
  readonly process: SimulatedProcess;
  readonly engineState: EngineState = {
    slowness: 1,
    hangs: false,
    dies: false,
    restartMs: ENGINE_RESTART_MS,
  };
  readonly problems: string[] = [];
  node: JoinedNode | undefined;
  readonly #model: LocalModel;
  readonly #modelPath: string;
  #engine: LocalEngine;
  #loading = false;

  constructor(process: SimulatedProcess, model: LocalModel, modelPath: string) {
    this.process = process;
    this.#model = model;
    this.#modelPath = modelPath;
    this.#engine = this.#newEngine();
  }

  get name(): string {
    return this.process.machine.name;
  }

  async start(network: SimulatedNetwork, buckets: SimulatedBuckets): Promise<void> {
    const { process, name } = this;
    this.#watch();
    this.node = await joinFleet({
      bus: network.connect(process, name),
      openBucket: async (bucket, options) => buckets.open(process, name, bucket, options),
      readBucket: async (bucket) => buckets.open(process, name, bucket, { storage: 'file' }).values,
      clock: process.clock,
      randomBytes: process.randomBytes,
      fleet: 'sim',
      node: name,
      version: '1',
      folder: '/nonexistent',
      worker: {
        pool: this.#pool(),
        keys: { of: async () => MODEL_KEY, ofTower: async () => MODEL_KEY },
        determinism: () => 'hash',
        maxRunning: 64,
      },
      gateway: undefined,
      onProblem: (problem) => this.problems.push(problem),
    });
  }

  /** What should not be left when nobody asks for anything. */
  leftovers(): string[] {
    const { scheduler } = this.#engine.engine;
    checkIntegrity(scheduler);
    const { running, waitingCount } = scheduler;
    const count = running.length + waitingCount;
    return count === 0 ? [] : [`${count} sequences are left in the engine of ${this.name}`];
  }

  #newEngine(): LocalEngine {
    const { monotonicMs } = this.process.clock;
    const backend: Backend = new SlowBackend(this.process, this.engineState);
    const options = {
      blockCount: BLOCKS,
      budget: { kind: 'fixed', maxStepTokens: 256 },
      vocabSize: VOCABULARY,
      contextLength: BLOCKS * 32,
      endIds: [END_TOKEN],
      speculation: false,
    } as const;
    return new LocalEngine(backend, options, monotonicMs);
  }

  /** What the supervisor of a real engine does. */
  #watch(): void {
    let hangsSinceMs: number | undefined;
    const { clock } = this.process;
    clock.every(1000, () => {
      const { hangs } = this.engineState;
      const nowMs = clock.monotonicMs();
      hangsSinceMs = hangs ? (hangsSinceMs ?? nowMs) : undefined;
      const isHung = hangsSinceMs !== undefined && nowMs - hangsSinceMs > HANG_MS;
      if (!this.#loading && (isHung || this.#engine.failure !== undefined)) this.#replace();
    });
  }

  #replace(): void {
    this.#loading = true;
    this.engineState.hangs = false;
    void this.#engine.close();
    this.process.clock.after(this.engineState.restartMs, () => {
      this.engineState.restartMs = ENGINE_RESTART_MS;
      this.#engine = this.#newEngine();
      this.#loading = false;
    });
  }

  #pool(): ModelPool {
    const entry = (): ModelEntry => ({
      name: MODEL,
      aliases: [],
      path: this.#modelPath,
      state: this.#loading ? 'loading' : 'loaded',
      pinned: false,
      createdSeconds: 1_700_000_000,
      computedBy: 'hash',
      busy: 0,
    });
    const { spec, tokenizer, pooling } = this.#model;
    const served = (): ServedModel => ({
      name: MODEL,
      path: this.#modelPath,
      spec,
      tokenizer,
      template: undefined,
      pooling,
      engine: this.#engine,
      blockCount: BLOCKS,
      direct: false,
    });
    const acquire = async (): Promise<AcquireResult> =>
      this.#loading
        ? { ok: false, failure: 'engine-died', message: 'the engine is starting' }
        : { ok: true, lease: { model: served(), release: () => {} } };
    let known: ServedModel | undefined;
    return {
      memoryBytes: 2 ** 30,
      list: () => [entry()],
      loaded: () => {
        if (this.#loading) return [];
        if (known?.engine !== this.#engine) known = served();
        return [known];
      },
      acquire,
      load: acquire,
      unload: async () => false,
      close: async () => {},
    };
  }
}
