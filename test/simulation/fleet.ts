// The machines of a simulated fleet, what runs on them, and what faults do to them.

import type { LocalModel } from '../../src/pool/local-model.ts';
import type { Database } from '../../src/store/database.ts';
import type { Chance } from '../chaos/chance.ts';
import { SimulatedBuckets } from './buckets.ts';
import { SharedDatabase } from './database.ts';
import type { Fault } from './faults.ts';
import { type GatewayParts, SimulatedGateway } from './gateway.ts';
import { SimulatedNetwork } from './network.ts';
import { Machine, SimulatedProcess } from './process.ts';
import type { VirtualTime } from './virtual-time.ts';
import { ENGINE_RESTART_MS, SimulatedWorker } from './worker.ts';

/** A crystal is wrong by this much at most. */
const DRIFT = 200e-6;
const RESTART_MS = [500, 6000] as const;
const STOP_MS = 5000;
const LOSES_MS = 120_000;

export interface FleetOptions {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly database: Database;
  readonly folder: string;
  readonly model: LocalModel;
  readonly modelPath: string;
  readonly workers: number;
  readonly gateways: number;
  onFailure(error: unknown): void;
}

type Ends = () => void;

export class SimulatedFleet {
  readonly network: SimulatedNetwork;
  readonly buckets: SimulatedBuckets;
  readonly database: SharedDatabase;
  readonly workers: SimulatedWorker[] = [];
  readonly gateways: SimulatedGateway[] = [];
  /** When gateways died, by name. */
  readonly deaths: { readonly name: string; readonly atMs: number }[] = [];
  /** Since when no worker is there. */
  #aloneMs: number | undefined;
  readonly #options: FleetOptions;
  readonly #machines = new Map<string, Machine>();
  #starts = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    const { time, chance } = options;
    this.network = new SimulatedNetwork(time, chance.branch('network'));
    this.buckets = new SimulatedBuckets(this.network);
    this.database = new SharedDatabase(options.database, time, chance.branch('database'));
  }

  start(): void {
    for (let i = 0; i < this.#options.workers; i++) this.#startWorker(i);
    for (let i = 0; i < this.#options.gateways; i++) this.#startGateway(i);
  }

  /** No worker can have been there for so long; those that are stopped or cut off count as there. */
  isAloneFor(durationMs: number): boolean {
    return this.#aloneMs !== undefined && this.#options.time.nowMs - this.#aloneMs > durationMs;
  }

  /** Returns what ends it. */
  strike({ kind, target, amount }: Fault): Ends {
    const { network, buckets, database } = this;
    const workerAt = target % this.workers.length;
    const gatewayAt = target % this.gateways.length;
    const worker = this.workers[workerAt] as SimulatedWorker;
    const gateway = this.gateways[gatewayAt] as SimulatedGateway;
    // When a fault ends, another process may have taken the place of the one it struck.
    const restartWorker = () => this.#startWorker(workerAt);
    const restartGateway = () => this.#startGateway(gatewayAt);
    const nothing = () => {};
    switch (kind) {
      case 'kill worker':
        return this.#kill(worker.process, restartWorker);
      case 'kill gateway':
        this.deaths.push({ name: gateway.name, atMs: this.#options.time.nowMs });
        gateway.isServing = false;
        return this.#kill(gateway.process, restartGateway);
      case 'kill all workers': {
        const restarts = this.workers.map((one, i) => this.#kill(one.process, () => this.#startWorker(i)));
        return () => {
          for (const restart of restarts) restart();
        };
      }
      case 'stop worker':
        return this.#stop(worker, restartWorker);
      case 'stop gateway':
        this.deaths.push({ name: gateway.name, atMs: this.#options.time.nowMs });
        return this.#stop(gateway, restartGateway);
      case 'stall worker':
        worker.process.stall();
        return () => worker.process.continue();
      case 'stall gateway':
        gateway.process.stall();
        return () => gateway.process.continue();
      case 'cut worker':
      case 'cut worker up':
      case 'cut worker down':
        network.cut(worker.name, directionOf(kind));
        return () => network.mend(worker.name);
      case 'cut gateway':
      case 'cut gateway up':
      case 'cut gateway down':
        network.cut(gateway.name, directionOf(kind));
        return () => network.mend(gateway.name);
      case 'message loss':
        network.weather.loss = 0.4 * amount;
        return () => {
          network.weather.loss = 0;
        };
      case 'doubled messages':
        network.weather.doubles = 0.5 * amount;
        return () => {
          network.weather.doubles = 0;
        };
      case 'disordered messages':
        network.weather.disorderMs = 2 + Math.round(200 * amount * amount);
        return () => {
          network.weather.disorderMs = 0;
        };
      case 'lost submits':
        network.weather.losesSubmits = true;
        return () => {
          network.weather.losesSubmits = false;
        };
      case 'lost ends':
        network.weather.losesEnds = true;
        return () => {
          network.weather.losesEnds = false;
        };
      case 'slow worker link':
      case 'slow gateway link': {
        const { name } = kind === 'slow worker link' ? worker : gateway;
        network.slow.set(name, 20 + 2500 * amount * amount);
        return () => network.slow.delete(name);
      }
      case 'message system down':
        network.fall();
        return () => network.rise();
      case 'refused subscription':
        network.refused.add(worker.name);
        network.cut(worker.name, 'both');
        return () => {
          network.refused.delete(worker.name);
          network.mend(worker.name);
          // Permissions count from the next connection on.
          network.reconnect(worker.name);
        };
      case 'engine hangs':
        worker.engineState.hangs = true;
        return () => {
          worker.engineState.hangs = false;
        };
      case 'engine dies':
        worker.engineState.dies = true;
        worker.engineState.restartMs = ENGINE_RESTART_MS * (1 + 8 * amount);
        return () => {
          worker.engineState.dies = false;
        };
      case 'engine slow':
        worker.engineState.slowness = 1 + 60 * amount * amount;
        return () => {
          worker.engineState.slowness = 1;
        };
      case 'worker clock jumps':
      case 'gateway clock jumps': {
        const { machine } = (kind === 'worker clock jumps' ? worker : gateway).process;
        const byMs = Math.round((amount - 0.5) * 2 * (target % 2 === 0 ? 100_000_000 : 20_000));
        machine.jump(byMs);
        return () => machine.jump(-byMs);
      }
      case 'archive full':
        buckets.isFull = true;
        return () => {
          buckets.isFull = false;
        };
      case 'archive loses acknowledged':
        buckets.lose(LOSES_MS * amount);
        return nothing;
      case 'archive stale leader':
        buckets.separate(gateway.name);
        return () => buckets.unite(gateway.name);
      case 'database away':
        database.away.add('*');
        return () => database.away.delete('*');
      case 'database away from gateway':
        database.away.add(gateway.name);
        return () => database.away.delete(gateway.name);
      case 'database full':
        database.isFull = true;
        return () => {
          database.isFull = false;
        };
      case 'database loses answers':
        database.lostAnswers = 0.5 * amount;
        return () => {
          database.lostAnswers = 0;
        };
      case 'drain worker':
        worker.process.run(() => worker.node?.drain());
        return () => this.#kill(worker.process, restartWorker)();
    }
  }

  #kill(process: SimulatedProcess, restart: () => void): Ends {
    if (process.state === 'dead') return () => {};
    process.kill();
    if (this.workers.every((one) => one.process.state === 'dead')) this.#aloneMs = this.#options.time.nowMs;
    return restart;
  }

  /** In good order; whoever is not ready to start again in time is killed. */
  #stop(
    one: { readonly process: SimulatedProcess } & (SimulatedWorker | SimulatedGateway),
    restart: () => void,
  ): Ends {
    const { process } = one;
    if (process.state === 'dead') return () => {};
    const stopping =
      one instanceof SimulatedGateway ? () => one.stop(STOP_MS) : () => one.node?.close(STOP_MS);
    process.run(() => void Promise.resolve(stopping()).catch(this.#options.onFailure));
    return () => {
      process.kill();
      restart();
    };
  }

  #startWorker(i: number): void {
    const name = `w${i}`;
    if (this.workers[i]?.process.state !== undefined && this.workers[i]?.process.state !== 'dead') return;
    const worker = new SimulatedWorker(this.#process(name), this.#options.model, this.#options.modelPath);
    this.workers[i] = worker;
    this.#aloneMs = undefined;
    worker.process.run(
      () => {
        worker.start(this.network, this.buckets).catch(this.#options.onFailure);
      },
      this.#options.chance.between(...RESTART_MS),
    );
  }

  #startGateway(i: number): void {
    const name = `g${i}`;
    if (this.gateways[i]?.process.state !== undefined && this.gateways[i]?.process.state !== 'dead') return;
    const { time, folder, model } = this.#options;
    const parts: GatewayParts = { ...this, time, folder, model };
    const gateway = new SimulatedGateway(this.#process(name), parts);
    this.gateways[i] = gateway;
    gateway.process.run(
      () => {
        gateway.start().catch(this.#options.onFailure);
      },
      this.#options.chance.between(...RESTART_MS),
    );
  }

  #process(name: string): SimulatedProcess {
    const { time, chance } = this.#options;
    const rate = 1 + DRIFT * (2 * (chance.branch(`drift ${name}`).below(1000) / 1000) - 1);
    const machine = this.#machines.get(name) ?? new Machine(name, time, rate);
    this.#machines.set(name, machine);
    const start = ++this.#starts;
    return new SimulatedProcess(`${name}.${start}`, machine, time, chance.branch(`process ${start}`));
  }
}

function directionOf(kind: string): 'up' | 'down' | 'both' {
  if (kind.endsWith(' up')) return 'up';
  return kind.endsWith(' down') ? 'down' : 'both';
}
