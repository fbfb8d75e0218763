// An estimate of what steps on a GPU work in. That memory grows to the largest step; models are loaded and KV blocks are counted
// as if it were taken from the start.

import type { ModelSpec } from '../../model/spec.ts';
import { bodiesOf, layerMatrices } from '../../model/spec-walk.ts';
import { viewBytes } from './view-bytes.ts';

/** Rows of a step, as many as engines plan by default, */
const ROWS = 2048;
/** and rows of logits. */
const LOGIT_ROWS = 256;
/** The residual stream, a branch, a part, and the rows that a linear map reads. */
const STREAM_ROWS = 4;
/** What a layer's widest map reads and writes, and what becomes of that. */
const LAYER_ROWS = 3;

export function scratchBytes(spec: ModelSpec): number {
  const { hiddenSize, vocabSize } = spec;
  const widest = Math.max(hiddenSize, ...layerMatrices(spec).map(({ matrix }) => matrix.weight.rows));
  const used = Math.max(1, ...bodiesOf(spec).map((body) => (body.kind === 'moe' ? body.router.used : 1)));
  const expert = Math.max(
    0,
    ...bodiesOf(spec).map((body) => (body.kind === 'moe' ? (body.experts[0]?.size ?? 0) : 0)),
  );
  const layer = Math.max(widest, used * (2 * expert + (expert > 0 ? hiddenSize : 0)));
  const floats =
    ROWS * (STREAM_ROWS * hiddenSize + LAYER_ROWS * layer) +
    (spec.headless === true ? 0 : LOGIT_ROWS * vocabSize);
  return floats * Float32Array.BYTES_PER_ELEMENT + (spec.vision === undefined ? 0 : viewBytes(spec.vision));
}
