// Uploads a model's weights to the addon in pieces of a few megabytes, so that loading never needs a second copy of the model.
// The addon's threads pack a piece while the next one is read.

import { readOutputFactors } from '../../model/output-factors.ts';
import type { ModelSpec } from '../../model/spec.ts';
import { readLinearRows } from '../../model/weight-reader.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { rowBytes } from '../../weights/tensor-type.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { Addon, ModelHandle } from './binding.ts';
import { type MatrixUpload, type MemberRows, type NativeModel, nativeModel } from './native-model.ts';

const PIECE_BYTES = 4 << 20;
/** Rows the addon packs side by side. */
const PANEL_ROWS = 16;

interface Piece {
  readonly upload: MatrixUpload;
  readonly member: number;
  readonly first: number;
  readonly count: number;
  readonly bytes: number;
}

/** Fills the matrices of a model and returns its description. */
export async function uploadModel(
  addon: Addon,
  handle: ModelHandle,
  spec: ModelSpec,
  weights: WeightSource,
  onProgress: (share: number) => void,
): Promise<NativeModel> {
  const factors = await readOutputFactors(spec, weights);
  const { model, matrices } = nativeModel(spec, weights, factors, (type, outputs, inputs, members) =>
    addon.addMatrix(handle, type, outputs, inputs, members),
  );
  await packPieces(addon, handle, matrices.flatMap(cutPieces), weights, onProgress);
  return model;
}

function cutPieces(upload: MatrixUpload): Piece[] {
  const bytesPerRow = rowBytes(upload.type, upload.columns);
  const step = PANEL_ROWS * Math.max(1, Math.floor(PIECE_BYTES / (PANEL_ROWS * bytesPerRow)));
  return upload.members.flatMap(({ rows }, member) =>
    Array.from({ length: Math.ceil(rows / step) }, (_, index) => {
      const first = index * step;
      const count = Math.min(step, rows - first);
      return { upload, member, first, count, bytes: count * bytesPerRow };
    }),
  );
}

async function packPieces(
  addon: Addon,
  handle: ModelHandle,
  pieces: readonly Piece[],
  weights: WeightSource,
  onProgress: (share: number) => void,
): Promise<void> {
  const totalBytes = pieces.reduce((sum, { bytes }) => sum + bytes, 0);
  const room = pieces.reduce((most, { bytes }) => Math.max(most, bytes), 0);
  const buffers = [new Uint8Array(room), new Uint8Array(room)] as const;
  let packing: Promise<void> = Promise.resolve();
  let readBytes = 0;
  try {
    for (const [index, piece] of pieces.entries()) {
      const rows = readPiece(weights, piece, buffers[index % 2 === 0 ? 0 : 1]);
      await packing;
      packing = addon
        .packRows(handle, piece.upload.matrix, piece.member, piece.first, piece.count, rows)
        .catch((error: Error) => Promise.reject(damagedTensor(rowsOf(piece).slice.tensor, error.message)));
      readBytes += piece.bytes;
      onProgress(readBytes / totalBytes);
    }
  } finally {
    // The model must not be freed while its threads write to it.
    await packing;
  }
}

/** The rows of a piece as the addon takes them; in `buffer` unless decoded. */
function readPiece(weights: WeightSource, piece: Piece, buffer: Uint8Array): Uint8Array {
  const { upload, first, count, bytes } = piece;
  const { slice, firstRow } = rowsOf(piece);
  const rows = buffer.subarray(0, bytes);
  readLinearRows(weights, slice, firstRow + first, count, rows);
  if (!upload.decoded) return rows;
  const floats = new Float32Array(count * upload.columns);
  dequantize(upload.type, rows, floats);
  return new Uint8Array(floats.buffer);
}

function rowsOf({ upload, member }: Piece): MemberRows {
  return upload.members[member] as MemberRows;
}

function damagedTensor(tensor: string, problem: string): ModelFileError {
  const remedy = 'The weights are damaged or were converted wrongly; get the model again';
  return new ModelFileError({ file: 'weights', field: tensor, problem, remedy });
}
