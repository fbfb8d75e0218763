// Linear maps of a forward pass: their matrices, the input they read, and the products. What is said of rows here is said
// of a step's rows, of those that are wanted, or of the choices of experts that each row has made.

import type { LinearSpec } from '../../model/spec.ts';
import { readBias } from '../../model/weight-reader.ts';
import { type Additions, type EmbeddingAdditions, loadAdditions } from './adapters.ts';
import type { Builder, InputSource } from './builder.ts';
import { chooseExpertTile, chooseTile, expertRows, type Tile, tilesFor } from './choose-tile.ts';
import { type Format, GROUP_INPUTS, PANEL_COLUMNS } from './format.ts';
import {
  type AdditionRows,
  bringDownKernel,
  EXPANDED_VALUES,
  expandKernel,
  TOKEN_VALUES,
  tokenValuesKernel,
} from './kernels/adapters.ts';
import { mostTiles } from './kernels/group-choices.ts';
import { INPUT_VALUES, type InputRows, makeInputKernel } from './kernels/make-input.ts';
import {
  canMultiply,
  type MultiplyKernel,
  type MultiplyShape,
  multiplyKernel,
  multiplyThreads,
  shapeWords,
} from './kernels/multiply.ts';
import {
  type ExpertMatrix,
  type GpuMatrix,
  joinedLinears,
  loadExperts,
  loadMatrix,
  type PanelBuffers,
} from './matrix.ts';
import { type Grid, Operation } from './operation.ts';
import type { StepCounts } from './plan-step.ts';

/** Matrices that read the same input and write side by side into one row. */
export interface Linear<Matrix extends GpuMatrix | ExpertMatrix = GpuMatrix> {
  readonly matrices: readonly {
    readonly matrix: Matrix;
    /** Where its outputs start. */
    readonly offset: number;
    /** For each of its parts, where there are any. */
    readonly bias: readonly GPUBuffer[];
  }[];
  /** What adapters add, from a place of the row on. */
  readonly additions?: (Additions & { readonly offset: number }) | undefined;
}

type ExpertLinear = Linear<ExpertMatrix>;

interface ProductOutput {
  readonly buffer: GPUBuffer;
  readonly stride: number;
  readonly adds?: boolean;
  readonly scale?: number;
  readonly softcap?: number | undefined;
}

/** Rows that go to experts. */
export interface ExpertRows {
  readonly experts: number;
  /** Choices of a row. */
  readonly choices: number;
  /** Whether all choices of a row read the same input. */
  readonly sharesInput: boolean;
}

/** What can be bound at once of a product. */
interface Product {
  readonly format: Format;
  readonly buffers: PanelBuffers;
  readonly shape: Pick<MultiplyShape, 'inputs' | 'outputs' | 'outputOffset' | 'input'>;
  readonly bias: GPUBuffer | undefined;
}

/** How many tiles of rows a step has, and which tile is best for it. */
interface Sharing {
  readonly rowTiles: (tile: Tile, counts: StepCounts) => number;
  readonly choose: (tiles: readonly Tile[], counts: StepCounts, panels: number) => number;
}

export class Linears {
  readonly #builder: Builder;
  readonly #texts = new Map<string, string>();

  constructor(builder: Builder) {
    this.#builder = builder;
  }

  /** Joined into one matrix where types and sizes allow it: one kernel instead of several. */
  async load(label: string, specs: readonly LinearSpec[]): Promise<Linear> {
    const { loader } = this.#builder;
    const matrices: { matrix: GpuMatrix; offset: number; bias: readonly GPUBuffer[] }[] = [];
    let offset = 0;
    for (const set of joinedLinears(loader.weights, specs)) {
      const slices = set.map(({ weight }) => weight);
      const matrix = await loadMatrix(loader, label, { inputs: inputsOf(set), slices });
      matrices.push({ matrix, offset, bias: await this.biases(matrix, set) });
      offset += matrix.outputs;
    }
    const additions = await loadAdditions(loader, [specs]);
    return { matrices, additions: additions && { ...additions, offset: 0 } };
  }

  /** The same of all experts, each with its linears in the same order. */
  async loadExperts(label: string, experts: readonly (readonly LinearSpec[])[]): Promise<ExpertLinear> {
    const { loader } = this.#builder;
    const [first] = experts as readonly [readonly LinearSpec[]];
    const matrices: { matrix: ExpertMatrix; offset: number; bias: readonly GPUBuffer[] }[] = [];
    let [offset, from] = [0, 0];
    for (const { length } of joinedLinears(loader.weights, first)) {
      const sets = experts.map((specs) => specs.slice(from, from + length));
      const slices = sets.map((set) => set.map(({ weight }) => weight));
      const matrix = await loadExperts(loader, label, inputsOf(sets.flat()), slices);
      const hasBias = sets.flat().some(({ bias }) => bias !== undefined);
      const bias: GPUBuffer[] = [];
      for (const { firstExpert, experts: count } of hasBias ? matrix.parts : []) {
        const own = sets.slice(firstExpert, firstExpert + count).flat();
        bias.push(await loader.memory.filled('bias', this.#joinedBias(own)));
      }
      matrices.push({ matrix, offset, bias });
      offset += matrix.outputs;
      from += length;
    }
    const additions = await loadAdditions(loader, experts);
    return { matrices, additions: additions && { ...additions, offset: 0 } };
  }

  /** A buffer for each part, where any of the linears that make up a matrix has a bias. */
  async biases(matrix: GpuMatrix, specs: readonly LinearSpec[]): Promise<GPUBuffer[]> {
    if (specs.every(({ bias }) => bias === undefined)) return [];
    const values = this.#joinedBias(specs);
    const buffers: GPUBuffer[] = [];
    for (const { firstOutput, outputs } of matrix.parts) {
      const own = values.slice(firstOutput, firstOutput + outputs);
      buffers.push(await this.#builder.loader.memory.filled('bias', own));
    }
    return buffers;
  }

  /** Makes rows the input of linears, in the forms that they read. */
  input(
    linears: readonly Linear<GpuMatrix | ExpertMatrix>[],
    source: InputSource,
    rows: InputRows = 'all',
  ): void {
    const { codes, sides, values } = this.#builder.scratch;
    const reads = (kind: Format['kind']) =>
      linears.some(({ matrices }) => matrices.some(({ matrix }) => matrix.format.kind === kind));
    this.makeInput(source, rows, {
      ...(reads('coded') ? { codes: [codes, sides] } : {}),
      ...(reads('float') || linears.some(({ additions }) => additions) ? { values } : {}),
    });
  }

  makeInput(
    { making, size, stride, buffers }: InputSource,
    rows: InputRows,
    { codes, values }: { readonly codes?: readonly GPUBuffer[]; readonly values?: GPUBuffer },
  ): void {
    if (codes !== undefined && size % GROUP_INPUTS !== 0) {
      throw new Error('rows of codes come in whole groups');
    }
    const makes = { codes: codes !== undefined, values: values !== undefined };
    const text = makeInputKernel({ making, size, stride, rows, ...makes });
    const made = [...(codes ?? []), ...(values === undefined ? [] : [values])];
    const { step } = this.#builder.scratch;
    this.#builder.add(`input (${making.kind})`, text, [step, ...buffers, ...made], (counts) => [
      Math.ceil(size / INPUT_VALUES),
      inputCount(rows, counts),
    ]);
  }

  /** Of a step's rows, or of those whose logits are wanted. */
  async multiply(linear: Linear, output: ProductOutput, input: 'rows' | 'wanted' = 'rows'): Promise<void> {
    const { matrices, additions } = linear;
    if (additions?.factors !== undefined && output.adds) {
      // Factors are for the product alone, not for what it is added to.
      const { product } = this.#builder.scratch;
      await this.multiply(linear, { buffer: product, stride: output.stride }, input);
      this.#builder.join({ from: product }, { buffer: output.buffer, adds: true, scale: output.scale ?? 1 });
      return;
    }
    const count = (counts: StepCounts) => counts[input];
    const sharing: Sharing = {
      rowTiles: ({ rows }, counts) => Math.ceil(count(counts) / rows),
      choose: (tiles, counts, panels) => chooseTile(tiles, count(counts), panels),
    };
    for (const { matrix, offset, bias } of matrices) {
      const { format, inputs } = matrix;
      for (const [index, part] of matrix.parts.entries()) {
        const { outputs, firstOutput } = part;
        const shape = { inputs, outputs, outputOffset: offset + firstOutput, input };
        await this.#push({ format, buffers: part, shape, bias: bias[index] }, output, sharing);
      }
    }
    if (additions !== undefined) this.#addAdditions(additions, output, input);
  }

  /** What adapters add to a product, from the same input. */
  #addAdditions(
    { shape, down, up, factors, offset }: NonNullable<Linear['additions']>,
    { buffer, stride, scale = 1 }: ProductOutput,
    rows: AdditionRows,
  ): void {
    const { step, values, brought, choices } = this.#builder.scratch;
    const hasFactors = factors !== undefined;
    const outer = { ...shape, outputOffset: offset, outputStride: stride, scale, hasFactors };
    const chosen = typeof rows === 'object' ? [choices] : [];
    const buffers = [step, brought, up, buffer, ...(hasFactors ? [factors] : []), ...chosen];
    const count = ({ adapted, wanted }: StepCounts) => {
      if (rows === 'wanted') return adapted === 0 ? 0 : wanted;
      return adapted * (rows === 'rows' ? 1 : rows.choices);
    };
    this.#builder.add(
      'adapters, down',
      bringDownKernel(shape, rows),
      [step, values, down, brought, ...chosen],
      (counts) => [shape.values, count(counts)],
    );
    this.#builder.add('adapters, up', expandKernel(outer, rows), buffers, (counts) => [
      Math.ceil(shape.outputs / EXPANDED_VALUES),
      count(counts),
    ]);
  }

  /** What adapters add to embeddings, which are scaled. */
  addToEmbeddings({ shape, table, up }: EmbeddingAdditions, buffer: GPUBuffer, tokens: number): void {
    const { step, brought } = this.#builder.scratch;
    const { embeddingScale: scale, hiddenSize: stride } = this.#builder.spec;
    const outer = { ...shape, outputOffset: 0, outputStride: stride, scale, hasFactors: false };
    const text = tokenValuesKernel(shape.rank, tokens);
    this.#builder.add('adapters, tokens', text, [step, table, brought], ({ adapted }) => [
      Math.ceil(shape.rank / TOKEN_VALUES),
      adapted,
    ]);
    const buffers = [step, brought, up, buffer];
    this.#builder.add('adapters, up', expandKernel(outer, 'rows'), buffers, ({ adapted }) => [
      Math.ceil(shape.outputs / EXPANDED_VALUES),
      adapted,
    ]);
  }

  /** Of each choice of a row by the expert that it is. */
  async multiplyExperts(
    { matrices, additions }: ExpertLinear,
    output: ProductOutput,
    { experts, choices, sharesInput }: ExpertRows,
  ): Promise<void> {
    const sharing: Sharing = {
      rowTiles: ({ rows }, counts) => mostTiles({ experts, rows }, counts.rows * choices),
      choose: (tiles, counts, panels) => chooseExpertTile(tiles, counts.rows * choices, experts, panels),
    };
    for (const { matrix, offset, bias } of matrices) {
      const { format, inputs, outputs } = matrix;
      for (const [index, part] of matrix.parts.entries()) {
        const input = { first: part.firstExpert, count: part.experts, choices: sharesInput ? choices : 1 };
        const shape = { inputs, outputs, outputOffset: offset, input };
        await this.#push({ format, buffers: part, shape, bias: bias[index] }, output, sharing);
      }
    }
    if (additions !== undefined) this.#addAdditions(additions, output, { choices, sharesInput });
  }

  /** The numbers of rows that tiles of experts may have, and which of them a step takes; the same for all matrices. */
  expertTileRows(
    experts: number,
    choices: number,
  ): {
    readonly rows: readonly number[];
    readonly choose: (counts: StepCounts) => number;
  } {
    const tiles = this.#tiles({ kind: 'float', encoding: 'f32' }, 1);
    const rows = [...new Set(tiles.map((tile) => tile.rows))];
    return { rows, choose: (counts) => rows.indexOf(expertRows(tiles, counts.rows * choices, experts)) };
  }

  async #push(product: Product, output: ProductOutput, { rowTiles, choose }: Sharing): Promise<void> {
    const { format, buffers, bias } = product;
    const { scratch, limits, loader, operations } = this.#builder;
    const { stride, adds = false, scale, softcap } = output;
    const shape = {
      ...product.shape,
      outputStride: stride,
      adds,
      hasBias: bias !== undefined,
      scale,
      softcap,
    };
    const experts = typeof shape.input === 'object';
    const panels = Math.ceil(shape.outputs / PANEL_COLUMNS);
    const threads = multiplyThreads(limits.workgroupThreads);
    const tiles = this.#tiles(format, panels);
    const variants = tiles.map((tile) => {
      const grid: Grid = (counts) => [Math.ceil(panels / tile.panels), rowTiles(tile, counts)];
      return { text: this.#text({ format, ...tile, threads, experts }), grid };
    });
    const { codes, sides, values, step, groups, nothing } = scratch;
    const inputs = format.kind === 'coded' ? [codes, sides] : [values];
    const constants = await loader.memory.constants('shape', shapeWords(format, shape));
    const told = [experts ? groups : step, bias ?? nothing, constants];
    const bound = [...panelBuffers(buffers), ...inputs, output.buffer, ...told];
    const name = `multiply ${experts ? 'experts ' : ''}${shape.inputs} x ${shape.outputs}`;
    operations.push(new Operation(name, variants, bound, (counts) => choose(tiles, counts, panels)));
  }

  /** Those that the adapter can run. */
  #tiles(format: Format, panels: number): Tile[] {
    const { workgroupBytes, workgroupThreads } = this.#builder.limits;
    const threads = multiplyThreads(workgroupThreads);
    return tilesFor(format, panels).filter((tile) => canMultiply({ ...tile, threads }, workgroupBytes));
  }

  /** Each text once: they are long, and many matrices share them. */
  #text(kernel: MultiplyKernel): string {
    const key = JSON.stringify(kernel);
    const text = this.#texts.get(key) ?? multiplyKernel(kernel);
    this.#texts.set(key, text);
    return text;
  }

  #joinedBias(specs: readonly LinearSpec[]): Float32Array<ArrayBuffer> {
    const values = new Float32Array(specs.reduce((sum, { weight }) => sum + weight.rows, 0));
    let at = 0;
    for (const { weight, bias } of specs) {
      if (bias !== undefined) values.set(readBias(this.#builder.loader.weights, bias), at);
      at += weight.rows;
    }
    return values;
  }
}

const inputsOf = (specs: readonly LinearSpec[]): number => (specs[0] as LinearSpec).columns;

/** The same, with outputs so much further on. */
export function shifted({ matrices, additions }: Linear, by: number): Linear {
  return {
    matrices: matrices.map((one) => ({ ...one, offset: one.offset + by })),
    additions: additions && { ...additions, offset: additions.offset + by },
  };
}

/** As kernels bind them. */
export const panelBuffers = ({ codes, scales }: PanelBuffers): GPUBuffer[] =>
  scales === undefined ? [codes] : [codes, scales];

function inputCount(rows: InputRows, counts: StepCounts): number {
  if (typeof rows === 'object') return counts.rows * ('choices' in rows ? rows.choices : rows.scaledChoices);
  return { all: counts.rows, wanted: counts.wanted, states: counts.states }[rows];
}
