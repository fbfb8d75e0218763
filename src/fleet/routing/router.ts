// Chooses the worker where a request costs least time: its own until it finishes and that of the sequences it delays, by what
// workers published and what this gateway has sent. Knows no network and no clock; its owner passes heartbeats, cache events
// and the time.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { type CacheBatch, type CacheEventOutcome, CacheEvents, type CacheSnapshot } from './cache-events.ts';
import { type Candidate, Candidates, hashText, rank, TIE_SHARE } from './candidates.ts';
import {
  costMs,
  DEFAULT_MAX_WAIT_MS,
  type ExpectedTimes,
  expectedTimes,
  fits,
  type Refusal,
  type RequestShape,
  refuse,
} from './expected-finish.ts';
import { type ExpectedPrefix, foundTokens, inMemory, loadMsOf, savedTokens } from './expected-prefix.ts';
import { FastestSpeeds } from './fastest-speeds.ts';
import { type ByPriority, type Heartbeat, wholeSpeeds } from './heartbeat.ts';
import { DEFAULT_MAX_ENTRIES, PrefixIndex } from './prefix-index.ts';
import { type FoundPrefixes, TierHolders, type WorkerTiers } from './tier-holders.ts';
import { type Assignment, blocksOf, WorkerStatus } from './worker-status.ts';

interface RouterOptions {
  /** As workers know it in `heard`. */
  readonly gateway: string;
  readonly maxWaitMs?: ByPriority;
  /** A worker that is silent for this long gets no requests. Default: three heartbeats. */
  readonly silentAfterMs?: number;
  readonly maxIndexEntries?: number;
}

export interface RoutedRequest extends RequestShape {
  readonly modelKey: string;
  /** Keys of the blocks that could be reused; see prefix-keys.ts. */
  readonly keys: Int32Array;
  /** Equal ones go to the same worker from all gateways, all else being equal. */
  readonly conversation: string;
  readonly excluded?: ReadonlySet<string>;
}

interface Choice {
  readonly kind: 'worker';
  readonly worker: string;
  /** In memory. */
  readonly cachedBlocks: number;
  readonly prefix: ExpectedPrefix;
  readonly expected: ExpectedTimes;
}

/** `none`: no live worker that may take it has the model. `too-large`: it would not fit even alone. */
export type Decision = Choice | Refusal | { readonly kind: 'none' } | { readonly kind: 'too-large' };

/** `restarted`: what the worker had is lost and must continue elsewhere. `old`: a newer heartbeat came before. */
export type HeartbeatOutcome = 'joined' | 'known' | 'restarted' | 'old';

/** `unknown`: no heartbeat of this worker had this model yet. */
type RouterOutcome = CacheEventOutcome | 'unknown';

const SILENT_AFTER_MS = 1500;

interface Worker {
  readonly name: string;
  readonly number: number;
  epoch: string;
  heartbeat: number;
  heardMs: number;
  assigned: number;
  models: ReadonlySet<string>;
}

interface RoutedModel {
  readonly candidates: Candidates;
  readonly fastest: FastestSpeeds;
  readonly index: PrefixIndex;
  readonly news: CacheEvents;
  readonly tiers: TierHolders;
}

export class Router {
  readonly #gateway: string;
  readonly #maxWaitMs: ByPriority;
  readonly #silentAfterMs: number;
  readonly #maxIndexEntries: number;
  readonly #workers = new Map<string, Worker>();
  readonly #freeNumbers: number[] = [];
  readonly #models = new Map<string, RoutedModel>();
  /** By worker number; all zero between decisions. */
  #cachedTokens = new Int32Array(64);
  #found: FoundPrefixes = noPrefixes(64);

  constructor(options: RouterOptions) {
    this.#gateway = options.gateway;
    this.#maxWaitMs = options.maxWaitMs ?? DEFAULT_MAX_WAIT_MS;
    this.#silentAfterMs = options.silentAfterMs ?? SILENT_AFTER_MS;
    this.#maxIndexEntries = options.maxIndexEntries ?? DEFAULT_MAX_ENTRIES;
  }

  get workers(): IterableIterator<string> {
    return this.#workers.keys();
  }

  indexOf(modelKey: string): PrefixIndex | undefined {
    return this.#models.get(modelKey)?.index;
  }

  /** Draining workers included, silent ones left out. */
  statuses(modelKey: string): readonly Candidate[] {
    return this.#models.get(modelKey)?.candidates.all ?? [];
  }

  heartbeat(heartbeat: Heartbeat, nowMs: number): HeartbeatOutcome {
    const former = this.#workers.get(heartbeat.worker);
    const worker = this.#workerOf(heartbeat);
    if (heartbeat.number <= worker.heartbeat) return 'old';
    worker.heartbeat = heartbeat.number;
    worker.heardMs = nowMs;
    const names = new Set(heartbeat.models.map(({ modelKey }) => modelKey));
    for (const modelKey of worker.models) if (!names.has(modelKey)) this.#leaveModel(worker, modelKey);
    worker.models = names;
    const heard = heartbeat.heard[this.#gateway] ?? 0;
    const gateways = Object.keys(heartbeat.heard).length;
    for (const report of heartbeat.models) {
      const { candidates, fastest, tiers } = this.#modelOf(report.modelKey);
      tiers.set(worker.number, worker.name, report.tiers);
      const known = candidates.get(worker.number);
      fastest.set(worker.number, report.speeds);
      const status = { ...report, speeds: wholeSpeeds(report.speeds, fastest.speeds) };
      if (known === undefined) {
        candidates.add({
          name: worker.name,
          worker: worker.number,
          hash: hashText(worker.name),
          status: new WorkerStatus(status, gateways, nowMs),
          draining: heartbeat.draining,
        });
        continue;
      }
      known.draining = heartbeat.draining;
      known.status.renew(status, heard, gateways, nowMs);
      candidates.refresh(worker.number);
    }
    if (former === worker) return 'known';
    return former === undefined ? 'joined' : 'restarted';
  }

  remove(name: string): void {
    const worker = this.#workers.get(name);
    if (worker === undefined) return;
    for (const modelKey of worker.models) this.#leaveModel(worker, modelKey);
    this.#workers.delete(name);
    this.#freeNumbers.push(worker.number);
  }

  /** They get nothing new; the caller decides whether to remove them. */
  silent(nowMs: number): string[] {
    return [...this.#workers.values()]
      .filter(({ heardMs }) => heardMs < nowMs - this.#silentAfterMs)
      .map(({ name }) => name);
  }

  cacheBatch(name: string, modelKey: string, batch: CacheBatch): RouterOutcome {
    const worker = this.#workers.get(name);
    if (!worker?.models.has(modelKey)) return 'unknown';
    return this.#modelOf(modelKey).news.apply(worker.number, batch);
  }

  cacheSnapshot(name: string, modelKey: string, snapshot: CacheSnapshot): RouterOutcome {
    const worker = this.#workers.get(name);
    if (!worker?.models.has(modelKey)) return 'unknown';
    return this.#modelOf(modelKey).news.replace(worker.number, snapshot);
  }

  /** By which a worker tells of its tiers; undefined where it has not said yet that it has the model. */
  tiersOf(name: string, modelKey: string): WorkerTiers | undefined {
    const worker = this.#workers.get(name);
    if (worker?.models.has(modelKey) !== true) return undefined;
    return this.#modelOf(modelKey).tiers.of(worker.number);
  }

  choose(request: RoutedRequest, nowMs: number): Decision {
    const model = this.#models.get(request.modelKey);
    if (model === undefined) return { kind: 'none' };
    const { index, tiers } = model;
    const match = index.match(request.keys, tiers.size > 0);
    for (let i = 0; i < match.count; i++) {
      this.#found.memory[match.workers[i] as number] = match.blocks[i] as number;
      this.#cachedTokens[match.workers[i] as number] = (match.blocks[i] as number) * BLOCK_TOKENS;
    }
    if (tiers.size > 0) this.#addLoadable(model);
    const decision = this.#chooseFrom(model, request, nowMs);
    for (let i = 0; i < match.count; i++) {
      this.#found.memory[match.workers[i] as number] = 0;
      this.#cachedTokens[match.workers[i] as number] = 0;
    }
    tiers.clear(this.#found);
    for (const worker of tiers.workers()) this.#cachedTokens[worker] = 0;
    return decision;
  }

  /** What workers could load counts as cached, less what loading takes. */
  #addLoadable({ tiers, candidates }: RoutedModel): void {
    tiers.find(this.#found);
    const { memory, host, disk } = this.#found;
    for (const worker of tiers.workers()) {
      const [inHost, onDisk] = [host[worker] as number, disk[worker] as number];
      const report = inHost + onDisk === 0 ? undefined : tiers.reportOf(worker);
      const speeds = candidates.get(worker)?.status.report.speeds;
      if (report === undefined || speeds === undefined) continue;
      const loadMs = loadMsOf(inHost, onDisk, report, speeds.promptTokenMs);
      if (loadMs === undefined) continue;
      const blocks = (memory[worker] as number) + inHost + onDisk;
      this.#cachedTokens[worker] = savedTokens(blocks, loadMs, speeds.promptTokenMs);
    }
  }

  #prefixOf(tiers: TierHolders, worker: number, promptTokenMs: number): ExpectedPrefix {
    const memoryBlocks = this.#found.memory[worker] as number;
    const hostBlocks = this.#found.host[worker] as number;
    const diskBlocks = this.#found.disk[worker] as number;
    const report = hostBlocks + diskBlocks === 0 ? undefined : tiers.reportOf(worker);
    const loadMs = report && loadMsOf(hostBlocks, diskBlocks, report, promptTokenMs);
    return loadMs === undefined ? inMemory(memoryBlocks) : { memoryBlocks, hostBlocks, diskBlocks, loadMs };
  }

  /** Counts what is sent to a worker for the next decisions. Undefined where the worker has left. */
  assign(name: string, request: RoutedRequest, prefix: ExpectedPrefix): Assignment | undefined {
    const worker = this.#workers.get(name);
    const candidates = this.#models.get(request.modelKey)?.candidates;
    const status = worker && candidates?.get(worker.number)?.status;
    if (worker === undefined || candidates === undefined || status === undefined) return undefined;
    worker.assigned += 1;
    const assignment: Assignment = {
      worker: name,
      modelKey: request.modelKey,
      number: worker.assigned,
      priority: request.priority,
      tokens: request.promptTokens - foundTokens(prefix),
      blocks: blocksOf(request.promptTokens) - prefix.memoryBlocks,
    };
    status.assign(assignment);
    candidates.refresh(worker.number);
    return assignment;
  }

  /** For an assignment that ended or was never sent. */
  ended(assignment: Assignment): void {
    const worker = this.#workers.get(assignment.worker);
    if (worker === undefined) return;
    const candidates = this.#models.get(assignment.modelKey)?.candidates;
    candidates?.get(worker.number)?.status.end(assignment);
    candidates?.refresh(worker.number);
  }

  #chooseFrom(model: RoutedModel, request: RoutedRequest, nowMs: number): Decision {
    const { candidates } = model;
    const conversationHash = hashText(request.conversation);
    const heardAfterMs = nowMs - this.#silentAfterMs;
    const asked = { ...request, conversationHash };
    const near = candidates.best(asked, this.#cachedTokens, request.excluded, heardAfterMs, nowMs);
    if (near.length === 0) return { kind: 'none' };
    const able = near.filter(({ status }) => fits(status, request));
    if (able.length === 0) return this.#anybodyFits(model, asked, heardAfterMs, nowMs);
    return this.#closest(able, model.tiers, request, conversationHash, nowMs);
  }

  /** Where none of the best fits the request, a larger worker may be among the rest. */
  #anybodyFits(
    { candidates, tiers }: RoutedModel,
    request: RoutedRequest & { readonly conversationHash: number },
    heardAfterMs: number,
    nowMs: number,
  ): Decision {
    const able = candidates.all.filter(
      ({ status, draining, name }) =>
        !draining &&
        status.receivedMs >= heardAfterMs &&
        !request.excluded?.has(name) &&
        fits(status, request),
    );
    if (able.length === 0) return { kind: 'too-large' };
    return this.#closest(able, tiers, request, request.conversationHash, nowMs);
  }

  /** The least cost; among equally good ones the one with most cached blocks, then the highest rank. */
  #closest(
    able: readonly Candidate[],
    tiers: TierHolders,
    request: RoutedRequest,
    conversationHash: number,
    nowMs: number,
  ): Decision {
    const looked = able.map((candidate) => {
      const { worker, status } = candidate;
      const prefix = this.#prefixOf(tiers, worker, status.report.speeds.promptTokenMs);
      const cachedTokens = this.#cachedTokens[worker] ?? 0;
      return { candidate, prefix, cachedTokens, expected: expectedTimes(status, request, prefix, nowMs) };
    });
    const leastMs = Math.min(...looked.map(({ expected }) => costMs(expected)));
    const [first] = looked
      .filter(({ expected }) => costMs(expected) <= leastMs * (1 + TIE_SHARE))
      .sort(
        (a, b) =>
          b.cachedTokens - a.cachedTokens ||
          rank(conversationHash, b.candidate.hash) - rank(conversationHash, a.candidate.hash),
      ) as [(typeof looked)[number]];
    const refusal = refuse(first.expected.waitMs, request.priority, this.#maxWaitMs);
    if (refusal !== undefined) return refusal;
    const { candidate, prefix, expected } = first;
    const { memoryBlocks: cachedBlocks } = prefix;
    return { kind: 'worker', worker: candidate.name, cachedBlocks, prefix, expected };
  }

  #workerOf({ worker: name, epoch }: Heartbeat): Worker {
    const known = this.#workers.get(name);
    if (known?.epoch === epoch) return known;
    // Known state belongs to the worker's previous life.
    this.remove(name);
    const number = this.#freeNumbers.pop() ?? this.#workers.size;
    if (number >= this.#cachedTokens.length) {
      this.#cachedTokens = new Int32Array(2 * this.#cachedTokens.length);
      this.#found = noPrefixes(this.#cachedTokens.length);
    }
    const fresh: Worker = {
      name,
      number,
      epoch,
      heartbeat: 0,
      heardMs: 0,
      assigned: 0,
      models: new Set(),
    };
    this.#workers.set(name, fresh);
    return fresh;
  }

  #modelOf(modelKey: string): RoutedModel {
    const known = this.#models.get(modelKey);
    if (known !== undefined) return known;
    const index = new PrefixIndex(this.#maxIndexEntries);
    const fresh = {
      candidates: new Candidates(),
      fastest: new FastestSpeeds(),
      index,
      news: new CacheEvents(index),
      tiers: new TierHolders(index),
    };
    this.#models.set(modelKey, fresh);
    return fresh;
  }

  #leaveModel({ number }: Worker, modelKey: string): void {
    const model = this.#models.get(modelKey);
    if (model === undefined) return;
    model.candidates.remove(number);
    model.fastest.delete(number);
    model.news.forget(number);
    model.tiers.delete(number);
    if (model.candidates.all.length === 0) this.#models.delete(modelKey);
  }
}

function noPrefixes(workers: number): FoundPrefixes {
  const none = () => new Int32Array(workers);
  return { memory: none(), host: none(), disk: none() };
}
