// A gateway of a simulated fleet: the real node, the real HTTP edge and the real stores, asked without a socket.

import { pino } from 'pino';
import { type JoinedNode, joinFleet } from '../../src/fleet/join.ts';
import { FleetArchive } from '../../src/fleet/request-archive.ts';
import type { LocalModel } from '../../src/pool/local-model.ts';
import type { KeptRequest } from '../../src/server/context.ts';
import { type ChairliftServer, createServer } from '../../src/server/create-server.ts';
import { Limiter } from '../../src/server/limits/limiter.ts';
import { defaultSettings } from '../../src/server/settings.ts';
import { BatchLines } from '../../src/store/batch-lines.ts';
import { BatchStore } from '../../src/store/batch-store.ts';
import { FileStore } from '../../src/store/file-store.ts';
import { newLeaseOwner } from '../../src/store/lease-owner.ts';
import { UsageStore } from '../../src/store/usage-store.ts';
import type { SimulatedBuckets } from './buckets.ts';
import { type HttpRequest, serve } from './connection.ts';
import type { SharedDatabase } from './database.ts';
import type { SimulatedNetwork } from './network.ts';
import type { SimulatedProcess } from './process.ts';
import type { VirtualTime } from './virtual-time.ts';

const HOP_MS = 1;
const KEEP_ALIVE_MS = 15_000;
const BATCH_LINES = 4;

export interface GatewayParts {
  readonly time: VirtualTime;
  readonly network: SimulatedNetwork;
  readonly buckets: SimulatedBuckets;
  readonly database: SharedDatabase;
  /** Has the text of the model. */
  readonly folder: string;
  readonly model: LocalModel;
}

/** How the client's side of a connection hears of what is sent. */
export interface HttpListener {
  onHead(status: number, headers: Readonly<Record<string, unknown>>): void;
  onData(text: string): void;
  /** Broken where the gateway died. */
  onEnd(isBroken: boolean): void;
}

export class SimulatedGateway {
  readonly process: SimulatedProcess;
  readonly problems: string[] = [];
  node: JoinedNode | undefined;
  isServing = false;
  /** It has answered with the model: it knows it. */
  hasAnswered = false;
  #app: ChairliftServer | undefined;
  #usage: UsageStore | undefined;
  readonly #parts: GatewayParts;

  constructor(process: SimulatedProcess, parts: GatewayParts) {
    this.process = process;
    this.#parts = parts;
  }

  get name(): string {
    return this.process.machine.name;
  }

  async start(): Promise<void> {
    const { process, name } = this;
    const { network, buckets, database: shared, folder, model } = this.#parts;
    const onProblem = (problem: unknown) => this.problems.push(String(problem));
    this.node = await joinFleet({
      bus: network.connect(process, name),
      openBucket: async (bucket, options) => buckets.open(process, name, bucket, options),
      readBucket: async (bucket) => buckets.open(process, name, bucket, { storage: 'file' }).values,
      clock: process.clock,
      randomBytes: process.randomBytes,
      fleet: 'sim',
      node: name,
      version: '1',
      folder,
      worker: undefined,
      gateway: {
        openText: () => ({ ...model, close: () => {} }),
        pins: new Map(),
        archive: { storage: 'memory', maxBytes: 2 ** 29 },
      },
      onProblem,
    });
    const { pool, requests, control } = this.node;
    if (pool === undefined || requests === undefined) throw new Error('a gateway has a pool and an archive');
    const database = shared.of(process);
    const surroundings = { clock: process.clock, randomBytes: process.randomBytes, onProblem };
    const usage = new UsageStore(database, onProblem);
    this.#usage = usage;
    const app = createServer({
      pool,
      archive: new FleetArchive<KeptRequest>(requests, undefined, surroundings),
      limiter: new Limiter(),
      usage,
      files: new FileStore(database, onProblem),
      batches: {
        store: new BatchStore(database),
        lines: new BatchLines(database),
        owner: newLeaseOwner(),
        share: (total) => control?.share(total) ?? total,
      },
      settings: {
        ...defaultSettings,
        allowAnonymous: true,
        keepAliveMs: KEEP_ALIVE_MS,
        batchConcurrency: BATCH_LINES,
      },
      logger: pino({ level: 'silent' }),
      version: '1',
    });
    await app.ready();
    await app.startBackground();
    this.#app = app;
    this.isServing = true;
  }

  /** Ends in good order. */
  async stop(limitMs: number): Promise<void> {
    this.isServing = false;
    await this.#app?.drain(limitMs);
    await this.#app?.close();
    await this.node?.pool?.close(limitMs);
    await this.node?.close(limitMs);
    // What cannot be written is said, and lost with the process.
    await this.#usage?.close().catch((error: unknown) => this.problems.push(String(error)));
  }

  /** Called by a client, over a network of its own. Returns what closes the connection. */
  ask(request: HttpRequest, listener: HttpListener): () => void {
    const { time } = this.#parts;
    let isOpen = true;
    let close = () => {};
    const hear = (action: () => void) => {
      if (isOpen) time.after(HOP_MS, undefined, () => isOpen && action());
    };
    const forget = this.process.onDeath(() => hear(() => end(true)));
    const end = (isBroken: boolean) => {
      isOpen = false;
      forget();
      listener.onEnd(isBroken);
    };
    this.process.run(() => {
      if (this.#app === undefined) return hear(() => end(true));
      close = serve(this.#app, request, {
        onHead: (status, headers) => hear(() => listener.onHead(status, headers)),
        onData: (text) => hear(() => listener.onData(text)),
        onClose: (isCutOff) => hear(() => end(isCutOff)),
      });
    }, HOP_MS);
    return () => {
      if (!isOpen) return;
      isOpen = false;
      forget();
      this.process.run(() => close(), HOP_MS);
    };
  }
}
