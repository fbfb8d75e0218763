// Hands a model's weights to the addon, a few megabytes at a time, so that loading never needs a second copy
// of the model. The addon repacks each piece into its own layout.

import type { LinearSpec, ModelSpec, RowSlice } from '../../model/spec.ts';
import { readBias, readLinearRows, readNorm } from '../../model/weight-reader.ts';
import { rowBytes } from '../../weights/tensor-type.ts';
import { columnsOf, type WeightSource } from '../../weights/weight-source.ts';
import type { Addon, LinearRole, ModelHandle, NormRole } from './binding.ts';

const PIECE_BYTES = 8 << 20;
/** Rows the addon packs side by side. */
const PANEL_ROWS = 16;

interface Placement {
  readonly role: LinearRole;
  readonly layer: number;
  readonly offset: number;
  readonly linear: LinearSpec;
}

export async function uploadModel(
  addon: Addon,
  handle: ModelHandle,
  spec: ModelSpec,
  weights: WeightSource,
  onProgress: (share: number) => void,
): Promise<void> {
  for (const rope of spec.ropes) {
    addon.addRope(handle, Float64Array.from(rope.inverseFrequencies), rope.magnitude);
  }
  uploadNorms(addon, handle, spec, weights);
  const placements = placeLinears(spec);
  const matrices = new Map<string, number>();
  const totalRows = placements.reduce((sum, { linear }) => sum + linear.weight.rows * linear.columns, 0);
  let done = 0;
  for (const { role, layer, offset, linear } of placements) {
    // A tied head is the embedding's own matrix.
    const key = `${linear.weight.tensor}:${linear.weight.firstRow}`;
    const matrix = matrices.get(key) ?? (await uploadMatrix(addon, handle, linear.weight, weights));
    matrices.set(key, matrix);
    const bias = linear.bias === undefined ? new Float32Array(0) : readBias(weights, linear.bias);
    addon.attach(handle, matrix, layer, role, offset, bias);
    done += linear.weight.rows * linear.columns;
    onProgress(done / totalRows);
  }
}

function uploadNorms(addon: Addon, handle: ModelHandle, spec: ModelSpec, weights: WeightSource): void {
  const set = (layer: number, role: NormRole, tensor: string | undefined) => {
    if (tensor === undefined) return;
    addon.setNorm(handle, layer, role, readNorm(weights, tensor, spec.normOffset));
  };
  for (const [index, layer] of spec.layers.entries()) {
    addon.setLayer(handle, index, layer.rope, layer.window ?? 0);
    set(index, 'attentionNorm', layer.attentionNorm);
    set(index, 'queryNorm', layer.queryNorm);
    set(index, 'keyNorm', layer.keyNorm);
    set(index, 'attentionPostNorm', layer.attentionPostNorm);
    set(index, 'ffnNorm', layer.ffnNorm);
    set(index, 'ffnPostNorm', layer.ffnPostNorm);
  }
  set(0, 'finalNorm', spec.finalNorm);
}

/** Every matrix and the columns of its linear's output row that it writes. */
function placeLinears(spec: ModelSpec): Placement[] {
  const querySize = spec.headCount * spec.headSize;
  const kvSize = spec.kvHeadCount * spec.headSize;
  // Up starts where the padded gate ends; the addon pads to whole groups of 32.
  const upOffset = Math.ceil(spec.ffnSize / 32) * 32;
  const embedding: LinearSpec = { weight: spec.embedding, columns: spec.hiddenSize };
  const layers = spec.layers.flatMap((layer, index): Placement[] => [
    { role: 'qkv', layer: index, offset: 0, linear: layer.query },
    { role: 'qkv', layer: index, offset: querySize, linear: layer.key },
    { role: 'qkv', layer: index, offset: querySize + kvSize, linear: layer.value },
    { role: 'output', layer: index, offset: 0, linear: layer.output },
    { role: 'gateUp', layer: index, offset: 0, linear: layer.gate },
    { role: 'gateUp', layer: index, offset: upOffset, linear: layer.up },
    { role: 'down', layer: index, offset: 0, linear: layer.down },
  ]);
  return [
    { role: 'embedding', layer: 0, offset: 0, linear: embedding },
    ...layers,
    { role: 'head', layer: 0, offset: 0, linear: spec.head },
  ];
}

async function uploadMatrix(
  addon: Addon,
  handle: ModelHandle,
  slice: RowSlice,
  weights: WeightSource,
): Promise<number> {
  const tensor = weights.tensors.get(slice.tensor);
  if (tensor === undefined) throw new Error(`the spec names ${slice.tensor}, which the weights do not hold`);
  const columns = columnsOf(tensor);
  const matrix = addon.addMatrix(handle, tensor.type, slice.rows, columns);
  const rowsPerPiece = Math.floor(PIECE_BYTES / rowBytes(tensor.type, columns) / PANEL_ROWS) * PANEL_ROWS;
  const step = Math.max(PANEL_ROWS, rowsPerPiece);
  for (let row = 0; row < slice.rows; row += step) {
    const count = Math.min(step, slice.rows - row);
    addon.packRows(handle, matrix, row, count, readLinearRows(weights, slice, row, count));
    // Lets a progress bar draw and a signal arrive between pieces.
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return matrix;
}
