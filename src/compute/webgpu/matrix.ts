// Weight matrices in GPU memory. A matrix may be made of several slices of the file, one below the other, and is cut
// into parts where it is larger than a kernel can bind. Matrices of experts are stacked, each in panels of its own, and
// cut between experts.

import type { LinearSpec, RowSlice } from '../../model/spec.ts';
import { readLinearRows, rowType } from '../../model/weight-reader.ts';
import { messageOf } from '../../runtime/error-message.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { rowBytes, type TensorType } from '../../weights/tensor-type.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { type Format, formats, PANEL_COLUMNS, type PanelWords, panelWords } from './format.ts';
import { type GpuMemory, GpuMemoryError } from './memory.ts';
import type { Panels } from './pack-panels.ts';
import type { Packing } from './pack-workers.ts';

/** Panels that one kernel binds. */
export interface PanelBuffers {
  readonly codes: GPUBuffer;
  readonly scales: GPUBuffer | undefined;
}

interface MatrixPart extends PanelBuffers {
  readonly firstOutput: number;
  readonly outputs: number;
}

export interface GpuMatrix {
  readonly format: Format;
  readonly inputs: number;
  readonly outputs: number;
  readonly parts: readonly MatrixPart[];
}

interface ExpertPart extends PanelBuffers {
  readonly firstExpert: number;
  readonly experts: number;
}

export interface ExpertMatrix {
  readonly format: Format;
  readonly inputs: number;
  /** Of each expert. */
  readonly outputs: number;
  readonly parts: readonly ExpertPart[];
}

export interface MatrixLoader {
  readonly memory: GpuMemory;
  readonly packing: Packing;
  readonly weights: WeightSource;
  readonly bindingBytes: number;
  readonly onBytes: (bytes: number) => void;
}

interface MatrixRows {
  readonly inputs: number;
  readonly slices: readonly RowSlice[];
}

const PIECE_BYTES = 4 << 20;

const panelsOf = (outputs: number): number => Math.ceil(outputs / PANEL_COLUMNS);

const outputsOf = (slices: readonly RowSlice[]): number => slices.reduce((sum, { rows }) => sum + rows, 0);

/** Linears in their order, those together that can be one matrix: of one type, and each ending with a whole panel. */
export function joinedLinears(weights: WeightSource, linears: readonly LinearSpec[]): LinearSpec[][] {
  const sets: LinearSpec[][] = [];
  for (const linear of linears) {
    const set = sets.at(-1);
    const last = set?.at(-1);
    const joins =
      last !== undefined &&
      last.weight.rows % PANEL_COLUMNS === 0 &&
      rowType(weights, last.weight) === rowType(weights, linear.weight);
    if (joins) set?.push(linear);
    else sets.push([linear]);
  }
  return sets;
}

export async function loadMatrix(
  loader: MatrixLoader,
  label: string,
  { inputs, slices }: MatrixRows,
): Promise<GpuMatrix> {
  const type = rowType(loader.weights, slices[0] as RowSlice);
  const format = formats[type];
  const outputs = outputsOf(slices);
  const perPart = PANEL_COLUMNS * mostPanels(loader, panelWords(format, inputs));
  const parts: MatrixPart[] = [];
  for (let firstOutput = 0; firstOutput < outputs; firstOutput += perPart) {
    const count = Math.min(perPart, outputs - firstOutput);
    const buffers = await allocate(loader, label, panelWords(format, inputs), panelsOf(count));
    parts.push({ firstOutput, outputs: count, ...buffers });
  }
  const filler = new Filler(loader, type, inputs);
  let at = 0;
  for (const slice of slices) {
    for (const part of parts) {
      const begin = Math.max(at, part.firstOutput);
      const end = Math.min(at + slice.rows, part.firstOutput + part.outputs);
      if (begin >= end) continue;
      await filler.fill(part, (begin - part.firstOutput) / PANEL_COLUMNS, slice, begin - at, end - at);
    }
    at += slice.rows;
  }
  await filler.done();
  return { format, inputs, outputs, parts };
}

/** The slices of each expert, all alike; but for the last of an expert, they end with whole panels. */
export async function loadExperts(
  loader: MatrixLoader,
  label: string,
  inputs: number,
  experts: readonly (readonly RowSlice[])[],
): Promise<ExpertMatrix> {
  const [first] = experts as readonly [readonly RowSlice[]];
  const type = rowType(loader.weights, first[0] as RowSlice);
  const other = experts.flat().find((slice) => rowType(loader.weights, slice) !== type);
  if (other !== undefined) throw otherType(other.tensor, type);
  const format = formats[type];
  const words = panelWords(format, inputs);
  const outputs = outputsOf(first);
  const panels = panelsOf(outputs);
  const perPart = Math.floor(mostPanels(loader, words) / panels);
  if (perPart === 0) throw new GpuMemoryError(`${label}: an expert is more than the GPU can bind`);
  const filler = new Filler(loader, type, inputs);
  const parts: ExpertPart[] = [];
  for (let firstExpert = 0; firstExpert < experts.length; firstExpert += perPart) {
    const own = experts.slice(firstExpert, firstExpert + perPart);
    const buffers = await allocate(loader, label, words, own.length * panels);
    parts.push({ firstExpert, experts: own.length, ...buffers });
    for (const [index, slices] of own.entries()) {
      let panel = index * panels;
      for (const slice of slices) {
        await filler.fill(buffers, panel, slice, 0, slice.rows);
        panel += panelsOf(slice.rows);
      }
    }
  }
  await filler.done();
  return { format, inputs, outputs, parts };
}

function otherType(tensor: string, type: TensorType): ModelFileError {
  return new ModelFileError({
    file: 'weights',
    field: tensor,
    problem: `experts of a layer are of one type, here ${type}, but this one is not`,
    remedy: 'Convert the model again with one type for all of its experts',
  });
}

function mostPanels({ bindingBytes }: MatrixLoader, { codes, scales }: PanelWords): number {
  return Math.max(1, Math.floor(bindingBytes / (4 * Math.max(codes, scales))));
}

async function allocate(
  { memory }: MatrixLoader,
  label: string,
  words: PanelWords,
  panels: number,
): Promise<PanelBuffers> {
  const codes = await memory.storage(label, 4 * panels * words.codes);
  if (words.scales === 0) return { codes, scales: undefined };
  return { codes, scales: await memory.storage(`${label} scales`, 4 * panels * words.scales) };
}

/** Packs and sends rows of one type, a few megabytes at a time, several pieces at once. */
class Filler {
  readonly #loader: MatrixLoader;
  readonly #type: TensorType;
  readonly #inputs: number;
  readonly #sending = new Set<Promise<unknown>>();
  readonly #failures: unknown[] = [];

  constructor(loader: MatrixLoader, type: TensorType, inputs: number) {
    this.#loader = loader;
    this.#type = type;
    this.#inputs = inputs;
  }

  /** Rows of a slice into panels from `panel` on; they may still be on their way when it returns. */
  async fill(to: PanelBuffers, panel: number, slice: RowSlice, begin: number, end: number): Promise<void> {
    const panelBytes = PANEL_COLUMNS * rowBytes(this.#type, this.#inputs);
    const step = PANEL_COLUMNS * Math.max(1, Math.floor(PIECE_BYTES / panelBytes));
    for (let row = begin; row < end; row += step) {
      while (this.#sending.size >= this.#loader.packing.atOnce) await Promise.race(this.#sending);
      const at = panel + (row - begin) / PANEL_COLUMNS;
      const sent = this.#send(to, at, slice, row, Math.min(step, end - row))
        .catch((error: unknown) => this.#failures.push(error))
        .finally(() => this.#sending.delete(sent));
      this.#sending.add(sent);
    }
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  async done(): Promise<void> {
    await Promise.all(this.#sending);
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  async #send(to: PanelBuffers, panel: number, slice: RowSlice, row: number, count: number): Promise<void> {
    const { weights, memory, onBytes } = this.#loader;
    const words = panelWords(formats[this.#type], this.#inputs);
    const rows = new Uint8Array(count * rowBytes(this.#type, this.#inputs));
    const { byteLength } = rows;
    readLinearRows(weights, slice, row, count, rows);
    const panels = await this.#pack(rows, count, slice.tensor);
    await memory.upload(to.codes, 4 * panel * words.codes, panels.codes);
    if (to.scales) await memory.upload(to.scales, 4 * panel * words.scales, panels.scales);
    onBytes(byteLength);
  }

  async #pack(rows: Uint8Array<ArrayBuffer>, count: number, tensor: string): Promise<Panels> {
    try {
      return await this.#loader.packing.pack(this.#type, this.#inputs, rows, count);
    } catch (error) {
      const remedy = 'The weights are damaged or were converted wrongly; get the model again';
      throw new ModelFileError({ file: 'weights', field: tensor, problem: messageOf(error), remedy });
    }
  }
}
