// Per-layer embeddings: computed before the first layer, read by each.

import type { PerLayerInputSpec, PerLayerInputsSpec } from '../../../model/spec.ts';
import type { Batch } from '../../backend.ts';
import { activate } from '../activation.ts';
import { applyLinear, decodeRow } from '../linear.ts';
import { normalize } from '../norm.ts';
import type { RunBody } from '../step-context.ts';
import { scaleBy } from '../vector.ts';
import type { Loaded } from '../weights.ts';

/** All inputs of each row; empty where the model has none. */
export function perLayerInputsOf(
  inputs: Loaded<PerLayerInputsSpec> | undefined,
  { tokens, images }: Pick<Batch, 'tokens' | 'images'>,
  embedded: Float32Array,
  epsilon: number,
): Float32Array {
  if (inputs === undefined) return new Float32Array();
  const { table, projection, norm } = inputs;
  const made = applyLinear(projection, embedded);
  scaleBy(made, inputs.projectionScale);
  normalize(made, inputs.size, norm, epsilon);
  const stored = new Float32Array(table.columns);
  const shown = new Set(images?.rows);
  for (const [row, token] of tokens.entries()) {
    const read = shown.has(row) ? (inputs.imageToken ?? 0) : token;
    decodeRow(table, read < table.rows ? read : 0, stored);
    for (const [index, value] of stored.entries()) {
      const at = row * table.columns + index;
      made[at] = (made[at] as number) + value * inputs.tableScale;
    }
  }
  return made;
}

export const runPerLayerInput: RunBody<PerLayerInputSpec> = (context, body, input) => {
  const { index, activation, gate, output } = body;
  const { perLayerInputs: inputs } = context;
  const gates = applyLinear(gate, input);
  const { rows: size, columns } = gate.matrix;
  const rows = input.length / columns;
  const all = inputs.length / rows;
  const own = new Float32Array(gates.length);
  for (let row = 0; row < rows; row++) {
    const at = row * all + index * size;
    own.set(inputs.subarray(at, at + size), row * size);
  }
  return applyLinear(output, activate(activation, gates, own));
};
