// Linear maps of a layer, by the roles of their tensors.

import type { LinearSpec, RowSlice } from './spec.ts';
import type { LayerRole, TensorNames } from './tensor-names.ts';

interface LinearShape extends Omit<RowSlice, 'tensor' | 'firstRow'> {
  readonly role: LayerRole;
  readonly columns: number;
  readonly firstRow?: number;
  readonly bias?: boolean | undefined;
  /** Where each has a tensor of its own. */
  readonly expert?: number;
}

export function linearSpec(names: TensorNames, layer: number, shape: LinearShape): LinearSpec {
  const { role, columns, firstRow = 0, bias, expert, ...rows } = shape;
  const { transposed: _, ...biasRows } = rows;
  return {
    leaf: 'linear',
    weight: { tensor: names.weight(layer, role, expert), firstRow, ...rows },
    columns,
    ...(bias ? { bias: { tensor: names.bias(layer, role, expert), firstRow, ...biasRows } } : {}),
  };
}
