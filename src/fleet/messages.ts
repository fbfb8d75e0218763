// What the nodes of a fleet say to each other. Any message may be lost: those that matter are said again until they have taken
// effect, and saying one twice changes nothing.

import type { EngineStats } from '../engine/engine.ts';
import type { EngineRequest, FinishEvent, Logprobs } from '../engine/request.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { ModelState } from '../pool/model-pool.ts';
import type { CacheBatch, CacheSnapshot } from './routing/cache-news.ts';
import type { ModelReport } from './routing/heartbeat.ts';
import type { TextSide } from './text-side.ts';

/** Nodes of another number do not understand each other. */
export const PROTOCOL = 1;

export interface NodeStatus {
  readonly protocol: number;
  readonly node: string;
  /** Another one for each process: what an earlier one was given is gone. */
  readonly start: string;
  readonly roles: readonly ('worker' | 'gateway')[];
  readonly version: string;
  /** Takes nothing new. */
  readonly draining: boolean;
  /** What weights and KV may take together. */
  readonly memoryBytes: number;
  /** 1, 2, 3, … in the life of a process. */
  readonly number: number;
  /** Of a worker. */
  readonly models: readonly ModelStatus[];
  /** By gateway, the last of its requests that this takes into account. */
  readonly heard: Readonly<Record<string, number>>;
  /** It leaves for good. */
  readonly leaving?: boolean;
}

export interface ModelStatus {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly adapterOf?: string | undefined;
  /** Of its weights, and of its adapter's: equal keys, equal models. */
  readonly key: string;
  /** Within one, answers are the same bits: a request that has begun goes on in its own alone. */
  readonly determinism: string;
  readonly state: ModelState;
  readonly isDefault: boolean;
  readonly pinned: boolean;
  readonly createdSeconds: number;
  readonly memoryBytes?: number | undefined;
  /** What its weights take, loaded or not. */
  readonly weightBytes: number;
  readonly computedBy?: string | undefined;
  /** Of one that is loaded. */
  readonly load?: ModelLoad | undefined;
}

export type ModelLoad = Omit<ModelReport, 'modelKey'>;

/** One try at a request. Each further try has a higher number; who hears of two believes the higher one. */
export interface Attempt {
  readonly id: string;
  readonly attempt: number;
}

export type ToWorker =
  | (Attempt & {
      readonly kind: 'submit';
      readonly gateway: string;
      /** Of the gateway's requests to this worker: 1, 2, 3, … */
      readonly number: number;
      /** What the worker probably has of it in its cache; 0 where nobody says. */
      readonly cachedTokens?: number;
      readonly model: string;
      /** Its adapter is the worker's business, by the model's name. */
      readonly request: EngineRequest;
    })
  | (Attempt & { readonly kind: 'cancel' })
  /** What came after the first `count` tokens did not arrive. */
  | (Attempt & { readonly kind: 'repeat'; readonly gateway: string; readonly count: number })
  /** The gateway has all of it. */
  | (Attempt & { readonly kind: 'settled' })
  | { readonly kind: 'vocabulary'; readonly model: string; readonly tables: VocabularyTables };

/** Tokens of an answer from the one numbered `from` on, and its end where it is there. */
export interface AnswerNews extends Attempt {
  readonly from: number;
  readonly tokens: readonly number[];
  /** Of each, where they were asked for. */
  readonly logprobs?: readonly Logprobs[] | undefined;
  readonly finish?: FinishEvent | undefined;
  /** It cannot go on here; another one may take it. */
  readonly returned?: Returned | undefined;
}

export interface Returned {
  readonly reason: string;
  /** It may have been the request's own fault: not everybody should try. */
  readonly suspect: boolean;
}

/** How far each request of a gateway is: tells who has missed something. */
export interface AnswerStanding extends Attempt {
  readonly count: number;
  readonly ended: boolean;
}

export type ToGateway =
  | {
      readonly kind: 'news';
      readonly worker: string;
      readonly start: string;
      readonly news: readonly AnswerNews[];
    }
  | {
      readonly kind: 'standing';
      readonly worker: string;
      readonly start: string;
      readonly standing: readonly AnswerStanding[];
    };

/** What entered and left the prefix cache of a model. */
export interface PrefixMessage {
  readonly worker: string;
  readonly model: string;
  readonly batch: CacheBatch;
}

export type Question =
  | { readonly kind: 'load'; readonly model: string }
  | { readonly kind: 'unload'; readonly model: string }
  /** How long it stays without requests. */
  | { readonly kind: 'keep'; readonly model: string; readonly idleMs: number }
  | { readonly kind: 'stats'; readonly model: string }
  | { readonly kind: 'drain'; readonly on: boolean }
  /** Which files a gateway needs of a model to read and write its text. */
  | { readonly kind: 'text-side'; readonly model: string }
  | {
      readonly kind: 'text-part';
      readonly model: string;
      readonly file: string;
      readonly offset: number;
      readonly bytes: number;
    }
  /** All prefixes in the cache of a model. */
  | { readonly kind: 'prefixes'; readonly model: string }
  /** Tokens of an answer whose gateway is gone. */
  | { readonly kind: 'answer'; readonly id: string };

/** What a worker has of an answer, whoever it was for. */
interface KnownAnswer {
  readonly attempt: number;
  readonly model: string;
  readonly tokens: readonly number[];
  readonly finish?: FinishEvent | undefined;
}

export type Answer =
  | { readonly kind: 'done' }
  | { readonly kind: 'prefixes'; readonly snapshot: CacheSnapshot }
  | { readonly kind: 'stats'; readonly stats: EngineStats }
  | { readonly kind: 'text-side'; readonly side: TextSide }
  | { readonly kind: 'text-part'; readonly content: Uint8Array }
  | {
      readonly kind: 'answer';
      /** Absent where nothing is known of it. */
      readonly found?: KnownAnswer | undefined;
    }
  | { readonly kind: 'refused'; readonly reason: string };
