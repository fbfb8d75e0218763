import { expect, expectTypeOf, it } from 'vitest';
import { linear, rms } from '../../test/support/leaves.ts';
import { tinyModel } from '../../test/support/tiny-model.ts';
import { leavesOf, type MapLeaves, mapLeaves, vectorSpec } from './leaves.ts';
import type { AttentionSpec, ModelSpec, ShortConvSpec } from './spec.ts';

interface Names {
  readonly linear: string;
  readonly norm: number;
  readonly vector: boolean;
  readonly table: null;
}

const body: ShortConvSpec = {
  kind: 'short-conv',
  state: 0,
  size: 4,
  before: linear('before', 4, 8),
  after: linear('after', 4, 8),
  value: linear('value', 4, 8),
  convolution: { weight: vectorSpec('convolution', 12), length: 3 },
  output: linear('output', 8, 4),
};

it('maps every leaf of a layer and keeps all else', () => {
  const mapped = mapLeaves<ShortConvSpec, Names>(body, {
    linear: ({ weight }) => weight.tensor,
    norm: ({ size }) => size,
    vector: ({ size }) => size === 12,
    table: () => null,
  });
  expect(mapped).toEqual({
    kind: 'short-conv',
    state: 0,
    size: 4,
    before: 'before',
    after: 'after',
    value: 'value',
    convolution: { weight: true, length: 3 },
    output: 'output',
  });
});

it('gives a leaf that is there or not the type that it has then', () => {
  type Mapped = MapLeaves<AttentionSpec, Names>;
  expectTypeOf<Mapped['query']>().toEqualTypeOf<string>();
  expectTypeOf<Mapped['gate']>().toEqualTypeOf<string | undefined>();
  expectTypeOf<Mapped['sinks']>().toEqualTypeOf<boolean | undefined>();
  expectTypeOf<Mapped['headCount']>().toEqualTypeOf<number>();
  expectTypeOf<MapLeaves<ModelSpec, Names>['embedding']>().toEqualTypeOf<null>();
});

it('finds the leaves of a model wherever they are', () => {
  const { spec } = tinyModel({ layerCount: 2, addedTables: true });
  const tables = leavesOf(spec, 'table').map(({ tensor }) => tensor);
  expect(tables.toSorted()).toEqual(['embedding', 'positions', 'text-kinds']);
  expect(leavesOf(spec, 'linear')).toHaveLength(2 * 7 + 1);
  expect(leavesOf([rms(3), [{ deep: rms(4) }]], 'norm').map(({ size }) => size)).toEqual([3, 4]);
});
