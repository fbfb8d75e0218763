// What the operations of a forward pass are built with: the model, where its weights come from, the buffers it works in,
// and the list that grows.

import type { ModelSpec, NormSpec, VectorSpec } from '../../model/spec.ts';
import { readNorm, readVector } from '../../model/weight-reader.ts';
import type { GpuInfo } from './gpu.ts';
import { joinOutputKernel } from './kernels/join-output.ts';
import type { InputMaking } from './kernels/make-input.ts';
import type { NormShape } from './kernels/norm.ts';
import type { MatrixLoader } from './matrix.ts';
import { type Grid, Operation } from './operation.ts';
import type { Bindable } from './replaceable-buffer.ts';
import type { Scratch } from './scratch.ts';

export interface GpuNorm {
  readonly shape: NormShape;
  /** Its weights and biases, where it has any. */
  readonly buffers: readonly GPUBuffer[];
}

/** Rows that become a linear's input. */
export interface InputSource {
  readonly making: InputMaking;
  readonly size: number;
  /** From one row to the next. */
  readonly stride: number;
  /** The rows, and what else is read to make input of them. */
  readonly buffers: readonly GPUBuffer[];
}

/** Where what a body gives goes: rows of the hidden size. */
export interface BodyOutput {
  readonly buffer: GPUBuffer;
  /** Adds to what is there instead of replacing it. */
  readonly adds: boolean;
  readonly scale: number;
}

/** What a part or a branch gives, and what is left to do with it. */
interface Joining {
  readonly from: GPUBuffer;
  readonly norm?: GpuNorm | undefined;
  /** Where each row's share of it lies. */
  readonly share?: { readonly buffer: GPUBuffer; readonly stride: number; readonly offset: number };
  /** Factor on what it joins, once it is added. */
  readonly sumScale?: number | undefined;
  /** The norm is that of what it joins, once it is added. */
  readonly normsSum?: boolean;
}

export class Builder {
  readonly spec: ModelSpec;
  readonly loader: MatrixLoader;
  readonly scratch: Scratch;
  readonly limits: GpuInfo['limits'];
  readonly operations: Operation[] = [];

  constructor(spec: ModelSpec, loader: MatrixLoader, scratch: Scratch, limits: GpuInfo['limits']) {
    this.spec = spec;
    this.loader = loader;
    this.scratch = scratch;
    this.limits = limits;
  }

  add(label: string, text: string, buffers: readonly Bindable[], grid: Grid): void {
    this.operations.push(new Operation(label, [{ text, grid }], buffers));
  }

  join({ from, norm, share, sumScale, normsSum }: Joining, { buffer, adds, scale }: BodyOutput): void {
    const { hiddenSize: size, normEpsilon: epsilon } = this.spec;
    const shape = { size, epsilon, norm: norm?.shape, scale, adds, sumScale, normsSum, share };
    const text = joinOutputKernel(shape);
    const shares = share === undefined ? [] : [share.buffer];
    const buffers = [this.scratch.step, from, buffer, ...shares, ...(norm?.buffers ?? [])];
    this.add('join', text, buffers, ({ rows }) => [rows, 1]);
  }

  /** Rows of the residual stream, or of another, behind a norm where there is one. */
  stream(norm: GpuNorm | undefined, buffer = this.scratch.residual): InputSource {
    const { hiddenSize: size, normEpsilon: epsilon } = this.spec;
    const making: InputMaking =
      norm === undefined ? { kind: 'plain' } : { kind: 'norm', norm: norm.shape, epsilon };
    const buffers = [buffer, ...(norm?.buffers ?? [])];
    return { making, size, stride: size, buffers };
  }

  async norm(spec: NormSpec): Promise<GpuNorm> {
    const { kind, weight, bias } = readNorm(this.loader.weights, spec);
    return {
      shape: { kind, weight: weight !== undefined, bias: bias !== undefined },
      buffers: await this.vectors('norm', [weight, bias]),
    };
  }

  async optionalNorm(spec: NormSpec | undefined): Promise<GpuNorm | undefined> {
    return spec === undefined ? undefined : this.norm(spec);
  }

  /** Vectors side by side in one buffer; no buffer where there are none. */
  async vectors(label: string, vectors: readonly (Float32Array | undefined)[]): Promise<GPUBuffer[]> {
    const given = vectors.filter((vector) => vector !== undefined);
    if (given.length === 0) return [];
    return [await this.loader.memory.filled(label, Float32Array.from(given.flatMap((one) => [...one])))];
  }

  /** A vector of the file, where one is named. */
  vector(spec: VectorSpec | undefined): Float32Array | undefined {
    return spec === undefined ? undefined : readVector(this.loader.weights, spec);
  }
}
