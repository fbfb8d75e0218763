// Vision towers of a shape with random weights, for benchmarks: speed depends on the shape alone.

import type { LinearSpec, NormSpec } from '#src/model/spec.ts';
import { gridRope } from '#src/model/vision/grid-rope.ts';
import type { TowerLayerStep, TowerStep } from '#src/model/vision/vision-spec.ts';
import type { TensorType } from '#src/weights/tensor-type.ts';
import type { TensorInfo, WeightSource } from '#src/weights/weight-source.ts';

export interface TowerShape {
  readonly name: string;
  /** Of a square view. */
  readonly side: number;
  readonly patch: number;
  readonly hidden: number;
  readonly ffn: number;
  readonly heads: number;
  readonly layers: number;
  readonly gated: boolean;
  /** Cells of a window's side, and how many layers see all cells. */
  readonly window?: { readonly side: number; readonly wholeEvery: number };
}

/** Tensors are whatever is asked for. */
export class RandomWeights implements WeightSource {
  readonly tensors = new Map<string, TensorInfo>();
  readonly #type: TensorType;

  constructor(type: TensorType) {
    this.#type = type;
  }

  add(name: string, shape: readonly number[], own = this.#type): string {
    this.tensors.set(name, { name, type: own, shape });
    return name;
  }

  readRows(_name: string, _first: number, _count: number, into: Uint8Array): void {
    // Halves of about a hundredth, or whole numbers of quantized blocks; small floats, too.
    for (let at = 0; at < into.length; at++) into[at] = at % 2 === 0 ? (at * 7) & 0x7f : 0x1c;
  }

  close(): void {}
}

/** Patches and layers. */
export function towerSteps(shape: TowerShape, layers: number, weights: RandomWeights): TowerStep[] {
  const { hidden, patch } = shape;
  return [
    {
      kind: 'patches',
      size: patch,
      order: 'channels-first',
      frames: 1,
      linears: [randomLinear(weights, `${shape.name}.patch`, hidden, 3 * patch * patch)],
    },
    ...Array.from({ length: layers }, (_, layer) => layerStep(shape, weights, layer)),
  ];
}

export function randomLinear(
  weights: RandomWeights,
  name: string,
  rows: number,
  columns: number,
): LinearSpec {
  // Blocks of quantized types may not fit the pixels of a patch.
  const tensor = weights.add(name, [rows, columns], columns % 32 === 0 ? undefined : 'F16');
  return { leaf: 'linear', weight: { tensor, firstRow: 0, rows }, columns };
}

function layerStep(shape: TowerShape, weights: RandomWeights, index: number): TowerLayerStep {
  const { hidden, heads, gated, window } = shape;
  // Rows of quantized types are whole blocks.
  const ffn = Math.ceil(shape.ffn / 32) * 32;
  const map = (name: string, rows: number, columns: number) =>
    randomLinear(weights, `${shape.name}.${index}.${name}`, rows, columns);
  const norm: NormSpec = { leaf: 'norm', kind: 'rms', size: hidden };
  const headSize = hidden / heads;
  return {
    kind: 'layer',
    epsilon: 1e-6,
    branches: [
      {
        input: norm,
        body: {
          kind: 'grid-attention',
          headCount: heads,
          headSize,
          query: map('query', hidden, hidden),
          key: map('key', hidden, hidden),
          value: map('value', hidden, hidden),
          output: map('output', hidden, hidden),
          scale: headSize ** -0.5,
          ...(window === undefined ? {} : { rope: gridRope(headSize, 10_000) }),
          ...(window === undefined || index % window.wholeEvery === window.wholeEvery - 1
            ? {}
            : { window: window.side }),
        },
      },
      {
        input: norm,
        body: {
          kind: 'tower-mlp',
          activation: gated ? 'silu' : 'gelu-tanh',
          ...(gated ? { gate: map('gate', ffn, hidden) } : {}),
          up: map('up', ffn, hidden),
          down: map('down', hidden, ffn),
        },
      },
    ],
  };
}
