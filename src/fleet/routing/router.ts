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
import { FastestSpeeds } from './fastest-speeds.ts';
import { type ByPriority, type Heartbeat, wholeSpeeds } from './heartbeat.ts';
import { DEFAULT_MAX_ENTRIES, PrefixIndex } from './prefix-index.ts';
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
  readonly cachedBlocks: number;
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
      const { candidates, fastest } = this.#modelOf(report.modelKey);
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

  choose(request: RoutedRequest, nowMs: number): Decision {
    const model = this.#models.get(request.modelKey);
    if (model === undefined) return { kind: 'none' };
    const match = model.index.match(request.keys);
    for (let i = 0; i < match.count; i++) {
      this.#cachedTokens[match.workers[i] as number] = (match.blocks[i] as number) * BLOCK_TOKENS;
    }
    const decision = this.#chooseFrom(model.candidates, request, nowMs);
    for (let i = 0; i < match.count; i++) this.#cachedTokens[match.workers[i] as number] = 0;
    return decision;
  }

  /** Counts what is sent to a worker for the next decisions. Undefined where the worker has left. */
  assign(name: string, request: RoutedRequest, cachedBlocks: number): Assignment | undefined {
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
      tokens: request.promptTokens - cachedBlocks * BLOCK_TOKENS,
      blocks: blocksOf(request.promptTokens) - cachedBlocks,
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

  #chooseFrom(candidates: Candidates, request: RoutedRequest, nowMs: number): Decision {
    const conversationHash = hashText(request.conversation);
    const heardAfterMs = nowMs - this.#silentAfterMs;
    const asked = { ...request, conversationHash };
    const near = candidates.best(asked, this.#cachedTokens, request.excluded, heardAfterMs, nowMs);
    if (near.length === 0) return { kind: 'none' };
    const able = near.filter(({ status }) => fits(status, request));
    if (able.length === 0) return this.#anybodyFits(candidates, asked, heardAfterMs, nowMs);
    return this.#closest(able, request, conversationHash, nowMs);
  }

  /** Where none of the best fits the request, a larger worker may be among the rest. */
  #anybodyFits(
    candidates: Candidates,
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
    return this.#closest(able, request, request.conversationHash, nowMs);
  }

  /** The least cost; among equally good ones the one with most cached blocks, then the highest rank. */
  #closest(
    able: readonly Candidate[],
    request: RoutedRequest,
    conversationHash: number,
    nowMs: number,
  ): Decision {
    const looked = able.map((candidate) => {
      const cachedBlocks = (this.#cachedTokens[candidate.worker] ?? 0) / BLOCK_TOKENS;
      return {
        candidate,
        cachedBlocks,
        expected: expectedTimes(candidate.status, request, cachedBlocks, nowMs),
      };
    });
    const leastMs = Math.min(...looked.map(({ expected }) => costMs(expected)));
    const [first] = looked
      .filter(({ expected }) => costMs(expected) <= leastMs * (1 + TIE_SHARE))
      .sort(
        (a, b) =>
          b.cachedBlocks - a.cachedBlocks ||
          rank(conversationHash, b.candidate.hash) - rank(conversationHash, a.candidate.hash),
      ) as [(typeof looked)[number]];
    const refusal = refuse(first.expected.waitMs, request.priority, this.#maxWaitMs);
    if (refusal !== undefined) return refusal;
    const { candidate, cachedBlocks, expected } = first;
    return { kind: 'worker', worker: candidate.name, cachedBlocks, expected };
  }

  #workerOf({ worker: name, epoch }: Heartbeat): Worker {
    const known = this.#workers.get(name);
    if (known?.epoch === epoch) return known;
    // Known state belongs to the worker's previous life.
    this.remove(name);
    const number = this.#freeNumbers.pop() ?? this.#workers.size;
    if (number >= this.#cachedTokens.length) {
      this.#cachedTokens = new Int32Array(2 * this.#cachedTokens.length);
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
    if (model.candidates.all.length === 0) this.#models.delete(modelKey);
  }
}
