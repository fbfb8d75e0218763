// What the page receives, as plain data: the last hour and one snapshot when it subscribes, then a tick every quarter of a second.

import type { EngineSnapshot } from '../../engine/live/snapshot.ts';
import type { EndReason } from '../../engine/request.ts';
import type { ModelEntry } from '../../pool/model-pool.ts';
import type { Tier } from '../../store/key-record.ts';

export interface WhoAmI {
  readonly version: string;
  readonly anonymous: boolean;
  readonly admin: boolean;
  readonly name?: string;
  readonly tier: Tier;
  readonly keysNeeded: boolean;
  /** Prompts are logged, and kept with the traces of requests. */
  readonly logPrompts: boolean;
  /** Whether the caller may download models from the hub. */
  readonly canPull: boolean;
  readonly hasKeyStore: boolean;
  readonly inFleet: boolean;
  /** What this address has: where administrators have one of their own, each has one of the two. */
  readonly here: { readonly clients: boolean; readonly admins: boolean };
}

/** Sent as `snapshot`: first, again after ticks were dropped, and in place of a tick where engines came or went. */
export interface LiveSnapshot extends LiveTick {
  readonly version: string;
  /** When this server started, in milliseconds since 1970: another one means that it was restarted. */
  readonly startedMs: number;
  readonly tickMs: number;
}

export interface LiveTick {
  readonly atMs: number;
  readonly models: readonly ModelEntry[];
  readonly engines: readonly EngineTick[];
  readonly requests: { readonly running: number; readonly queued: number };
  /** Over the last minute, in milliseconds; absent where nothing was measured. */
  readonly firstToken?: Percentiles;
  readonly betweenTokens?: Percentiles;
  /** Requests that ended since the last tick, the newest last; the last 200 where there were more. */
  readonly ended: readonly EndedRequest[];
  readonly memory: { readonly usedBytes: number; readonly allowedBytes: number };
}

/** Sent as `history`, before all else: a list of five seconds each, in which something happened, of the last hour. */
export interface HistoryPoint {
  /** When they ended. */
  readonly atMs: number;
  /** Of requests that ended in them. */
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** Over the minute before. */
  readonly firstToken?: Percentiles;
  readonly betweenTokens?: Percentiles;
}

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** Changes since the last tick; in a `snapshot` every one is whole. */
export interface EngineTick extends EngineSnapshot {
  readonly model: string;
  /** Engine processes of this model so far: one more means that it died and was started again. */
  readonly starts: number;
}

/** Why a request did not wait for its model. */
export type FallbackReason = 'loading' | 'does-not-fit' | 'failed' | 'queue-full' | 'long-wait';

/** Of a request that an upstream answered. */
export interface UpstreamUse {
  readonly name: string;
  /** What the upstream calls the model. */
  readonly model: string;
  /** Set where the upstream stood in for a model that is here. */
  readonly fallback?: { readonly model: string; readonly reason: FallbackReason };
}

export interface EndedRequest {
  readonly requestId: string;
  readonly model: string;
  readonly upstream?: UpstreamUse;
  readonly tier: Tier;
  readonly outcome: string;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly firstTokenMs?: number;
  readonly totalMs: number;
}

/** One of `data` of `GET /requests`. While it runs, counts are as far as it has come, and its outcome is `running`. */
export interface RequestBrief extends EndedRequest {
  readonly kind: 'completion' | 'embedding';
  readonly keyId: string;
  readonly keyName?: string;
  readonly arrivedMs: number;
  readonly running: boolean;
}

/** One of `refusals` of `GET /requests`: it never reached an engine. */
export interface RefusedRequest {
  readonly requestId: string;
  readonly atMs: number;
  readonly route: string;
  readonly status: number;
  readonly code?: string;
  readonly reason: string;
  readonly keyName?: string;
}

export interface RequestTrace extends RequestBrief {
  /** The first 200, and its end. */
  readonly events: readonly TraceEvent[];
  /** Of the first 32 choices, as far as they were admitted. */
  readonly lookups: readonly PrefixLookup[];
  /** Only where prompts are logged, and for admins and the key that sent it. The first 4000 characters. */
  readonly prompt?: string;
  /** Of the first 32 choices. */
  readonly endReasons: readonly EndReason[];
}

export interface TraceEvent {
  readonly atMs: number;
  readonly what:
    | 'arrived'
    | 'submitted'
    | 'admitted'
    | 'first-token'
    | 'preempted'
    | 'resumed'
    | 'engine-died'
    | 'ended';
  readonly choice?: number;
}

/** How much of a prompt was found in the prefix cache, and why the rest was not. */
export interface PrefixLookup {
  readonly choice: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /**
   * `end`: nothing more could be found, because less than a block was left, or the last token must be computed. `new`:
   * no request has computed it, as far as is known. `differs`: what was computed after the same prefix begins alike.
   * `evicted`: it was there, and its block was taken. `tenant`: another key has it, sent to admins alone. `not-shared`:
   * the model's blocks cannot be shared, or not there. `not-loaded`: it lay in a lower tier, and would have taken longer to come up
   * than to compute.
   */
  readonly why: 'end' | 'new' | 'differs' | 'evicted' | 'tenant' | 'not-shared' | 'not-loaded';
  /** With `not-loaded`: where it lay. */
  readonly tier?: 'host' | 'disk';
  /** Of the cached tokens, those that came up from a lower tier; absent where there are none. */
  readonly loadedTokens?: number;
  /** With `differs`: the first token of the prompt that is another one than in the nearest cached block. */
  readonly firstDifference?: number;
}

export interface BenchRequest {
  readonly model?: string | undefined;
  readonly streams: number;
  readonly requests: number;
  readonly promptTokens: number;
  readonly answerTokens: number;
}

export interface BenchProgress {
  readonly phase: 'calibrate' | 'warm-up' | 'load';
  readonly total: number;
  readonly done: number;
  readonly running: number;
  readonly errors: number;
  readonly chunks: number;
}

export interface BenchTable {
  readonly headings: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Sent as `result`, the last event; where it comes to nothing, `error` with an error's body comes instead. */
export interface BenchResult {
  readonly headlines: readonly (readonly [name: string, value: string])[];
  readonly rows: readonly (readonly [name: string, value: string])[];
  readonly latency: BenchTable;
  readonly failures?: BenchTable;
  readonly notes: readonly string[];
  readonly plots: readonly string[];
}
