// Weight matrices in GPU memory. A matrix may be made of several slices of the file, one below the other, and is cut
// into parts where it is larger than a kernel can bind.

import { messageOf } from '../../failure/message-of.ts';
import type { LinearSpec, RowSlice } from '../../model/spec.ts';
import { readLinearRows } from '../../model/weight-reader.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { requireTensor } from '../../weights/read-tensor.ts';
import { rowBytes, type TensorType } from '../../weights/tensor-type.ts';
import { columnsOf, type WeightSource } from '../../weights/weight-source.ts';
import { type Format, formats, PANEL_COLUMNS, panelWords } from './format.ts';
import type { GpuMemory } from './memory.ts';
import type { Panels } from './pack-panels.ts';
import type { Packing } from './pack-workers.ts';

export interface MatrixPart {
  readonly firstOutput: number;
  readonly outputs: number;
  readonly codes: GPUBuffer;
  /** Absent for floats. */
  readonly scales: GPUBuffer | undefined;
}

export interface GpuMatrix {
  readonly format: Format;
  readonly inputs: number;
  readonly outputs: number;
  readonly parts: readonly MatrixPart[];
}

export interface MatrixLoader {
  readonly memory: GpuMemory;
  readonly packing: Packing;
  readonly weights: WeightSource;
  /** The most a kernel can bind at once. */
  readonly bindingBytes: number;
  readonly onBytes: (bytes: number) => void;
}

const PIECE_BYTES = 4 << 20;

function sliceType(weights: WeightSource, slice: RowSlice): TensorType {
  return requireTensor(weights, slice.tensor).type;
}

/** Whether slices can be one matrix: of one type, and each ending with a whole panel. */
export function canJoin(weights: WeightSource, linears: readonly LinearSpec[]): boolean {
  const [first] = linears;
  if (first === undefined) return false;
  return linears.every(
    ({ weight }, index) =>
      sliceType(weights, weight) === sliceType(weights, first.weight) &&
      (index === linears.length - 1 || weight.rows % PANEL_COLUMNS === 0),
  );
}

export async function loadMatrix(
  loader: MatrixLoader,
  label: string,
  slices: readonly RowSlice[],
): Promise<GpuMatrix> {
  const [first] = slices as readonly [RowSlice];
  const tensor = requireTensor(loader.weights, first.tensor);
  const shape = { type: tensor.type, format: formats[tensor.type], inputs: columnsOf(tensor) };
  const outputs = slices.reduce((sum, { rows }) => sum + rows, 0);
  const words = panelWords(shape.format, shape.inputs);
  const panelsPerPart = Math.max(
    1,
    Math.floor(loader.bindingBytes / (4 * Math.max(words.codes, words.scales))),
  );
  const parts: MatrixPart[] = [];
  for (let firstOutput = 0; firstOutput < outputs; firstOutput += panelsPerPart * PANEL_COLUMNS) {
    const count = Math.min(panelsPerPart * PANEL_COLUMNS, outputs - firstOutput);
    const panels = Math.ceil(count / PANEL_COLUMNS);
    parts.push({
      firstOutput,
      outputs: count,
      codes: await loader.memory.storage(label, 4 * panels * words.codes),
      scales:
        words.scales === 0
          ? undefined
          : await loader.memory.storage(`${label} scales`, 4 * panels * words.scales),
    });
  }
  const matrix = { format: shape.format, inputs: shape.inputs, outputs, parts };
  let at = 0;
  for (const slice of slices) {
    await fill(loader, matrix, shape.type, slice, at);
    at += slice.rows;
  }
  return matrix;
}

/** Packs and sends the rows of a slice, whose first is output `at`, a few megabytes at a time. */
async function fill(
  loader: MatrixLoader,
  matrix: GpuMatrix,
  type: TensorType,
  slice: RowSlice,
  at: number,
): Promise<void> {
  const bytesPerRow = rowBytes(type, matrix.inputs);
  const words = panelWords(matrix.format, matrix.inputs);
  const step = PANEL_COLUMNS * Math.max(1, Math.floor(PIECE_BYTES / (PANEL_COLUMNS * bytesPerRow)));
  const send = async (part: MatrixPart, output: number, count: number): Promise<void> => {
    const rows = new Uint8Array(count * bytesPerRow);
    readLinearRows(loader.weights, slice, output - at, count, rows);
    const panels = await pack(loader, type, matrix.inputs, rows, count, slice.tensor);
    const panel = (output - part.firstOutput) / PANEL_COLUMNS;
    await loader.memory.upload(part.codes, 4 * panel * words.codes, panels.codes);
    if (part.scales) await loader.memory.upload(part.scales, 4 * panel * words.scales, panels.scales);
    loader.onBytes(count * bytesPerRow);
  };
  const sending = new Set<Promise<void>>();
  for (const part of matrix.parts) {
    const begin = Math.max(at, part.firstOutput);
    const end = Math.min(at + slice.rows, part.firstOutput + part.outputs);
    for (let output = begin; output < end; output += step) {
      while (sending.size >= loader.packing.atOnce) await Promise.race(sending);
      const sent = send(part, output, Math.min(step, end - output)).finally(() => sending.delete(sent));
      sending.add(sent);
    }
  }
  await Promise.all(sending);
}

async function pack(
  { packing }: MatrixLoader,
  type: TensorType,
  inputs: number,
  rows: Uint8Array<ArrayBuffer>,
  count: number,
  tensor: string,
): Promise<Panels> {
  try {
    return await packing.pack(type, inputs, rows, count);
  } catch (error) {
    const remedy = 'The weights are damaged or were converted wrongly; get the model again';
    throw new ModelFileError({ file: 'weights', field: tensor, problem: messageOf(error), remedy });
  }
}
