// The kernels of each operation of a tower, as they are added to a description: they read and write the rows of the view at hand.

import type { LinearSpec, NormSpec, TableSpec, VectorSpec } from '../../../model/leaves.ts';
import type {
  GridAttentionSpec,
  PatchStep,
  TowerMlpSpec,
  TowerStep,
} from '../../../model/vision/vision-spec.ts';
import { readLinearRows, readNorm, readVector, rowType } from '../../../model/weight-reader.ts';
import { dequantize } from '../../../weights/quants/dequantize.ts';
import { rowBytes } from '../../../weights/tensor-type.ts';
import type { WeightSource } from '../../../weights/weight-source.ts';
import { type DeclaredBuffer, type InputSource, joined } from '../builder.ts';
import type { Declared } from '../declared.ts';
import type { InputRows } from '../kernels/linear-input.ts';
import { attendViewKernel, viewKeys } from '../kernels/tower/attend-view.ts';
import { type PartNorm, pairTable, placeHeadsKernel } from '../kernels/tower/place-heads.ts';
import {
  addTapsKernel,
  boundKernel,
  changeRowsKernel,
  gatherRowsKernel,
  joinRowsKernel,
  type RowChange,
  type TowerNorm,
} from '../kernels/tower/tower-rows.ts';
import type { LayerBuilder } from '../linears.ts';
import { GpuMemoryError, type ReplaceableBuffer } from '../memory.ts';
import { patchSize } from './patch-rows.ts';

type Step<Kind> = Extract<TowerStep, { readonly kind: Kind }>;

export interface TowerBuffers {
  /** Floats and lists of the view at hand. */
  readonly view: Declared<ReplaceableBuffer>;
  readonly lists: Declared<ReplaceableBuffer>;
  readonly patches: Declared<GPUBuffer>;
}

/** How what was made joins the rows of the view. */
interface Joining {
  readonly adds: boolean;
  readonly norm?: { readonly spec: NormSpec; readonly epsilon: number } | undefined;
  readonly scales?: VectorSpec | undefined;
  readonly ordered?: boolean;
}

const shapeOf = ({ kind, weight, bias }: NormSpec): TowerNorm['shape'] => ({
  kind,
  weight: weight !== undefined,
  bias: bias !== undefined,
});

export class TowerKernels {
  readonly #builder: LayerBuilder;
  readonly #buffers: TowerBuffers;

  constructor(builder: LayerBuilder, buffers: TowerBuffers) {
    this.#builder = builder;
    this.#buffers = buffers;
  }

  patches(spec: PatchStep): void {
    const { linears } = this.#builder;
    const size = patchSize(spec);
    const stride = (spec.linears[0] as LinearSpec).weight.rows;
    const branch = this.#builder.scratch('tower branch', stride);
    const maps = spec.linears.map((linear) => linears.load('patches', [plain(linear)]));
    linears.input(maps, { making: { kind: 'plain' }, size, stride: size, buffers: [this.#buffers.patches] });
    for (const [index, map] of maps.entries()) {
      linears.multiply(map, { buffer: branch, stride, adds: index > 0 });
    }
    this.#join(branch, stride, { adds: false });
  }

  linear({ linear }: Step<'linear'>): void {
    const stride = linear.weight.rows;
    const branch = this.#builder.scratch('tower branch', stride);
    this.#multiply([linear], this.rows(linear.columns, undefined), 'view', branch);
    this.#join(branch, stride, { adds: false });
  }

  mlp({ activation, gate, up, down }: TowerMlpSpec, source: InputSource, how: Joining): void {
    const size = up.weight.rows;
    const stride = gate === undefined ? size : 2 * size;
    const inner = this.#builder.scratch('tower inner', stride);
    this.#multiply(gate === undefined ? [up] : [gate, up], source, 'view', inner);
    const making = {
      kind: 'activated',
      activation,
      upOffset: gate === undefined ? undefined : size,
    } as const;
    const branch = this.#builder.scratch('tower branch', down.weight.rows);
    this.#multiply([down], { making, size, stride, buffers: [inner] }, 'all', branch);
    this.#join(branch, down.weight.rows, how);
  }

  project(attention: GridAttentionSpec, source: InputSource, epsilon: number): void {
    const { query, key, value, headCount, headSize, rope } = attention;
    const builder = this.#builder;
    const projections = builder.scratch('tower projections', 3 * headCount * headSize);
    this.#multiply([query, key, value], source, 'view', projections);
    const { norms, buffers } = this.#headNorms(attention);
    const pairs = rope?.pairs ?? [];
    const partners = builder.declare('pairs of a rope', ({ loader }) =>
      loader.memory.filled('pairs of a rope', pairTable(headSize, pairs)),
    );
    const turning = pairs.length === 0 ? [] : [this.#buffers.lists, partners];
    builder.add(
      'place heads',
      () => placeHeadsKernel({ headCount, headSize, epsilon, norms, pairs: pairs.length }),
      [builder.scratchPlan.step, projections, this.#buffers.view, ...turning, ...buffers],
      ({ rows }) => [3 * headCount, rows],
    );
  }

  #headNorms({ queryNorm, keyNorm, valueNorm, headCount, headSize }: GridAttentionSpec) {
    let floats = 0;
    const specs = [queryNorm, keyNorm, valueNorm];
    const norms = specs.map((spec): PartNorm | undefined => {
      if (spec === undefined) return undefined;
      const shape = { kind: spec.kind, weight: spec.weight !== undefined, bias: spec.bias !== undefined };
      const weightAt = floats;
      const biasAt = weightAt + (shape.weight ? spec.size : 0);
      floats = biasAt + (shape.bias ? spec.size : 0);
      return {
        shape,
        overAll: shape.weight && headCount > 1 && spec.size === headCount * headSize,
        weightAt,
        biasAt,
      };
    });
    const read = (weights: WeightSource) =>
      joined(
        specs
          .filter((spec) => spec !== undefined)
          .map((spec) => readNorm(weights, spec))
          .flatMap(({ weight, bias }) => [weight, bias]),
      );
    return { norms, buffers: floats === 0 ? [] : [this.#builder.filled('norms of heads', read)] };
  }

  attend({ headCount, headSize, scale, output }: GridAttentionSpec, how: Joining): void {
    const builder = this.#builder;
    const width = headCount * headSize;
    const keys = viewKeys(headSize, builder.limits.workgroupBytes);
    if (keys === 0)
      throw new GpuMemoryError(`a tower's heads of ${headSize} values are more than this GPU holds`);
    const attended = builder.scratch('tower attended', width);
    builder.add(
      'attend view',
      () => attendViewKernel({ headCount, headSize, scale, keys }),
      [builder.scratchPlan.step, this.#buffers.view, this.#buffers.lists, attended],
      ({ attention: [counts] }) => [counts?.items ?? 0, headCount],
    );
    const branch = builder.scratch('tower branch', output.weight.rows);
    const source = { making: { kind: 'plain' }, size: width, stride: width, buffers: [attended] } as const;
    this.#multiply([output], source, 'all', branch);
    this.#join(branch, output.weight.rows, { ...how, ordered: true });
  }

  norm({ norm: spec, epsilon }: Step<'norm'>): void {
    const { shape, buffers } = this.#builder.norm(spec);
    this.change({ kind: 'norm', norm: { shape, epsilon } }, spec.size, buffers);
  }

  change(change: RowChange, size: number | undefined, vectors: readonly DeclaredBuffer[]): void {
    const { scratchPlan } = this.#builder;
    this.#builder.add(
      `tower ${change.kind}`,
      () => changeRowsKernel(change, size),
      [scratchPlan.step, this.#buffers.view, ...vectors],
      ({ rows }) => [rows, 1],
    );
  }

  /** `token`: what stands where a source is none. */
  gather(by: 'cells' | 'channels' | 'mean', token?: VectorSpec): void {
    const { scratchPlan } = this.#builder;
    const none = this.#builder.vectors('class token', [token])[0] ?? scratchPlan.nothing;
    this.#builder.add(
      'gather rows',
      () => gatherRowsKernel(by),
      [scratchPlan.step, this.#buffers.view, this.#buffers.lists, none],
      ({ rows }) => [rows, 1],
    );
  }

  table(table: TableSpec): void {
    const builder = this.#builder;
    const values = builder.filled('positions', (weights) => readTable(weights, table));
    builder.add(
      'add positions',
      () => addTapsKernel(table.columns),
      [builder.scratchPlan.step, this.#buffers.view, this.#buffers.lists, values],
      ({ rows }) => [rows, 1],
    );
  }

  /** Rows of the view, after a norm where there is one. */
  rows(size: number, norm: { readonly spec: NormSpec; readonly epsilon: number } | undefined): InputSource {
    if (norm === undefined)
      return { making: { kind: 'plain' }, size, stride: size, buffers: [this.#buffers.view] };
    const { shape, buffers } = this.#builder.norm(norm.spec);
    const making = { kind: 'norm', norm: shape, epsilon: norm.epsilon } as const;
    return { making, size, stride: size, buffers: [this.#buffers.view, ...buffers] };
  }

  /** Maps of one input, side by side; each by itself where they hold it within bounds of their own. */
  #multiply(
    specs: readonly LinearSpec[],
    source: InputSource,
    rows: InputRows,
    buffer: Declared<GPUBuffer>,
  ): void {
    const { linears, scratchPlan } = this.#builder;
    const stride = specs.reduce((sum, { weight }) => sum + weight.rows, 0);
    const areHeld = specs.some(({ bounds }) => bounds !== undefined);
    let offset = 0;
    for (const set of areHeld ? specs.map((spec) => [spec]) : [specs]) {
      const [{ bounds, weight }] = set as readonly [LinearSpec];
      const map = linears.load('tower', set.map(plain));
      linears.input([map], { ...source, bounds: bounds?.inputs }, rows);
      linears.multiply(map, { buffer, stride, offset });
      if (bounds !== undefined) {
        const place = { size: weight.rows, stride, offset };
        this.#builder.add(
          'hold within bounds',
          () => boundKernel(place, bounds.outputs),
          [scratchPlan.step, buffer],
          (counts) => [counts.rows, 1],
        );
      }
      offset += weight.rows;
    }
  }

  #join(from: DeclaredBuffer, size: number, { adds, norm, scales, ordered = false }: Joining): void {
    const builder = this.#builder;
    const own = norm && { shape: shapeOf(norm.spec), epsilon: norm.epsilon };
    const read = (weights: WeightSource) => {
      const { weight, bias } = norm === undefined ? {} : readNorm(weights, norm.spec);
      return joined([weight, bias, scales && readVector(weights, scales)]);
    };
    const isWeighted = own?.shape.weight || own?.shape.bias || scales !== undefined;
    const vectors = isWeighted ? [builder.filled('tower norm', read)] : [];
    builder.add(
      'join rows',
      () => joinRowsKernel({ size, norm: own, scales: scales !== undefined, adds, ordered }),
      [
        builder.scratchPlan.step,
        from,
        this.#buffers.view,
        ...(ordered ? [this.#buffers.lists] : []),
        ...vectors,
      ],
      ({ rows }) => [rows, 1],
    );
  }
}

/** Adapters add to the text model alone. */
const plain = ({ additions: _, ...linear }: LinearSpec): LinearSpec => linear;

function readTable(weights: WeightSource, table: TableSpec): Float32Array<ArrayBuffer> {
  const type = rowType(weights, table);
  const bytes = new Uint8Array(table.rows * rowBytes(type, table.columns));
  readLinearRows(weights, table, 0, table.rows, bytes);
  const values = new Float32Array(table.rows * table.columns);
  dequantize(type, bytes, values);
  return values;
}
