// `--nodes whole`: every node of the simulated fleet is the real one, joined as the program joins it: dispatcher, membership,
// model tables, router, codec, and at workers ledger, status and prefixes. Simulated are time, the message system, which counts
// every byte, and what a step of an engine costs.

import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as settled } from 'node:timers/promises';
import { type JoinedNode, type JoinOptions, joinFleet } from '#src/fleet/join.ts';
import { openLocalModel } from '#src/pool/local-model.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom, uniformAt } from '#src/sampling/random.ts';
import { findEntry } from '#src/server/request/find-model.ts';
import { CountedBus, type Sent, type Traffic } from './counted-bus.ts';
import { EventQueue } from './event-queue.ts';
import { processorMs } from './processor-time.ts';
import type { SimulationSettings } from './settings.ts';
import { MODEL_NAME, simulatedPool } from './simulated-engine.ts';
import type { Conversation, Turn } from './traffic.ts';
import { virtualClock } from './virtual-clock.ts';

const VOCABULARY = 32_000;
/** Statuses are known, and texts of models opened, before what counts begins. */
const WARM_UP_MS = 3000;
const START = 200;

export interface WholeFleetResult {
  readonly seconds: number;
  readonly sent: ReadonlyMap<string, Sent>;
  readonly traffic: readonly Traffic[];
  /** From the name of a model to the message that gives the request to a worker, in milliseconds of the processor. */
  readonly placingMs: readonly number[];
  readonly answered: number;
  readonly failed: number;
  readonly firstTokenMs: readonly number[];
}

export class WholeFleet {
  readonly #settings: SimulationSettings;
  readonly #events = new EventQueue();
  readonly #clock = virtualClock(this.#events);
  readonly #bus: CountedBus;
  readonly #folder = mkdtempSync(join(tmpdir(), 'chairlift-simulation-'));
  readonly #turns = new Map<string, Turn>();
  readonly #placingMs: number[] = [];
  readonly #firstTokenMs: number[] = [];
  #names = 0;
  #answered = 0;
  #failed = 0;
  #left = 0;

  constructor(settings: SimulationSettings) {
    this.#settings = settings;
    this.#bus = new CountedBus(this.#events, settings.delayMs);
  }

  async run(conversations: readonly Conversation[]): Promise<WholeFleetResult> {
    try {
      const { workers, gateways } = this.#settings;
      const tell = (what: string) =>
        process.stderr.write(`${what} after ${(performance.now() / 1000).toFixed(0)} s\n`);
      const joining = Array.from({ length: workers }, (_, n) => this.#joinWorker(n));
      const joined = Array.from({ length: gateways }, (_, n) => this.#joinGateway(n));
      await this.#until(WARM_UP_MS);
      await Promise.all(joining);
      tell('joined');
      const pools = (await Promise.all(joined)).map(({ pool }) => pool as NonNullable<JoinedNode['pool']>);
      // The first at once, the others with the copy it has fetched.
      for (const pool of pools) await this.#during(pool.acquire(MODEL_NAME));
      tell('texts opened');
      this.#bus.forget();
      const startMs = this.#events.nowMs;
      this.#plan(conversations, pools, startMs);
      const endMs = startMs + (this.#settings.traffic.windowMs ?? Number.POSITIVE_INFINITY);
      await this.#run(
        () => this.#events.nowMs < endMs && (this.#left > 0 || endMs < Number.POSITIVE_INFINITY),
      );
      return {
        seconds: (this.#events.nowMs - startMs) / 1000,
        sent: this.#bus.sent,
        traffic: this.#bus.traffic,
        placingMs: this.#placingMs,
        answered: this.#answered,
        failed: this.#failed,
        firstTokenMs: this.#firstTokenMs,
      };
    } finally {
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  /** Whatever follows from an event at the same time has happened before the next. */
  async #run(isWanted: () => boolean): Promise<void> {
    while (isWanted() && this.#events.next()) await settled();
  }

  #until(endMs: number): Promise<void> {
    this.#events.at(endMs, () => {});
    return this.#run(() => this.#events.nowMs < endMs);
  }

  async #during<Result>(action: Promise<Result>): Promise<Result> {
    let isDone = false;
    void action.then(() => {
      isDone = true;
    });
    await settled();
    await this.#run(() => !isDone);
    return action;
  }

  #join(node: string, rest: Partial<JoinOptions>, role: 'worker' | 'gateway'): Promise<JoinedNode> {
    return joinFleet({
      bus: this.#bus.node(role),
      openBucket: async () => undefined,
      readBucket: async () => undefined,
      clock: this.#clock,
      randomBytes: (count) => this.#bytes(count),
      fleet: 'simulated',
      node,
      version: '1.0.0',
      folder: this.#folder,
      onProblem: (problem) => process.stderr.write(`${node}: ${problem}\n`),
      ...rest,
    });
  }

  /** Spread over half a second, as nodes that start one after the other are. */
  async #joinWorker(n: number): Promise<JoinedNode> {
    await new Promise<void>((resolve) => void this.#clock.after(this.#uniform(n, 0) * 500, resolve));
    const { speeds, spread, blocks, maxRunning } = this.#settings;
    const factor = 1 + spread * (2 * this.#uniform(n, 1) - 1);
    const { promptTokenMs, stepBaseMs, stepRowMs } = speeds;
    const own = {
      ...speeds,
      promptTokenMs: factor * promptTokenMs,
      stepBaseMs: factor * stepBaseMs,
      stepRowMs: factor * stepRowMs,
    };
    const pool = simulatedPool(
      { speeds: own, blocks, maxRunning },
      this.#events,
      (id) => this.#turns.get(id.split('#')[0] as string) as Turn,
      (simulatedMs) => this.#clock.wallMs() - this.#events.nowMs + simulatedMs,
    );
    const keys = { of: async () => 'simulated'.padEnd(32, '0') } as unknown as NonNullable<
      JoinOptions['worker']
    >['keys'];
    const determinism = (computedBy: string) => `${computedBy} f16 1`;
    return this.#join(`worker-${n}`, { worker: { pool, keys, determinism, maxRunning } }, 'worker');
  }

  async #joinGateway(n: number): Promise<JoinedNode> {
    await new Promise<void>((resolve) => void this.#clock.after(this.#uniform(n, 2) * 500, resolve));
    const openText = ({ path }: { readonly path: string }) => openLocalModel(path);
    const gateway = { openText, pins: new Map(), archive: undefined };
    return this.#join(`gateway-${n}`, { gateway }, 'gateway');
  }

  #plan(conversations: readonly Conversation[], pools: NonNullable<JoinedNode['pool']>[], startMs: number) {
    for (const { turns } of conversations) {
      this.#left += turns.length;
      for (const turn of turns) {
        this.#turns.set(`${turn.number}`, turn);
        const pool = pools[turn.number % pools.length] as NonNullable<JoinedNode['pool']>;
        this.#events.at(startMs + turn.plannedMs, () => void this.#ask(pool, turn));
      }
    }
  }

  async #ask(pool: NonNullable<JoinedNode['pool']>, turn: Turn): Promise<void> {
    const beganMs = processorMs();
    const { name } = findEntry(pool, 'small');
    const acquired = await pool.acquire(name);
    if (!acquired.ok) throw new Error(acquired.message);
    const validation = validateSampling(
      { maxTokens: turn.answerTokens },
      { vocabSize: VOCABULARY, freshSeed: seedFrom(BigInt(turn.number)) },
    );
    if (!validation.ok) throw new Error(validation.problem);
    const enqueuedMs = this.#clock.wallMs();
    const events = acquired.lease.model.engine.submit({
      id: `${turn.number}`,
      prompt: turn.conversation.tokens.slice(0, turn.promptTokens),
      priority: turn.priority,
      salt: '',
      account: 'a',
      enqueuedMs,
      parameters: validation.parameters,
    });
    this.#placingMs.push(processorMs() - beganMs);
    let isFirst = true;
    for await (const event of events) {
      if (event.kind === 'token' && isFirst) this.#firstTokenMs.push(this.#clock.wallMs() - enqueuedMs);
      isFirst = false;
      if (event.kind === 'finish' && event.reason === 'length') this.#answered += 1;
      else if (event.kind === 'finish') this.#failed += 1;
    }
    this.#left -= 1;
  }

  #uniform(n: number, purpose: number): number {
    return uniformAt(seedFrom(BigInt(this.#settings.traffic.seed)), n, START + purpose);
  }

  /** The same in every run of a seed. */
  #bytes(count: number): Uint8Array {
    this.#names += 1;
    const hash = createHash('sha256').update(`${this.#settings.traffic.seed} ${this.#names}`).digest();
    return Uint8Array.from({ length: count }, (_, i) => hash[i % hash.length] as number);
  }
}
