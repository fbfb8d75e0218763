// The model that is measured: from a file or made at random, what it needs of the memory, and what a report says of it.

import { basename } from 'node:path';
import { BLOCK_TOKENS, type KvType } from '../../compute/backend.ts';
import { weightBytes } from '../../compute/memory.ts';
import { buildSpec } from '../../model/build-spec.ts';
import type { ModelSpec } from '../../model/spec.ts';
import { openModelFiles } from '../../weights/open-model.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { MemoryNeed } from './offline-settings.ts';
import type { BenchTarget } from './target.ts';

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
  /** From its file, or made at random. */
  readonly source: 'file' | 'random';
  readonly loadSeconds: number;
}

/** Close its weights when they are no longer needed. */
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
