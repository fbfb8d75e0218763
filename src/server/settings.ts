// What the HTTP edge may be told: limits, timeouts, manners. Frozen for the life of a server.

import type { SamplingDefaults } from '../sampling/parameters.ts';
import type { Tier } from '../store/key-record.ts';

export interface ServerSettings {
  readonly bodyLimitBytes: number;
  readonly maxMessages: number;
  /** Of one text: a message's content, a prompt. In UTF-16 units. */
  readonly maxTextCharacters: number;
  /** Prompts in one request to /v1/completions. */
  readonly maxPrompts: number;
  /** Texts in one request to /v1/embeddings, documents in one to /v1/rerank. */
  readonly maxEmbeddingInputs: number;
  /** Answers to one prompt. */
  readonly maxChoices: number;
  /** Requests of one model that have no token yet. */
  readonly maxQueuedRequests: number;
  /** Their sequences that have no token yet: answers to each prompt, texts to embed. */
  readonly maxQueuedSequences: number;
  /** Their prompt tokens together. */
  readonly maxQueuedTokens: number;
  /** No request takes longer, infinity for no limit; a client may ask for less with `x-chairlift-timeout-ms`. */
  readonly requestTimeoutMs: number;
  /** A request body of which nearly nothing comes for so long is given up. */
  readonly bodyStallMs: number;
  /** A silent stream sends a comment this often, so that nothing between takes it for dead. */
  readonly keepAliveMs: number;
  /** Running sequences without a step for so long: the engine is not healthy. */
  readonly stallMs: number;
  /** Keys share cached prefixes, and so can tell by `cached_tokens` what others have asked. */
  readonly shareCache: boolean;
  /** By tier: the part of a model's KV blocks that each key may hold, where it says nothing itself. */
  readonly kvShares: Readonly<Partial<Record<Tier, number | undefined>>>;
  /** Where there are no keys: serve strangers from other machines, too. */
  readonly allowAnonymous: boolean;
  /** Addresses, networks, or `loopback`: whose forwarding headers tell where a request comes from. */
  readonly trustedProxies: readonly string[];
  /** Pages of these origins may ask from a browser; `*` stands for all. In small letters. */
  readonly corsOrigins: readonly string[];
  /** How answers are drawn where a request says nothing; goes over what a model's files say. */
  readonly samplingDefaults: SamplingDefaults;
  /** Whether it counts what a model's files say. */
  readonly useModelSampling: boolean;
  /** Of a file that a client gives. */
  readonly maxFileBytes: number;
  /** Of all files of a key; what its batches leave counts, and is never refused. */
  readonly maxKeyFileBytes: number;
  /** How long files and ended batches stay, infinity for ever. */
  readonly keepFilesMs: number;
  /** Requests in a batch. */
  readonly maxBatchLines: number;
  /** Of all batches together. */
  readonly batchConcurrency: number;
  /** /metrics needs an admin key. */
  readonly protectMetrics: boolean;
  readonly logPrompts: boolean;
}

export const defaultSettings: ServerSettings = Object.freeze({
  bodyLimitBytes: 8 * 1024 * 1024,
  maxMessages: 2048,
  maxTextCharacters: 4 * 1024 * 1024,
  maxPrompts: 128,
  maxEmbeddingInputs: 2048,
  maxChoices: 32,
  maxQueuedRequests: 512,
  maxQueuedSequences: 32_768,
  maxQueuedTokens: 1_000_000,
  requestTimeoutMs: 600_000,
  bodyStallMs: 60_000,
  keepAliveMs: 15_000,
  stallMs: 30_000,
  shareCache: false,
  kvShares: {},
  allowAnonymous: false,
  trustedProxies: [],
  corsOrigins: [],
  samplingDefaults: {},
  useModelSampling: true,
  maxFileBytes: 200 * 1024 * 1024,
  maxKeyFileBytes: 2 * 1024 ** 3,
  keepFilesMs: 30 * 86_400_000,
  maxBatchLines: 50_000,
  batchConcurrency: 16,
  protectMetrics: false,
  logPrompts: false,
});
