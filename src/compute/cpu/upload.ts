// Hands a model's weights to the addon, a few megabytes at a time, so that loading never needs a second copy
// of the model. The addon's threads repack a piece into their own layout while the next one is read.

import type { LinearSpec, ModelSpec, RowSlice } from '../../model/spec.ts';
import { readBias, readLinearRows, readNorm } from '../../model/weight-reader.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { requireTensor } from '../../weights/read-tensor.ts';
import { rowBytes } from '../../weights/tensor-type.ts';
import { columnsOf, type WeightSource } from '../../weights/weight-source.ts';
import type { Addon, LinearRole, ModelHandle, NormRole } from './binding.ts';

const PIECE_BYTES = 4 << 20;
/** Rows the addon packs side by side. */
const PANEL_ROWS = 16;

interface Placement {
  readonly role: LinearRole;
  readonly layer: number;
  readonly offset: number;
  readonly linear: LinearSpec;
}

/** A matrix of the addon and the rows that fill it. */
interface Upload {
  readonly matrix: number;
  readonly slice: RowSlice;
  readonly bytesPerRow: number;
}

interface Piece extends Upload {
  readonly first: number;
  readonly count: number;
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
  const uploads = addMatrices(addon, handle, placements, weights);
  await packPieces(addon, handle, [...uploads.values()].flatMap(cutPieces), weights, onProgress);
  for (const { role, layer, offset, linear } of placements) {
    const { matrix } = uploads.get(matrixKey(linear)) as Upload;
    const bias = linear.bias === undefined ? new Float32Array(0) : readBias(weights, linear.bias);
    addon.attach(handle, matrix, layer, role, offset, bias);
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

/** A tied head is the embedding's own matrix. */
function matrixKey({ weight }: LinearSpec): string {
  return `${weight.tensor}:${weight.firstRow}`;
}

function addMatrices(
  addon: Addon,
  handle: ModelHandle,
  placements: readonly Placement[],
  weights: WeightSource,
): Map<string, Upload> {
  const uploads = new Map<string, Upload>();
  for (const { linear } of placements) {
    if (uploads.has(matrixKey(linear))) continue;
    const tensor = requireTensor(weights, linear.weight.tensor);
    const columns = columnsOf(tensor);
    uploads.set(matrixKey(linear), {
      matrix: addon.addMatrix(handle, tensor.type, linear.weight.rows, columns),
      slice: linear.weight,
      bytesPerRow: rowBytes(tensor.type, columns),
    });
  }
  return uploads;
}

function cutPieces(upload: Upload): Piece[] {
  const panelBytes = PANEL_ROWS * upload.bytesPerRow;
  const step = PANEL_ROWS * Math.max(1, Math.floor(PIECE_BYTES / panelBytes));
  const { rows } = upload.slice;
  return Array.from({ length: Math.ceil(rows / step) }, (_, index) => ({
    ...upload,
    first: index * step,
    count: Math.min(step, rows - index * step),
  }));
}

async function packPieces(
  addon: Addon,
  handle: ModelHandle,
  pieces: readonly Piece[],
  weights: WeightSource,
  onProgress: (share: number) => void,
): Promise<void> {
  const size = (piece: Piece) => piece.count * piece.bytesPerRow;
  const totalBytes = pieces.reduce((sum, piece) => sum + size(piece), 0);
  const room = pieces.reduce((most, piece) => Math.max(most, size(piece)), 0);
  // One is packed while the other is filled.
  const buffers = [new Uint8Array(room), new Uint8Array(room)] as const;
  let packing: Promise<void> = Promise.resolve();
  let readBytes = 0;
  try {
    for (const [index, piece] of pieces.entries()) {
      const bytes = buffers[index % 2 === 0 ? 0 : 1].subarray(0, size(piece));
      readLinearRows(weights, piece.slice, piece.first, piece.count, bytes);
      await packing;
      packing = addon
        .packRows(handle, piece.matrix, piece.first, piece.count, bytes)
        .catch((error: Error) => Promise.reject(damagedTensor(piece.slice.tensor, error.message)));
      readBytes += size(piece);
      onProgress(readBytes / totalBytes);
    }
  } finally {
    // The model cannot be let go while its threads still write to it.
    await packing;
  }
}

function damagedTensor(tensor: string, problem: string): ModelFileError {
  const remedy = 'The weights are damaged or were converted wrongly; get the model again';
  return new ModelFileError({ file: 'weights', field: tensor, problem, remedy });
}
