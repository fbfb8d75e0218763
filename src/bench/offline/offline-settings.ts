// The model an offline benchmark measures, what the benchmark is asked for, and whether model and machine can do it.

import { basename } from 'node:path';
import { BLOCK_TOKENS, type KvType } from '../../compute/backend.ts';
import { weightBytes } from '../../compute/memory.ts';
import { blocksFor } from '../../engine/cache/block-tables.ts';
import { buildSpec } from '../../model/build-spec.ts';
import type { ModelSpec } from '../../model/spec.ts';
import { openModelFiles } from '../../weights/open-model.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { BenchTarget } from './target.ts';

export interface OfflineSettings {
  readonly streams: readonly number[];
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly threads: number;
  readonly kvType: KvType;
  readonly repeats: number;
  /** Also decode with draft tokens of this acceptance rate. */
  readonly acceptanceRate?: number | undefined;
  /** Length of the prompt that is sent twice. */
  readonly prefixTokens: number | undefined;
}

/** What was asked for does not fit the model or the machine; the message is for the user. */
export class OfflineError extends Error {
  override readonly name = 'OfflineError';
  readonly option: string | undefined;

  constructor(message: string, option?: string) {
    super(message);
    this.option = option;
  }
}

/** The first token comes with the prompt, and the next step still admits requests. */
export const LEAST_OUTPUT_TOKENS = 4;

interface MemoryNeed {
  readonly weightBytes: number;
  readonly bytesPerBlock: number;
  readonly availableBytes: number;
}

export function neededBlocks({ streams, promptTokens, outputTokens, prefixTokens }: OfflineSettings): number {
  const ofStreams = Math.max(...streams) * blocksFor(promptTokens + outputTokens);
  return Math.max(ofStreams, blocksFor((prefixTokens ?? 0) + 1));
}

export function checkSettings(settings: OfflineSettings, spec: ModelSpec, memory: MemoryNeed): void {
  const { promptTokens, outputTokens, prefixTokens } = settings;
  if (outputTokens < LEAST_OUTPUT_TOKENS) {
    throw new OfflineError(
      `--tokens: give at least ${LEAST_OUTPUT_TOKENS}, so that there are steps to measure`,
    );
  }
  if (promptTokens + outputTokens > spec.contextLength) {
    throw new OfflineError(
      `--prompt and --tokens: ${promptTokens} + ${outputTokens} tokens do not fit the model's context of ${spec.contextLength}`,
    );
  }
  if (prefixTokens !== undefined && prefixTokens <= BLOCK_TOKENS) {
    throw new OfflineError(
      `--prefix: give more than ${BLOCK_TOKENS} tokens, for the cache keeps blocks of so many`,
    );
  }
  if (prefixTokens !== undefined && prefixTokens + 1 > spec.contextLength) {
    throw new OfflineError(
      `--prefix: ${prefixTokens} tokens and an answer do not fit the model's context of ${spec.contextLength}`,
    );
  }
  const blocks = neededBlocks(settings);
  const streams = `${Math.max(...settings.streams)} streams`;
  checkMemory(memory, blocks, streams, 'fewer --streams, a shorter --prompt or --kv-type q8 or q4');
}

export function checkMemory(memory: MemoryNeed, blocks: number, user: string, remedy: string): void {
  const { weightBytes, bytesPerBlock, availableBytes } = memory;
  if (weightBytes + blocks * bytesPerBlock <= availableBytes) return;
  const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1);
  throw new OfflineError(
    `not enough memory: ${gigabytes(weightBytes)} GB of weights and ${gigabytes(blocks * bytesPerBlock)} GB of KV ` +
      `for ${user}, but ${gigabytes(availableBytes)} GB are there; give ${remedy}`,
  );
}

export interface OfflineModel {
  readonly name: string;
  readonly source: 'file' | 'random';
  readonly spec: ModelSpec;
  readonly weights: WeightSource;
}

export interface ModelDescription {
  readonly name: string;
  readonly architecture: string;
  readonly weightBytes: number;
  readonly kvBytesPerToken: number;
  readonly kvType: KvType;
  readonly contextLength: number;
  readonly source: 'file' | 'random';
  readonly loadSeconds: number;
}

/** The caller closes its weights. */
export function openOfflineModel(path: string): OfflineModel {
  const files = openModelFiles(path);
  try {
    return { name: basename(files.path), source: 'file', spec: buildSpec(files), weights: files.weights };
  } catch (error) {
    files.weights.close();
    throw error;
  }
}

export function memoryNeed(target: BenchTarget, { spec, weights }: OfflineModel, kvType: KvType): MemoryNeed {
  return {
    weightBytes: weightBytes(spec, weights, target.sizes.matrixBytes),
    bytesPerBlock: target.sizes.kvBlockBytes(spec, kvType),
    availableBytes: target.availableBytes(),
  };
}

export function describeModel(
  target: BenchTarget,
  model: OfflineModel,
  kvType: KvType,
  loadSeconds: number,
): ModelDescription {
  const { weightBytes, bytesPerBlock } = memoryNeed(target, model, kvType);
  return {
    name: model.name,
    source: model.source,
    architecture: model.spec.architecture,
    contextLength: model.spec.contextLength,
    weightBytes,
    kvType,
    kvBytesPerToken: bytesPerBlock / BLOCK_TOKENS,
    loadSeconds,
  };
}
