// One life of a simulated fleet: it starts, clients ask, faults strike, everything heals, and then what must hold is checked.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EngineRequest } from '../../src/engine/request.ts';
import type { ToGateway, ToWorker } from '../../src/fleet/messages.ts';
import type { LocalModel } from '../../src/pool/local-model.ts';
import { IN_MEMORY } from '../../src/store/database.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { Chance } from '../chaos/chance.ts';
import { VOCABULARY } from '../property/hash-backend.ts';
import { SimulatedBatch } from './batch.ts';
import { bookProblems } from './books.ts';
import { Calm } from './bounds.ts';
import { SimulatedClient } from './client.ts';
import { type Fault, type FaultKind, planFaults, type Trigger } from './faults.ts';
import { SimulatedFleet } from './fleet.ts';
import type { SimulatedGateway } from './gateway.ts';
import { replaceNodeTime } from './node-time.ts';
import { Machine, SimulatedProcess } from './process.ts';
import { VirtualTime } from './virtual-time.ts';
import { MODEL_KEY } from './worker.ts';

const CALM_MS = 5000;
const FAULTS_MS = 600_000;
/** Once faults have ended, everything is finished within this time. */
const SETTLE_MS = 180_000;
/** And then nothing is left. */
const REST_MS = 45_000;
const REQUEST_EVERY_MS = 4000;
/** By seed: from a fault now and then to one upon the other. */
const FAULT_EVERY_MS = [4000, 9000, 20_000, 60_000] as const;
const BATCHES = 2;
/** As the dispatcher counts them. */
const ATTEMPTS_OF_A_GATEWAY = 2 ** 20;
const MOVED_MS = 20_000;
const PROBE_EVERY_MS = 5000;
const PROBE_CALM_MS = 20_000;
const PROBE_GONE_MS = 14_000;
const PROBE_CUT_OFF_MS = 4500;
/** What a fault does to workers shows soon after it. */
const PROBE_AFTER_MS = [700, 1700, 3500] as const;
/** A stream of so many tokens runs for seconds. */
const LONG_ANSWER = 60;
/** A fault that comes right after something. */
const REACTION_MS = 300;

export interface EpisodeOptions {
  /** Ends at the first violation. */
  readonly first?: boolean;
  readonly seed: number;
  readonly model: LocalModel;
  readonly modelPath: string;
  /** Instead of those of the seed. */
  readonly faults?: readonly Fault[] | undefined;
}

export interface EpisodeResult {
  readonly seed: number;
  readonly hash: string;
  readonly simulatedMs: number;
  readonly events: number;
  readonly messages: number;
  readonly requests: number;
  readonly tokens: number;
  readonly faults: readonly Fault[];
  readonly struck: Readonly<Partial<Record<FaultKind, number>>>;
  readonly violations: readonly string[];
  /** What the clients of the first violations saw. */
  readonly log: readonly string[];
}

export function faultsOf(seed: number): Fault[] {
  const chance = new Chance(seed).branch('faults');
  return planFaults(chance, {
    fromMs: CALM_MS,
    untilMs: CALM_MS + FAULTS_MS,
    everyMs: chance.pick(FAULT_EVERY_MS),
  });
}

export async function runEpisode(options: EpisodeOptions): Promise<EpisodeResult> {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-simulation-'));
  const copy = join(folder, 'models', MODEL_KEY);
  mkdirSync(copy, { recursive: true });
  symlinkSync(options.modelPath, join(copy, 'model.gguf'));
  writeFileSync(join(copy, '.opening'), 'model.gguf');
  const database = await openDatabase(IN_MEMORY);
  try {
    return await new Episode(options, folder, database).run();
  } finally {
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

class Episode {
  readonly #options: EpisodeOptions;
  readonly #time = new VirtualTime((error) => this.#violation(`threw: ${textOf(error)}`));
  readonly #chance: Chance;
  readonly #fleet: SimulatedFleet;
  readonly #clients: SimulatedClient[] = [];
  readonly #batches: SimulatedBatch[] = [];
  readonly #faults: readonly Fault[];
  readonly #calm: Calm;
  readonly #violations: string[] = [];
  readonly #struck: Partial<Record<FaultKind, number>> = {};
  readonly #root: SimulatedProcess;
  readonly #given = new Map<string, number>();
  readonly #triggered = new Map<Trigger, Fault[]>();
  #standing: string[] = [];

  constructor(options: EpisodeOptions, folder: string, database: Awaited<ReturnType<typeof openDatabase>>) {
    this.#options = options;
    this.#faults = options.faults ?? faultsOf(options.seed);
    const chance = new Chance(options.seed);
    this.#chance = chance;
    const time = this.#time;
    this.#root = new SimulatedProcess('root', new Machine('root', time, 1), time, chance.branch('root'));
    const workers = 2 + chance.branch('workers').below(3);
    const gateways = 2 + chance.branch('gateways').below(2);
    this.#calm = new Calm(workers, gateways);
    this.#fleet = new SimulatedFleet({
      time,
      chance: chance.branch('fleet'),
      database,
      folder,
      model: options.model,
      modelPath: options.modelPath,
      workers,
      gateways,
      onFailure: (error) => this.#violation(`failed: ${textOf(error)}`),
    });
  }

  async run(): Promise<EpisodeResult> {
    const restore = replaceNodeTime(() => (this.#time.current as SimulatedProcess | undefined) ?? this.#root);
    const onRejection = (error: unknown) => this.#violation(`rejected: ${textOf(error)}`);
    process.on('unhandledRejection', onRejection);
    try {
      await this.#live();
    } finally {
      process.off('unhandledRejection', onRejection);
      restore();
    }
    const { nowMs, hash, events } = this.#time;
    return {
      seed: this.#options.seed,
      hash,
      simulatedMs: nowMs,
      events,
      messages: this.#fleet.network.messages,
      requests: this.#clients.length,
      tokens: this.#clients.flatMap(({ received }) => received).reduce((sum, { tokens }) => sum + tokens, 0),
      faults: this.#faults,
      struck: this.#struck,
      violations: this.#violations,
      log: this.#violations.length === 0 ? [] : this.#logOfViolations(),
    };
  }

  async #live(): Promise<void> {
    const time = this.#time;
    this.#fleet.start();
    this.#planRequests();
    this.#planBatches();
    this.#planProbes();
    for (const fault of this.#faults) this.#plan(fault);
    this.#fleet.network.onMessage = (subject, message) => {
      if (!subject.includes('.work.')) return;
      this.#watchWork(message);
      this.#trigger(subject, message);
    };
    const calmMs = CALM_MS + FAULTS_MS;
    const isOver = () => this.#options.first === true && this.#violations.length > 0;
    await time.runUntil(calmMs, isOver);
    if (isOver()) return;
    await time.runUntil(calmMs + SETTLE_MS, () => this.#open().length === 0);
    for (const { id, log } of this.#open()) {
      const last = log.slice(-3).join('; ');
      this.#violation(`${id} is not finished ${SETTLE_MS / 1000} s after the last fault: ${last}`);
    }
    this.#fleet.network.onMessage = (_, message) => this.#watch(message);
    await time.runUntil(time.nowMs + REST_MS);
    this.#standing = [];
    await time.runUntil(time.nowMs + 2000);
    this.#checkRest();
    await this.#checkBooks();
  }

  #open(): { readonly id: string; readonly log: readonly string[] }[] {
    return [...this.#clients, ...this.#batches].filter(({ isDone }) => !isDone);
  }

  #planRequests(): void {
    const chance = this.#chance.branch('requests');
    const shared = Array.from({ length: 80 }, () => chance.below(VOCABULARY));
    for (let i = 0, atMs = 2500; atMs < CALM_MS + FAULTS_MS; i++) {
      atMs += chance.between(50, 2 * REQUEST_EVERY_MS);
      const own = Array.from({ length: chance.between(4, 60) }, () => chance.below(VOCABULARY));
      const maxTokens = chance.weighted([
        [5, chance.between(1, 12)],
        [3, chance.between(12, 40)],
        [1, chance.between(80, 250)],
      ]);
      const asked = {
        id: `r${i}`,
        prompt: chance.happens(0.4) ? [...shared, ...own] : own,
        maxTokens,
        leavesAfter: chance.happens(0.12) ? chance.between(1, Math.max(1, maxTokens - 1)) : undefined,
        dropsAfter: chance.happens(0.2) ? chance.between(1, Math.max(1, maxTokens - 1)) : undefined,
      };
      const client = new SimulatedClient(asked, {
        time: this.#time,
        chance: this.#chance.branch(`client ${i}`),
        gateways: () => this.#fleet.gateways,
        isServing: (gateway, fromMs, toMs) => this.#calm.isServing(gateway, fromMs, toMs),
        violation: (message) => this.#violation(message),
      });
      this.#clients.push(client);
      this.#time.at(atMs, undefined, () => client.begin());
    }
  }

  #planBatches(): void {
    const chance = this.#chance.branch('batches');
    for (let i = 0; i < BATCHES; i++) {
      const batch = new SimulatedBatch(`b${i}`, {
        time: this.#time,
        chance: this.#chance.branch(`batch ${i}`),
        gateways: () => this.#fleet.gateways,
        violation: (message) => this.#violation(message),
      });
      this.#batches.push(batch);
      const atMs = chance.between(CALM_MS, CALM_MS + FAULTS_MS / 2);
      this.#time.at(atMs, undefined, () => void batch.run());
    }
  }

  /** Readiness is true: a gateway is ready where a worker has been well for a while, and not where none is there. */
  #planProbes(): void {
    const endMs = CALM_MS + FAULTS_MS;
    for (let atMs = PROBE_CALM_MS; atMs < endMs + PROBE_CALM_MS + PROBE_EVERY_MS; atMs += PROBE_EVERY_MS) {
      this.#time.at(atMs, undefined, () => {
        for (const gateway of this.#fleet.gateways) this.#probeIfKnown(gateway, atMs);
      });
    }
  }

  /** Where it is known what it must say. */
  #probeIfKnown(gateway: SimulatedGateway, atMs: number): void {
    const { name } = gateway;
    const lostMs = this.#fleet.network.lostMs(name);
    const isCutOff =
      lostMs !== undefined && atMs - lostMs > PROBE_CUT_OFF_MS && !this.#calm.wasHeldUp(name, lostMs);
    const isServing = this.#calm.isServing(name, atMs, atMs);
    if (isServing || isCutOff || this.#fleet.isAloneFor(PROBE_GONE_MS)) this.#probe(gateway, isServing, atMs);
  }

  #probe(gateway: SimulatedGateway, isExpected: boolean, atMs: number): void {
    let status = 0;
    const isSame = () => this.#fleet.gateways.includes(gateway) && gateway.process.state === 'running';
    gateway.ask(
      { method: 'GET', url: '/ready' },
      {
        onHead: (given) => {
          status = given;
        },
        onData: () => {},
        onEnd: (isBroken) => {
          // A fault that has begun since then may have its part in it.
          if (isBroken || !isSame() || this.#time.nowMs > atMs + 100) return;
          if ((status === 200) === isExpected) return;
          this.#violation(
            `/ready of ${gateway.name} is ${status}, with ${isExpected ? 'a worker' : 'no worker that it reaches'}`,
          );
        },
      },
    );
  }

  async #checkBooks(): Promise<void> {
    const answers = this.#clients.flatMap(({ received }) => received);
    const troubles = { faults: this.#calm.faults, deaths: this.#fleet.deaths };
    const batches = this.#batches.filter(({ isDone }) => isDone).map(({ result }) => result);
    const { tables } = this.#fleet.database.inner;
    for (const problem of await bookProblems(tables, answers, batches, troubles)) this.#violation(problem);
  }

  #plan(fault: Fault): void {
    const { after } = fault;
    this.#time.at(fault.atMs, undefined, () => {
      if (after === undefined) this.#strike(fault);
      else this.#triggered.set(after, [...(this.#triggered.get(after) ?? []), fault]);
    });
  }

  /** All end in time for what follows. */
  #strike(fault: Fault): void {
    const { nowMs } = this.#time;
    const durationMs = Math.min(fault.durationMs, CALM_MS + FAULTS_MS - nowMs);
    if (durationMs <= 0) return;
    this.#struck[fault.kind] = (this.#struck[fault.kind] ?? 0) + 1;
    const struck = { ...fault, atMs: nowMs, durationMs };
    this.#calm.struck(struck);
    const end = this.#fleet.strike(struck);
    this.#time.after(durationMs, undefined, end);
    for (const afterMs of PROBE_AFTER_MS) {
      const atMs = nowMs + afterMs;
      this.#time.at(atMs, undefined, () => {
        for (const gateway of this.#fleet.gateways) this.#probeIfKnown(gateway, atMs);
      });
    }
  }

  /** A request is given to a worker: faults that wait for one strike those that take part in it. */
  #trigger(subject: string, message: unknown): void {
    if (this.#triggered.size === 0) return;
    const { kind, gateway, request } = message as Partial<Extract<ToWorker, { kind: 'submit' }>>;
    if (kind !== 'submit' || gateway === undefined || request === undefined) return;
    const { priority, parameters } = request as EngineRequest & { parameters?: { maxTokens?: number } };
    if ((parameters?.maxTokens ?? 0) < LONG_ANSWER) return;
    const what = priority === 2 ? 'line' : 'stream';
    const [first, ...rest] = this.#triggered.get(what) ?? [];
    if (first === undefined) return;
    this.#triggered.set(what, rest);
    const struck = first.kind.includes('gateway') ? gateway : subject.slice(subject.lastIndexOf('.') + 1);
    this.#time.after(REACTION_MS, undefined, () =>
      this.#strike({ ...first, target: Number(struck.slice(1)) }),
    );
  }

  /** Nothing is given to another worker while all workers and their links are well. */
  #watchWork(message: unknown): void {
    const {
      kind,
      id,
      attempt = 0,
      gateway,
    } = message as { kind: string; id: string; attempt?: number; gateway: string };
    if (kind !== 'submit' || attempt % ATTEMPTS_OF_A_GATEWAY <= 1 || attempt > ATTEMPTS_OF_A_GATEWAY) return;
    if (this.#given.get(id) === attempt) return;
    this.#given.set(id, attempt);
    const { nowMs } = this.#time;
    if (this.#calm.isWellAtWorkers(nowMs - MOVED_MS, nowMs))
      this.#violation(`${gateway} gives ${id} to another worker though all were well`);
  }

  #watch(message: unknown): void {
    const { kind, worker, standing } = message as Partial<Extract<ToGateway, { kind: 'standing' }>>;
    if (kind !== 'standing' || standing === undefined) return;
    for (const { id } of standing) this.#standing.push(`${worker} still keeps ${id}`);
  }

  #checkRest(): void {
    for (const worker of this.#fleet.workers) {
      try {
        for (const left of worker.leftovers()) this.#violation(left);
      } catch (error) {
        this.#violation(`the cache of ${worker.name}: ${textOf(error)}`);
      }
    }
    for (const left of new Set(this.#standing)) this.#violation(left);
  }

  #violation(message: string): void {
    if (this.#violations.length < 20)
      this.#violations.push(`at ${(this.#time.nowMs / 1000).toFixed(2)} s: ${message}`);
  }

  #logOfViolations(): string[] {
    const text = this.#violations.join('\n');
    const clients = [...this.#clients, ...this.#batches]
      .filter(({ id }) => new RegExp(`\\b${id}\\b`).test(text))
      .slice(0, 3);
    return clients.flatMap(({ log }) => log);
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
