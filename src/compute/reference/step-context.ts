// What the layers of a step share, and the signature of a kind of layer.

import type { ModelSpec } from '../../model/spec.ts';
import type { BatchRows } from './batch-rows.ts';
import type { KvCache } from './kv-cache.ts';
import type { RecurrentStates, StatesOfSequence } from './recurrent-states.ts';
import type { Rotations } from './rope.ts';
import type { Loaded } from './weights.ts';

export interface StepContext {
  readonly spec: ModelSpec;
  readonly cache: KvCache;
  readonly rows: BatchRows;
  /** By rope of the model. */
  readonly rotations: readonly Rotations[];
  readonly recurrentStates: RecurrentStates;
  readonly sequences: readonly StatesOfSequence[];
  /** All inputs of each row. */
  readonly perLayerInputs: Float32Array;
}

/** `input` is the residual stream after the part's norm, `stream` the residual stream itself. */
export type RunBody<Spec> = (
  context: StepContext,
  body: Loaded<Spec>,
  input: Float32Array,
  stream: Float32Array,
) => Float32Array;
