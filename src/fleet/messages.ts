// The messages between the nodes of a fleet. Any message may be lost: those that matter are repeated until they have taken
// effect, and a repeated one changes nothing.

import type { EngineStats } from '../engine/engine.ts';
import type {
  EngineRequest,
  FinishEvent,
  Logprobs,
  PromptPicture,
  PromptPictures,
} from '../engine/request.ts';
import type { TierName } from '../engine/scheduler/lower-tiers.ts';
import type { BlockDemand } from '../engine/scheduler/stats.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { ModelState } from '../pool/model-pool.ts';
import type { StopToken } from '../sampling/stop-condition.ts';
import type { CacheBatch, CachePiece, CacheSnapshot } from './routing/cache-events.ts';
import type { TokensByTier } from './routing/expected-prefix.ts';
import type { ModelReport } from './routing/heartbeat.ts';
import type { TextSide } from './text-side.ts';

/** Nodes with other numbers do not understand each other, and leave each other out. */
export const PROTOCOL = 4;

export interface NodeStatus {
  readonly protocol: number;
  readonly node: string;
  /** Random, another one for each process: what an earlier process was given is gone. */
  readonly start: string;
  readonly roles: readonly ('worker' | 'gateway')[];
  readonly version: string;
  readonly draining: boolean;
  /** For weights and KV cache together. */
  readonly memoryBytes: number;
  /** 1, 2, 3, … within a process. */
  readonly number: number;
  /** By the sender's clock, in milliseconds since 1970: shows people where clocks differ. */
  readonly sentMs: number;
  /** None in the summary of a gateway, which goes to all nodes. */
  readonly models: readonly ModelStatus[];
  /** By gateway: the last of its requests that this status includes. */
  readonly heard: Readonly<Record<string, number>>;
  /** By gateways: where models should be loaded. Absent from those that cannot know. */
  readonly placed?: PlacedNodes | undefined;
  readonly leaving?: boolean;
}

/** By model: the workers that should have it loaded. */
export type PlacedNodes = Readonly<Record<string, readonly string[]>>;

/** A worker's status as what has changed in it. */
export interface ChangedStatus
  extends Pick<NodeStatus, 'protocol' | 'node' | 'start' | 'version' | 'number' | 'sentMs'> {
  /** The number of the whole status that it is a change of. */
  readonly since: number;
  readonly change: Partial<NodeStatus> | undefined;
}

/** Whatever the protocol, a message has its number, and who sent it. */
export type StatusMessage = NodeStatus | ChangedStatus;

export interface ModelStatus {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly adapterOf?: string | undefined;
  /** Of its weights, and of its adapter's: equal keys, equal models. */
  readonly key: string;
  /** What it reads images with: equal where features are. Absent where it reads none, or its node does not know images. */
  readonly vision?: string | undefined;
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

export interface ModelLoad extends Omit<ModelReport, 'modelKey'> {
  /** Since its engine was loaded, with pieces of images: one that has work and makes none is stuck. */
  readonly steps: number;
  /** Of those that wait: they wait for their pictures, and not for the engine. */
  readonly preparing?: number | undefined;
  /** Absent from workers of earlier versions. */
  readonly work?: ModelWork | undefined;
}

/** What the scheduler does, for people: nothing is decided by it. */
export interface ModelWork {
  readonly steps: StepRates;
  readonly blocks: WorkBlocks;
}

/** Over the last second or two. */
export interface StepRates {
  readonly stepsPerSecond: number;
  /** Means of these steps. */
  readonly tokensPerStep: number;
  readonly sequencesPerStep: number;
}

/** `limit`: those that may hold memory now; `cached`: not in use, and found by prefix; `shared`: of those in use, by several. */
export type WorkBlocks = Pick<BlockDemand, 'limit' | 'used' | 'cached' | 'shared'>;

/** One attempt at a request, counted. Later attempts have higher numbers, and the higher one counts. */
export interface Attempt {
  readonly id: string;
  readonly attempt: number;
}

/** A request without the time at which it came, and without the files of its pictures. */
export type AgedRequest = EngineRequest extends infer One
  ? One extends EngineRequest
    ? Omit<One, 'enqueuedMs' | 'pictures'> & { readonly pictures?: NamedPictures | undefined }
    : never
  : never;

/** A picture whose file the worker asks for, if it lacks what becomes of it. */
export interface NamedPicture extends Omit<PromptPicture, 'file'> {
  readonly bytes: number;
}

export interface NamedPictures extends Pick<PromptPictures, 'rotaryPositions'> {
  readonly images: readonly NamedPicture[];
}

export type ToWorker =
  | (Attempt & {
      readonly kind: 'submit';
      readonly gateway: string;
      /** Of the gateway's requests to this worker: 1, 2, 3, … */
      readonly number: number;
      /** Tokens the worker probably need not compute; 0 where unknown. */
      readonly cachedTokens?: number;
      /** Of them, where they were expected to be: for traces. */
      readonly expected?: TokensByTier | undefined;
      readonly model: string;
      /** Since the request came: clocks of different machines are never compared. */
      readonly ageMs: number;
      /** The worker finds its adapter by the model's name. */
      readonly request: AgedRequest;
    })
  | (Attempt & { readonly kind: 'cancel' })
  /** Everything after the first `count` tokens did not arrive. */
  | (Attempt & { readonly kind: 'repeat'; readonly gateway: string; readonly count: number })
  /** The gateway has the whole answer. */
  | (Attempt & { readonly kind: 'settled' })
  /** A part of the file of a picture, from that byte on. */
  | (PicturePlace & { readonly kind: 'picture'; readonly content: Uint8Array })
  | { readonly kind: 'vocabulary'; readonly model: string; readonly tables: VocabularyTables };

interface PicturePlace extends Attempt {
  /** Which of the request's. */
  readonly picture: number;
  readonly offset: number;
}

/** Tokens of an answer from index `from` on, and its end where it has one. */
export interface AnswerUpdate extends Attempt {
  readonly from: number;
  readonly tokens: readonly number[];
  readonly logprobs?: readonly Logprobs[] | undefined;
  /** Of the last of them, where it ends the answer. */
  readonly stop?: StopToken | undefined;
  readonly finish?: FinishEvent | undefined;
  /** It cannot continue here; another worker may take it. */
  readonly returned?: Returned | undefined;
}

export interface Returned {
  readonly reason: string;
  /** The request may have caused the failure: few workers should try it. */
  readonly suspect: boolean;
}

/** How far each request of a gateway is; shows whether something is missing. */
export interface AnswerProgress extends Attempt {
  readonly count: number;
  readonly ended: boolean;
  /** Its pictures are not there yet: they may turn out not to be readable. */
  readonly preparing?: boolean | undefined;
}

export type ToGateway =
  /** Another gateway has the request now. */
  | (Attempt & { readonly kind: 'superseded'; readonly worker: string; readonly start: string })
  /** Wants so many bytes of a picture's file from there on. */
  | (PicturePlace & {
      readonly kind: 'picture';
      readonly worker: string;
      readonly start: string;
      readonly bytes: number;
    })
  | {
      readonly kind: 'news';
      readonly worker: string;
      readonly start: string;
      readonly news: readonly AnswerUpdate[];
    }
  | {
      readonly kind: 'standing';
      readonly worker: string;
      readonly start: string;
      readonly standing: readonly AnswerProgress[];
    };

export interface PrefixMessage {
  readonly worker: string;
  readonly model: string;
  readonly batch: CacheBatch;
}

/** What lies below the memory of a model. */
export interface StoredMessage {
  readonly worker: string;
  readonly stored: { readonly model: string; readonly tier: TierName };
  readonly batch: CacheBatch;
}

export type Question =
  | { readonly kind: 'load'; readonly model: string }
  | { readonly kind: 'unload'; readonly model: string }
  /** How long it stays loaded without requests. */
  | { readonly kind: 'keep'; readonly model: string; readonly idleMs: number }
  | { readonly kind: 'stats'; readonly model: string }
  | { readonly kind: 'drain'; readonly on: boolean }
  /** The files a gateway needs to tokenize and detokenize. */
  | { readonly kind: 'text-side'; readonly model: string }
  | {
      readonly kind: 'text-part';
      readonly model: string;
      readonly file: string;
      readonly offset: number;
      readonly bytes: number;
    }
  | { readonly kind: 'prefixes'; readonly model: string }
  /** A piece of what a tier holds, before the place that the last piece named; it is published from then on. */
  | {
      readonly kind: 'stored';
      readonly model: string;
      readonly tier: TierName;
      readonly before?: number | undefined;
    }
  /** The whole status that changes are published of. */
  | { readonly kind: 'status' }
  /** What a worker has of an answer that this gateway takes over; earlier attempts of others end. */
  | (Attempt & { readonly kind: 'answer'; readonly gateway: string });

interface KnownAnswer {
  readonly attempt: number;
  readonly model: string;
  readonly tokens: readonly number[];
  readonly stop?: StopToken | undefined;
  readonly finish?: FinishEvent | undefined;
}

export type Answer =
  | { readonly kind: 'done' }
  | { readonly kind: 'status'; readonly status: NodeStatus }
  | { readonly kind: 'prefixes'; readonly snapshot: CacheSnapshot }
  | { readonly kind: 'stored'; readonly piece: CachePiece }
  | { readonly kind: 'stats'; readonly stats: EngineStats }
  | { readonly kind: 'text-side'; readonly side: TextSide }
  | { readonly kind: 'text-part'; readonly content: Uint8Array }
  | {
      readonly kind: 'answer';
      readonly found?: KnownAnswer | undefined;
    }
  | { readonly kind: 'refused'; readonly reason: string };
