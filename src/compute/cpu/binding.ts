// The C++ addon as TypeScript sees it. The only file that loads it.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { Activation } from '../../model/spec.ts';
import type { TensorType } from '../../weights/tensor-type.ts';
import type { KvType } from '../backend.ts';

declare const handleBrand: unique symbol;
export interface ModelHandle {
  readonly [handleBrand]: true;
}

export interface NativeShape {
  readonly hiddenSize: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly ffnSize: number;
  readonly vocabSize: number;
  readonly blockCount: number;
  readonly normEpsilon: number;
  readonly embeddingScale: number;
  readonly attentionScale: number;
  /** 0: none. */
  readonly attentionSoftcap: number;
  readonly logitSoftcap: number;
  readonly activation: Activation;
  readonly kvType: KvType;
}

export type NormRole =
  | 'attentionNorm'
  | 'queryNorm'
  | 'keyNorm'
  | 'attentionPostNorm'
  | 'ffnNorm'
  | 'ffnPostNorm'
  | 'finalNorm';

export type LinearRole = 'embedding' | 'qkv' | 'output' | 'gateUp' | 'down' | 'head';

export interface Addon {
  /** Names of the kernel tables this machine runs, slowest first. */
  kernels(): string[];
  /** An empty `isa` takes the fastest kernels. */
  create(shape: NativeShape, layerCount: number, threads: number, isa: string): ModelHandle;
  addRope(model: ModelHandle, inverseFrequencies: Float64Array, magnitude: number): void;
  /** A window of 0 sees everything. */
  setLayer(model: ModelHandle, layer: number, rope: number, window: number): void;
  setNorm(model: ModelHandle, layer: number, role: NormRole, weights: Float32Array): void;
  addMatrix(model: ModelHandle, type: TensorType, outputs: number, inputs: number): number;
  /** `firstRow` is a multiple of 16. */
  packRows(model: ModelHandle, matrix: number, firstRow: number, count: number, bytes: Uint8Array): void;
  attach(
    model: ModelHandle,
    matrix: number,
    layer: number,
    role: LinearRole,
    offset: number,
    bias: Float32Array,
  ): void;
  step(
    model: ModelHandle,
    tokens: Int32Array,
    rowStarts: Int32Array,
    starts: Int32Array,
    blocks: Int32Array,
    blockStarts: Int32Array,
    logitRows: Int32Array,
    logits: Float32Array,
  ): Promise<void>;
  copyBlocks(model: ModelHandle, pairs: Int32Array): void;
  destroy(model: ModelHandle): void;
  /** Memory a packed matrix takes. */
  matrixBytes(type: TensorType, outputs: number, inputs: number): number;
  /** One product through one ISA's kernels, for tests: `out` is rows x outputs. */
  multiply(
    isa: string,
    type: TensorType,
    weights: Uint8Array,
    outputs: number,
    inputs: number,
    x: Float32Array,
    out: Float32Array,
  ): void;
  timeMultiply(
    isa: string,
    type: TensorType,
    outputs: number,
    inputs: number,
    rows: number,
    threads: number,
    repeats: number,
  ): { readonly seconds: number; readonly bytes: number };
  readBandwidth(threads: number, megabytes: number): number;
}

export type AddonLoad =
  | { readonly available: true; readonly addon: Addon }
  | { readonly available: false; readonly reason: string };

const builtPath = fileURLToPath(new URL('../../../build/chairlift.node', import.meta.url));

export function loadAddon(path: string = builtPath): AddonLoad {
  if (!existsSync(path)) {
    return {
      available: false,
      reason: 'the C++ addon is not built; install a C++ compiler and run npm run setup',
    };
  }
  try {
    return { available: true, addon: createRequire(import.meta.url)(path) as Addon };
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { available: false, reason: `the C++ addon does not load (${detail}); run npm run setup` };
  }
}
