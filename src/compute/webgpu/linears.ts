// Linear maps of a forward pass: their matrices, the input they read, and the products. Rows here are a step's rows, those
// whose logits are wanted, or one for each expert that a row has chosen.

import type { LinearSpec } from '../../model/spec.ts';
import { type Additions, addAdditions, declareAdditions } from './adapters.ts';
import type { ProductOutput } from './builder.ts';
import { Builder, type DeclaredBuffer, type InputSource, type Loading, valuesOf } from './builder.ts';
import { chooseExpertTile, chooseTile, expertRows, type Tile, tilesFor } from './choose-tile.ts';
import type { Declared } from './declared.ts';
import { type Format, GROUP_INPUTS, PANEL_COLUMNS } from './format.ts';
import {
  INPUT_ROWS,
  INPUT_VALUES,
  type InputRows,
  makeInputKernel,
  paddedValues,
} from './kernels/linear-input.ts';
import {
  canMultiply,
  type MultiplyKernel,
  type MultiplyShape,
  multiplyKernel,
  multiplyThreads,
  shapeWords,
} from './kernels/matmul.ts';
import { mostTiles, tableWords } from './kernels/moe-routing.ts';
import { inputsOf, loadBiases, loadExpertMatrices, loadMatrices, type Matrices } from './linear-matrices.ts';
import type { ExpertMatrix, GpuMatrix, PanelBuffers } from './matrix.ts';
import { type Grid, Operation } from './operation.ts';
import type { StepCounts } from './plan-step.ts';

interface Linear<Matrix extends GpuMatrix | ExpertMatrix = GpuMatrix> {
  readonly inputs: number;
  readonly matrices: Declared<Matrices<Matrix>>;
  readonly additions: Additions | undefined;
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

/** How many tiles of rows a step has, which tile is best for it, and what is read besides matrices and input. */
interface Sharing {
  readonly rowTiles: (tile: Tile, counts: StepCounts) => number;
  readonly choose: (tiles: readonly Tile[], counts: StepCounts, panels: number) => number;
  readonly rows: Declared<GPUBuffer>;
}

class Linears {
  readonly #builder: Builder;
  readonly #texts = new Map<string, string>();

  constructor(builder: Builder) {
    this.#builder = builder;
  }

  load(label: string, specs: readonly LinearSpec[]): Linear {
    const matrices = this.#builder.declare(label, ({ loader }) => loadMatrices(loader, label, specs));
    return { inputs: inputsOf(specs), matrices, additions: declareAdditions(this.#builder, [specs]) };
  }

  /** The output head over a matrix that is the embedding, too. */
  tied(matrix: Declared<GpuMatrix>, head: LinearSpec): Linear {
    const matrices = this.#builder.declare('head', async ({ loader }) => [
      { matrix: matrix.value, offset: 0, bias: await loadBiases(loader, matrix.value, [head]) },
    ]);
    return { inputs: head.columns, matrices, additions: declareAdditions(this.#builder, [[head]]) };
  }

  /** The same of all experts, each with its linears in the same order. */
  loadExperts(label: string, experts: readonly (readonly LinearSpec[])[]): Linear<ExpertMatrix> {
    const [first] = experts as readonly [readonly LinearSpec[]];
    const matrices = this.#builder.declare(label, ({ loader }) => loadExpertMatrices(loader, label, experts));
    return { inputs: inputsOf(first), matrices, additions: declareAdditions(this.#builder, experts) };
  }

  /** Makes rows the input of linears, in the forms that they read. */
  input(
    linears: readonly Linear<GpuMatrix | ExpertMatrix>[],
    source: InputSource,
    rows: InputRows = 'all',
  ): void {
    const { codes, sides, values } = this.#inputBuffers(source.size, copiesOf(rows));
    const reads = (kind: Format['kind']) =>
      linears.some(({ matrices }) => matrices.value.some(({ matrix }) => matrix.format.kind === kind));
    this.#builder.addAll(async () => [
      this.#makeInput(source, rows, {
        ...(reads('coded') ? { codes: [codes, sides] } : {}),
        ...(reads('float') || linears.some(({ additions }) => additions) ? { values } : {}),
      }),
    ]);
  }

  /** Makes rows floats in a buffer of their own. */
  values(source: InputSource, rows: InputRows, values: DeclaredBuffer): void {
    this.#builder.addAll(async () => [this.#makeInput(source, rows, { values })]);
  }

  #makeInput(
    { making, size, stride, buffers, bounds }: InputSource,
    rows: InputRows,
    { codes, values }: { readonly codes?: readonly DeclaredBuffer[]; readonly values?: DeclaredBuffer },
  ): Operation {
    if (codes !== undefined && size % GROUP_INPUTS !== 0) {
      throw new Error('rows of codes come in whole groups');
    }
    const makes = { codes: codes !== undefined, values: values !== undefined };
    const text = makeInputKernel({ making, size, stride, rows, bounds, ...makes });
    const made = [...(codes ?? []), ...(values === undefined ? [] : [values])];
    const grid: Grid = (counts) => [Math.ceil(size / INPUT_VALUES), inputCount(rows, counts)];
    const bound = valuesOf([this.#builder.scratchPlan.step, ...buffers, ...made]);
    return new Operation(`input (${making.kind})`, [{ text, grid }], bound);
  }

  /** Input in all forms: `copies` rows of `size` values for each row of a step. */
  #inputBuffers(size: number, copies: number) {
    const { scratchPlan } = this.#builder;
    const width = copies * size;
    const groups = (rows: number) =>
      INPUT_ROWS * Math.ceil((rows * copies) / INPUT_ROWS) * Math.ceil(size / 32);
    return {
      codes: scratchPlan.request('input codes', { width, words: (rows) => 8 * groups(rows) }),
      sides: scratchPlan.request('input sides', { width, words: (rows) => 2 * groups(rows) }),
      values: scratchPlan.request('input values', {
        width,
        words: (rows) => rows * copies * paddedValues(size),
      }),
    };
  }

  /** Of a step's rows, or of those whose logits are wanted. */
  multiply(linear: Linear, output: ProductOutput, input: 'rows' | 'wanted' = 'rows'): void {
    const { matrices, additions } = linear;
    if (additions?.factors !== undefined && output.adds) {
      // Factors are for the product alone, not for what it is added to.
      const { buffer, stride, scale = 1 } = output;
      const product = this.#builder.scratch('product to scale', stride);
      this.multiply(linear, { buffer: product, stride }, input);
      this.#builder.join({ from: product }, { buffer, adds: true, scale });
      return;
    }
    const sharing: Sharing = {
      rowTiles: ({ rows }, counts) => Math.ceil(counts[input] / rows),
      choose: (tiles, counts, panels) => chooseTile(tiles, counts[input], panels),
      rows: this.#builder.scratchPlan.step,
    };
    const products = () =>
      matrices.value.flatMap(({ matrix: { format, inputs, parts }, offset, bias }) =>
        parts.map((part, index) => {
          const { outputs, firstOutput } = part;
          const shape = { inputs, outputs, outputOffset: offset + firstOutput, input };
          return { format, buffers: part, shape, bias: bias[index] };
        }),
      );
    this.#multiplyAll(linear, products, output, sharing);
    if (additions !== undefined) addAdditions(this.#builder, additions, output, input);
  }

  /** Of each choice of a row by the expert that it is. */
  multiplyExperts(
    linear: Linear<ExpertMatrix>,
    output: ProductOutput,
    { experts, choices, sharesInput }: ExpertRows,
  ): void {
    const sharing: Sharing = {
      rowTiles: ({ rows }, counts) => mostTiles({ experts, rows }, counts.rows * choices),
      choose: (tiles, counts, panels) => chooseExpertTile(tiles, counts.rows * choices, experts, panels),
      rows: this.expertTiles(choices),
    };
    const products = () =>
      linear.matrices.value.flatMap(({ matrix: { format, inputs, outputs, parts }, offset, bias }) =>
        parts.map((part, index) => {
          const input = {
            first: part.firstExpert,
            count: part.experts,
            choices: sharesInput ? choices : 1,
          };
          const shape = { inputs, outputs, outputOffset: offset, input };
          return { format, buffers: part, shape, bias: bias[index] };
        }),
      );
    this.#multiplyAll(linear, products, output, sharing);
    if (linear.additions !== undefined) {
      addAdditions(this.#builder, linear.additions, output, { choices, sharesInput });
    }
  }

  /** Which rows each expert has, in tiles: see moe-routing.ts. */
  expertTiles(choices: number): Declared<GPUBuffer> {
    const words = (rows: number) => tableWords(rows * choices);
    return this.#builder.scratchPlan.request('rows of experts', { width: 0, copies: choices, words });
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

  #multiplyAll(
    { inputs }: Linear<GpuMatrix | ExpertMatrix>,
    products: () => readonly Product[],
    output: ProductOutput,
    sharing: Sharing,
  ): void {
    const { codes, sides, values } = this.#inputBuffers(inputs, 1);
    this.#builder.addAll(async (loading) => {
      const operations: Operation[] = [];
      for (const product of products()) {
        const input = product.format.kind === 'coded' ? [codes.value, sides.value] : [values.value];
        operations.push(await this.#product(loading, product, input, output, sharing));
      }
      return operations;
    });
  }

  async #product(
    { loader }: Loading,
    { format, buffers, bias, shape: own }: Product,
    input: readonly GPUBuffer[],
    output: ProductOutput,
    { rowTiles, choose, rows }: Sharing,
  ): Promise<Operation> {
    const { scratchPlan, limits } = this.#builder;
    const { stride, offset = 0, adds = false, scale, softcap } = output;
    const shape = {
      ...own,
      outputOffset: own.outputOffset + offset,
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
    const constants = await loader.memory.constants('shape', shapeWords(format, shape));
    const others = [rows.value, bias ?? scratchPlan.nothing.value, constants];
    const bound = [...panelBuffers(buffers), ...input, output.buffer.value, ...others];
    const name = `multiply ${experts ? 'experts ' : ''}${shape.inputs} x ${shape.outputs}`;
    return new Operation(name, variants, bound, (counts) => choose(tiles, counts, panels));
  }

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
}

export const panelBuffers = ({ codes, scales }: PanelBuffers): GPUBuffer[] =>
  scales === undefined ? [codes] : [codes, scales];

function copiesOf(rows: InputRows): number {
  if (typeof rows !== 'object') return 1;
  return 'choices' in rows ? rows.choices : rows.scaledChoices;
}

function inputCount(rows: InputRows, counts: StepCounts): number {
  if (typeof rows === 'object') return counts.rows * copiesOf(rows);
  return { all: counts.rows, wanted: counts.wanted, states: counts.states, view: counts.rows }[rows];
}

/** What layers are described with. */
export class LayerBuilder extends Builder {
  readonly linears = new Linears(this);
}
