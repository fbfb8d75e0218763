// What all routes share: what the server was given, and the parts it made from that.

import type { FastifyBaseLogger } from 'fastify';
import type { AnswerGrammars } from '../generation/answer-grammars.ts';
import type { PictureWorkers } from '../images/picture-workers.ts';
import type { Hub } from '../pool/hub.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import type { ModelOnDisk } from '../pool/model-registry.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { ShortNames } from '../pool/short-names.ts';
import type { Seed } from '../sampling/random.ts';
import type { BackgroundStore } from '../store/background-store.ts';
import type { BatchLines } from '../store/batch-lines.ts';
import type { BatchStore } from '../store/batch-store.ts';
import type { FileStore } from '../store/file-store.ts';
import type { KeyStore } from '../store/key-store.ts';
import type { ResponseStore } from '../store/response-store.ts';
import type { UsageStore } from '../store/usage-store.ts';
import type { EncodeWorkers } from '../text/encode-workers.ts';
import type { Tracer } from '../tracing/tracer.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import type { EffectiveSettings } from './effective-settings.ts';
import type { ApiError } from './http/errors.ts';
import type { KeyLimiter } from './limits/key-limiter.ts';
import type { TypicalAnswer } from './limits/typical-answer.ts';
import type { History } from './live/history.ts';
import type { BenchProgress, BenchRequest, BenchResult } from './live/live-event.ts';
import type { LiveFeed } from './live/live-feed.ts';
import type { SlidingPercentiles } from './live/recent-measurements.ts';
import type { Refusals } from './live/refusals.ts';
import type { RequestTraces } from './live/request-traces.ts';
import type { DefaultAdapters } from './llama-server/default-adapters.ts';
import type { CreatedModels } from './ollama/created-models.ts';
import type { Activity } from './request/activity.ts';
import type { Admission } from './request/admission.ts';
import type { Caller, Keys } from './request/auth.ts';
import type { RequestFeed } from './request/request-feed.ts';
import type { ConversationItem } from './responses/items.ts';
import type { ServerSettings } from './settings.ts';
import type { FleetFigures } from './status/fleet-metrics.ts';
import type { HealthCheck, Readiness } from './status/health.ts';
import type { Metrics } from './status/metrics.ts';

export interface KeptRequest {
  readonly id: string;
  readonly keyId: string;
  readonly route: string;
  readonly body: string;
  readonly answerId: string;
  readonly seed: Seed;
  readonly arrivedMs: number;
  /** How often a client has come back to it. Default 0. */
  readonly takeovers?: number | undefined;
  readonly counted?: CountedTokens | undefined;
  /** Nothing is charged but with its whole answer. */
  readonly chargedWithAnswer?: boolean | undefined;
  /** The name of the model that was meant, and the settings that decided the answer where the request said nothing. */
  readonly model: string;
  readonly settings: AnswerSettings;
  /** What else the answer follows from. Absent where an older version kept it. */
  readonly basis?: AnswerBasis | undefined;
  /** How the answer ended here. Absent while it is given. */
  readonly ended?: 'whole' | 'cut' | undefined;
  /** Tokens of each choice, as far as is known. Absent where those that compute keep them. */
  readonly tokens?: readonly (readonly number[])[] | undefined;
}

export interface AnswerBasis {
  /** A hash of the prompts' tokens and images: templates and settings may read the same body otherwise. */
  readonly prompts: string;
  /** Tokens of each prompt. */
  readonly promptTokens: readonly number[];
  /** Answers to each prompt. */
  readonly choices: number;
  /** What the model's files are and what computes. Absent where engines are chosen by that. */
  readonly origin?: string | undefined;
  readonly fingerprint: string;
}

export type AnswerSettings = Pick<ServerSettings, 'samplingDefaults' | 'useModelSampling' | 'thinking'>;

export interface CountedTokens {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

export interface RequestArchive {
  /** Resolves with false where it is not kept and the archive has said why. */
  keep(request: KeptRequest): Promise<boolean>;
  /** What it returns is called with each token that a client was sent. Absent where those that compute keep tokens. */
  follow?(answerId: string): (choice: number, token: number) => void;
  /** Finds requests of this key alone; undefined where there is none, or none any more. */
  find(keyId: string, id: string): Promise<KeptRequest | undefined>;
}

export interface BenchRun {
  readonly key: string | undefined;
  readonly signal: AbortSignal;
  onProgress(progress: BenchProgress): void;
}

export type Bench = (asked: BenchRequest, run: BenchRun) => Promise<BenchResult>;

interface Fleet {
  figures(): Promise<FleetFigures>;
  view(): Promise<object>;
  work(most: number): object;
  place(placement: {
    readonly model: string;
    readonly replicas: number;
    readonly nodes: readonly string[];
  }): Promise<string | undefined>;
  drain(node: string, on: boolean): Promise<string | undefined>;
}

export interface TlsPair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

export interface ModelDownloads {
  readonly folder: string;
  readonly hub: Hub;
  readonly shortNames?: ShortNames;
}

export interface BatchDeps {
  readonly store: BatchStore;
  readonly lines: BatchLines;
  /** The name under which this server takes lines; no other server has it, nor this one after a restart. */
  readonly owner: string;
  /** What this server may run of the lines that all servers on this database may run at once; all of them where absent. */
  readonly share?: ((total: number) => number) | undefined;
}

export interface BackgroundDeps {
  readonly store: BackgroundStore;
  /** The name under which this server answers them; no other server has it, nor this one after a restart. */
  readonly owner: string;
}

export interface ServerDeps {
  readonly pool: ModelPool;
  /** Servers elsewhere whose models are asked for here; closed with the server. */
  readonly upstreams?: Upstreams | undefined;
  readonly keys?: Keys | undefined;
  readonly keyStore?: Pick<KeyStore, 'createKey' | 'list' | 'revoke'> | undefined;
  readonly limiter: KeyLimiter;
  readonly usage?: Pick<UsageStore, 'record' | 'recordOnce' | 'written' | 'report'> | undefined;
  readonly responses?: ResponseStore<ConversationItem> | undefined;
  /** Archives requests, so that clients can resume them; without it they cannot. */
  readonly archive?: RequestArchive | undefined;
  /** What a model's answers follow from, beside the request: they cannot be gone on with where it is something else. */
  readonly originOf?: ((model: ServedModel) => string | undefined) | undefined;
  readonly fleet?: Fleet | undefined;
  /** Of a fleet: the largest difference between this node's clock and another's. */
  readonly clockSkewMs?: (() => number) | undefined;
  /** Takes traces of requests; without it nobody does. */
  readonly tracer?: Tracer | undefined;
  /** Of traces: spans that a collector has, and that nobody will have. */
  readonly spanCounts?: { readonly exported: number; readonly dropped: number } | undefined;
  /** Stores the files of clients; without it there are neither files nor batches. */
  readonly files?: FileStore | undefined;
  readonly batches?: BatchDeps | undefined;
  /** Stores responses that no client waits for until they have ended; without it there are none. */
  readonly background?: BackgroundDeps | undefined;
  /** Models on this machine that cannot be served, and why. */
  readonly brokenModels?: (() => readonly ModelOnDisk[]) | undefined;
  /** Where models are pulled from and to; without it pulls are refused. */
  readonly downloads?: ModelDownloads | undefined;
  readonly settings: ServerSettings;
  /** For admins to read. */
  readonly effectiveSettings?: (() => Promise<EffectiveSettings>) | undefined;
  readonly tls?: TlsPair | undefined;
  readonly logger: FastifyBaseLogger;
  readonly version: string;
  readonly bench?: Bench | undefined;
  readonly pageFolder?: string | undefined;
}

export interface ServerContext extends ServerDeps {
  /** Repositories being pulled, `owner/repo`: two pulls of one would write the same files, and its files are not whole yet. */
  readonly runningPulls: Set<string>;
  readonly admission: Admission;
  readonly activity: Activity;
  readonly encoders: EncodeWorkers;
  readonly pictures: PictureWorkers;
  readonly grammars: AnswerGrammars;
  readonly feed: RequestFeed;
  readonly health: HealthCheck;
  readonly live: LiveFeed;
  readonly traces: RequestTraces;
  readonly history: History;
  readonly refusals: Refusals;
  readonly firstToken: SlidingPercentiles;
  readonly betweenTokens: SlidingPercentiles;
  readonly metrics: Metrics;
  readonly readiness: Readiness;
  readonly typicalAnswer: TypicalAnswer;
  readonly createdModels: CreatedModels;
  readonly defaultAdapters: DefaultAdapters;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    errorBody?: (error: ApiError, request: FastifyRequest) => object;
    /** A header that holds the request's id, in addition to x-request-id. */
    idHeader?: string;
    takesForm?: boolean;
  }
  interface FastifyRequest {
    caller: Caller | undefined;
    /** When the request arrived, on the monotonic clock. */
    arrivedMs: number;
  }
}
