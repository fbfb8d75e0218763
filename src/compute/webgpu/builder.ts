// Describes the operations of a forward pass before there is a device: layers request scratch buffers, name the weights they
// read, and add operations. What they describe is loaded in the same order, once scratch is allocated.

import type { ModelSpec, NormSpec, VectorSpec } from '../../model/spec.ts';
import { readNorm, readVector } from '../../model/weight-reader.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { KvType } from '../backend.ts';
import { AttentionShapes } from './attention-shapes.ts';
import { Declared } from './declared.ts';
import type { GpuInfo } from './gpu.ts';
import type { InputMaking } from './kernels/linear-input.ts';
import type { NormShape } from './kernels/norm.ts';
import { joinOutputKernel } from './kernels/residual.ts';
import { ropeTable } from './kernels/rope.ts';
import type { MatrixLoader } from './matrix.ts';
import type { Bindable, ReplaceableBuffer } from './memory.ts';
import { type Compiling, type Grid, Operation } from './operation.ts';
import { ScratchPlan } from './scratch.ts';

export interface ProductOutput {
  readonly buffer: DeclaredBuffer;
  readonly stride: number;
  /** Where outputs start in a row; 0 where absent. */
  readonly offset?: number;
  readonly adds?: boolean;
  readonly scale?: number;
  readonly softcap?: number | undefined;
}

/** A buffer that operations bind. */
export type DeclaredBuffer = Declared<Bindable>;

interface GpuNorm {
  readonly shape: NormShape;
  /** Its weights and biases, where it has any. */
  readonly buffers: readonly DeclaredBuffer[];
}

/** Rows that become a linear's input. */
export interface InputSource {
  readonly making: InputMaking;
  readonly size: number;
  /** From one row to the next. */
  readonly stride: number;
  /** The rows, and what else is read to make input of them. */
  readonly buffers: readonly DeclaredBuffer[];
  /** Least and most of what is made of them. */
  readonly bounds?: readonly [number, number] | undefined;
}

/** Where a layer's output goes: rows of the hidden size. */
export interface LayerOutput {
  readonly buffer: DeclaredBuffer;
  /** Adds to what is there instead of replacing it. */
  readonly adds: boolean;
  readonly scale: number;
}

/** Output of a part or a branch, and what is left to do with it. */
interface Joining {
  readonly from: DeclaredBuffer;
  readonly norm?: GpuNorm | undefined;
  /** Where the gate of each row lies: the row is multiplied by its sigmoid. */
  readonly gate?: { readonly buffer: DeclaredBuffer; readonly stride: number; readonly offset: number };
  /** Factor on what it joins, once it is added. */
  readonly sumScale?: number | undefined;
  /** The norm is that of what it joins, once it is added. */
  readonly normsSum?: boolean;
}

/** What steps leave for those after them: a buffer for each KV cache of the model, and for each of its recurrent states. */
interface Stores {
  readonly kv: readonly ReplaceableBuffer[];
  readonly recurrentStates: readonly GPUBuffer[];
}

/** What is there once scratch is allocated. */
export interface Loading {
  readonly loader: MatrixLoader;
  /** Rows that scratch has room for. */
  readonly rows: number;
}

/** The operations of one description, or none. */
type Load = (loading: Loading) => Promise<readonly Operation[]>;

export class Builder {
  readonly spec: ModelSpec;
  readonly limits: GpuInfo['limits'];
  readonly scratchPlan: ScratchPlan;
  readonly shapes: AttentionShapes;
  readonly kv: readonly Declared<Bindable>[];
  readonly recurrentStates: readonly Declared<GPUBuffer>[];
  /** A table for each rope of the model. */
  readonly ropeTables: readonly Declared<GPUBuffer>[];
  #loads: Load[] = [];

  constructor(spec: ModelSpec, kvType: KvType, limits: GpuInfo['limits']) {
    this.spec = spec;
    this.limits = limits;
    this.scratchPlan = new ScratchPlan(spec, limits.bindingBytes);
    this.shapes = new AttentionShapes(spec, kvType, limits);
    this.kv = spec.caches.map(() => new Declared('KV cache'));
    this.recurrentStates = spec.recurrentStates.map(() => new Declared('recurrent state'));
    this.ropeTables = spec.ropes.map((rope) =>
      this.filled('rope table', () => ropeTable(rope, spec.contextLength)),
    );
  }

  /** Loads all that was described; scratch is allocated. */
  async load(loading: Loading, { kv, recurrentStates }: Stores): Promise<Operation[]> {
    for (const [index, buffer] of kv.entries()) this.kv[index]?.define(buffer);
    for (const [index, buffer] of recurrentStates.entries()) this.recurrentStates[index]?.define(buffer);
    const operations: Operation[] = [];
    for (const load of this.#loads) operations.push(...(await load(loading)));
    return operations;
  }

  /** A buffer of `width` floats for each row of a step. */
  scratch(name: string, width: number): Declared<GPUBuffer> {
    return this.scratchPlan.request(name, { width });
  }

  declare<Value>(label: string, load: (loading: Loading) => Promise<Value>): Declared<Value> {
    const declared = new Declared<Value>(label);
    this.#loads.push(async (loading) => {
      declared.define(await load(loading));
      return [];
    });
    return declared;
  }

  filled(label: string, content: (weights: WeightSource) => Float32Array<ArrayBuffer>): Declared<GPUBuffer> {
    return this.declare(label, ({ loader }) => loader.memory.filled(label, content(loader.weights)));
  }

  /** Operations that depend on what is loaded by then. */
  addAll(load: Load): void {
    this.#loads.push(load);
  }

  /** What is described meanwhile is no part of a step: its operations, once they are loaded. */
  apart(label: string, describe: () => void): Declared<readonly Operation[]> {
    const step = this.#loads;
    this.#loads = [];
    describe();
    const loads = this.#loads;
    this.#loads = step;
    return this.declare(label, async (loading) => {
      const operations: Operation[] = [];
      for (const load of loads) operations.push(...(await load(loading)));
      return operations;
    });
  }

  add(
    label: string,
    text: () => string,
    buffers: readonly DeclaredBuffer[],
    grid: Grid,
    compiling?: Compiling,
  ): void {
    this.addAll(async () => [
      new Operation(label, [{ text: text(), grid }], valuesOf(buffers), () => 0, compiling),
    ]);
  }

  join({ from, norm, gate, sumScale, normsSum }: Joining, { buffer, adds, scale }: LayerOutput): void {
    const { hiddenSize: size, normEpsilon: epsilon } = this.spec;
    const shape = { size, epsilon, norm: norm?.shape, scale, adds, sumScale, normsSum, gate };
    const gates = gate === undefined ? [] : [gate.buffer];
    const buffers = [this.scratchPlan.step, from, buffer, ...gates, ...(norm?.buffers ?? [])];
    this.add(
      'join',
      () => joinOutputKernel(shape),
      buffers,
      ({ rows }) => [rows, 1],
    );
  }

  get residual(): Declared<GPUBuffer> {
    return this.scratch('residual', this.spec.hiddenSize);
  }

  /** Rows of the residual stream, or of another, after a norm where there is one. */
  stream(norm: GpuNorm | undefined, buffer: DeclaredBuffer = this.residual): InputSource {
    const { hiddenSize: size, normEpsilon: epsilon } = this.spec;
    const making: InputMaking =
      norm === undefined ? { kind: 'plain' } : { kind: 'norm', norm: norm.shape, epsilon };
    const buffers = [buffer, ...(norm?.buffers ?? [])];
    return { making, size, stride: size, buffers };
  }

  norm(spec: NormSpec): GpuNorm {
    const shape = { kind: spec.kind, weight: spec.weight !== undefined, bias: spec.bias !== undefined };
    if (!shape.weight && !shape.bias) return { shape, buffers: [] };
    const read = (weights: WeightSource) => {
      const { weight, bias } = readNorm(weights, spec);
      return joined([weight, bias]);
    };
    return { shape, buffers: [this.filled('norm', read)] };
  }

  optionalNorm(spec: NormSpec | undefined): GpuNorm | undefined {
    return spec === undefined ? undefined : this.norm(spec);
  }

  /** Those vectors that there are, side by side in one buffer; no buffer where there are none. */
  vectors(label: string, specs: readonly (VectorSpec | undefined)[]): Declared<GPUBuffer>[] {
    const given = specs.filter((spec) => spec !== undefined);
    if (given.length === 0) return [];
    return [this.filled(label, (weights) => joined(given.map((spec) => readVector(weights, spec))))];
  }
}

export const valuesOf = (buffers: readonly DeclaredBuffer[]): Bindable[] => buffers.map(({ value }) => value);

export function joined(vectors: readonly (Float32Array | undefined)[]): Float32Array<ArrayBuffer> {
  return Float32Array.from(vectors.flatMap((vector) => (vector === undefined ? [] : [...vector])));
}
