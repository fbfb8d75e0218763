// Settings of the HTTP edge: limits, timeouts, behaviour. They do not change while a server runs.

import { defaultImageLimits, type ImageLimits } from '../generation/pictured-prompt.ts';
import type { SamplingDefaults } from '../sampling/parameters.ts';
import type { Tier } from '../store/key-record.ts';

export interface RequestImageLimits extends ImageLimits {
  /** Files of all images of a request. */
  readonly maxTotalBytes: number;
}

export interface ServerSettings {
  readonly bodyLimitBytes: number;
  readonly images: RequestImageLimits;
  /** Hosts that images are fetched from; see image-hosts.ts. */
  readonly imageHosts: readonly string[];
  readonly maxMessages: number;
  /** The longest text, of a message's content or a prompt, in UTF-16 units. */
  readonly maxTextCharacters: number;
  /** Prompts in one request to /v1/completions. */
  readonly maxPrompts: number;
  /** Texts in one request to /v1/embeddings, documents in one to /v1/rerank. */
  readonly maxEmbeddingInputs: number;
  /** Answers to one prompt. */
  readonly maxChoices: number;
  /** Requests for one model that may wait for their first token. */
  readonly maxQueuedRequests: number;
  /** Sequences of those requests that may wait: answers to each prompt, texts to embed. */
  readonly maxQueuedSequences: number;
  readonly maxQueuedTokens: number;
  /** No request takes longer, infinity for no limit; a client may ask for less with `x-chairlift-timeout-ms`. */
  readonly requestTimeoutMs: number;
  readonly bodyStallMs: number;
  /** A silent stream sends a comment this often, so that no proxy takes it for dead. */
  readonly keepAliveMs: number;
  readonly stallMs: number;
  /** Sequences of a model that run at once; undefined where memory alone limits them. */
  readonly maxBatchSize?: number | undefined;
  /** Keys share cached prefixes, and so see by `cached_tokens` what others have asked. */
  readonly shareCache: boolean;
  /** Prefixes of slots are saved to files and restored; see POST /slots/{id}. */
  readonly savesSlots: boolean;
  /** By tier: the part of a model's KV blocks that each key may hold, where it says nothing itself. */
  readonly kvShares: Readonly<Partial<Record<Tier, number | undefined>>>;
  /** Where there are no keys: serve unknown callers from other machines, too. */
  readonly allowAnonymous: boolean;
  /** Addresses, networks, or `loopback` of proxies whose forwarding headers are believed. */
  readonly trustedProxies: readonly string[];
  /** Pages of these origins may send requests from a browser; `*` stands for all. In lower case. */
  readonly corsOrigins: readonly string[];
  readonly samplingDefaults: SamplingDefaults;
  readonly useModelSampling: boolean;
  /** What templates are told as `enable_thinking` where a request says nothing; undefined for nothing. */
  readonly thinking?: boolean | undefined;
  readonly maxFileBytes: number;
  /** Of all files of a key. The output of its batches counts, and is never refused. */
  readonly maxKeyFileBytes: number;
  /** How long files and ended batches are kept; infinity for ever. */
  readonly keepFilesMs: number;
  readonly maxBatchLines: number;
  /** Lines of all batches together that run at once. */
  readonly batchConcurrency: number;
  readonly protectMetrics: boolean;
  /** Metrics have llama-server's names, too. */
  readonly llamaMetrics: boolean;
  readonly logPrompts: boolean;
}

export const defaultSettings: ServerSettings = Object.freeze({
  bodyLimitBytes: 8 * 1024 * 1024,
  images: { ...defaultImageLimits, maxTotalBytes: 32 * 1024 * 1024 },
  imageHosts: [],
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
  savesSlots: false,
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
  llamaMetrics: false,
  logPrompts: false,
});

/** Of routes that take images: base64 has four characters for three bytes. */
export function imageBodyLimit({ bodyLimitBytes, images }: ServerSettings): number {
  return bodyLimitBytes + Math.ceil((images.maxTotalBytes * 4) / 3);
}
