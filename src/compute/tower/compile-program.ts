// Makes a program of a tower's steps and the size of a view.

import type { LinearSpec } from '../../model/leaves.ts';
import type { PreprocessingSpec } from '../../model/vision/preprocessing.ts';
import { valueTable } from '../../model/vision/view-values.ts';
import type {
  GridAttentionSpec,
  GridRopeSpec,
  ImageView,
  PatchStep,
  PositionStep,
  TowerMlpSpec,
  TowerStep,
} from '../../model/vision/vision-spec.ts';
import { axesTaps, gridPositionTaps, tableTaps } from './position-taps.ts';
import {
  type BufferRows,
  flatSteps,
  type OutputRows,
  type Rotation,
  type TokenGroups,
  type TowerOperation,
  type TowerProgram,
} from './program.ts';
import { type CellGrid, firstCell, squareSources, tokenCount, turnsOf, windowGroups } from './token-grid.ts';

export type ViewSize = Pick<ImageView, 'width' | 'height'>;

export function compileProgram(
  steps: readonly TowerStep[],
  preprocessing: PreprocessingSpec,
  view: ViewSize,
): TowerProgram {
  const [patches] = steps;
  if (patches?.kind !== 'patches') throw new Error('a tower begins with patches');
  const compiler = new Compiler(flatSteps(steps));
  compiler.compile(steps, view);
  const { operations, rotations, groups, outputs } = compiler;
  const { width, height } = view;
  return {
    width,
    height,
    values: byteValues(patches, preprocessing),
    operations,
    rotations,
    groups,
    outputs,
  };
}

function byteValues({ values }: PatchStep, preprocessing: PreprocessingSpec): Float32Array {
  const table = Float32Array.from([0, 1, 2].flatMap((channel) => [...valueTable(preprocessing, channel)]));
  return values === undefined ? table : table.map((value) => value * values.factor + values.shift);
}

/** Cells in a buffer. */
interface Cells extends CellGrid {
  readonly buffer: number;
  readonly size: number;
}

/** What a step does with a value, where it does little. */
const VALUE_WORK = 4;

class Compiler {
  readonly operations: TowerOperation[] = [];
  readonly rotations: Rotation[] = [];
  readonly groups: TokenGroups[] = [];
  readonly outputs: OutputRows[] = [];
  readonly #numbers: ReadonlyMap<TowerStep, number>;
  readonly #rotationsByRope = new Map<string, number>();
  readonly #groupsByWindow = new Map<string, number>();
  /** Buffers whose rows are still read by later steps; what is in no other may be changed. */
  readonly #kept: number[] = [];

  constructor(flat: readonly TowerStep[]) {
    this.#numbers = new Map(flat.map((step, number) => [step, number]));
  }

  compile(steps: readonly TowerStep[], view: ViewSize): void {
    const [patches, ...rest] = steps as readonly [PatchStep, ...TowerStep[]];
    const deepstack: OutputRows[] = [];
    const end = this.#steps(rest, this.#patches(patches, view), deepstack);
    this.outputs.push(outputOf(end), ...deepstack);
  }

  #steps(steps: readonly TowerStep[], begin: Cells, deepstack: OutputRows[]): Cells {
    return steps.reduce((cells, step) => {
      if (step.kind !== 'deepstack') return this.#step(cells, step);
      this.#kept.push(cells.buffer);
      const output = this.#steps(step.steps, cells, deepstack);
      this.#kept.pop();
      this.#kept.push(output.buffer);
      deepstack.push(outputOf(output));
      return cells;
    }, begin);
  }

  #step(cells: Cells, step: Exclude<TowerStep, { readonly kind: 'deepstack' }>): Cells {
    const number = this.#numberOf(step);
    switch (step.kind) {
      case 'patches':
        throw new Error('patches are the first step of a tower');
      case 'linear':
        return this.#map(cells, number, step.linear.weight.rows, workOf(step.linear));
      case 'feed-forward':
        return this.#map(cells, number, step.mlp.down.weight.rows, mlpWork(step.mlp));
      case 'norm':
      case 'activation':
      case 'affine':
      case 'standardize':
        return this.#inPlace(cells, number, (rows) => [
          { kind: 'rows', ...rows, work: VALUE_WORK * cells.size },
        ]);
      case 'class-token':
        return this.#gather(cells, number, { ...cells, classToken: step.place }, (grid) =>
          withToken(grid, tokenCount(cells)),
        );
      case 'drop-class-token':
        return this.#gather(cells, number, { ...cells, classToken: undefined }, (grid) =>
          Int32Array.from({ length: tokenCount(grid) }, (_, token) => token + firstCell(cells)),
        );
      case 'merge':
      case 'pool':
        return this.#squares(cells, number, step);
      case 'position-table':
      case 'position-grid':
      case 'position-axes':
        return this.#positions(cells, number, step);
      case 'layer':
        return this.#layer(cells, number, step);
    }
  }

  #patches(step: PatchStep, { width, height }: ViewSize): Cells {
    const { size, linears, frames } = step;
    const [first] = linears;
    if (first === undefined) throw new Error('patches have no linear map');
    const rows = Math.floor(height / size);
    const columns = Math.floor(width / size);
    const cells = { rows, columns, size: first.weight.rows, buffer: this.#freeBuffer() };
    const work = linears.reduce((sum, linear) => sum + workOf(linear), 3 * frames * size * size);
    this.operations.push({
      kind: 'patches',
      step: this.#numberOf(step),
      to: rowsOf(cells),
      columns,
      work,
    });
    return cells;
  }

  #map(cells: Cells, step: number, size: number, work: number): Cells {
    const mapped = { ...cells, size, buffer: this.#freeBuffer(cells) };
    this.operations.push({ kind: 'rows', step, from: rowsOf(cells), to: rowsOf(mapped), work });
    return mapped;
  }

  /** In a copy where the rows are still needed as they are. */
  #inPlace(
    cells: Cells,
    step: number,
    make: (shared: {
      readonly step: number;
      readonly from: BufferRows;
      readonly to: BufferRows;
    }) => readonly TowerOperation[],
  ): Cells {
    const own = this.#kept.includes(cells.buffer) ? this.#copy(cells, step) : cells;
    this.operations.push(...make({ step, from: rowsOf(own), to: rowsOf(own) }));
    return own;
  }

  #copy(cells: Cells, step: number): Cells {
    return this.#gather(cells, step, cells, (grid) =>
      Int32Array.from({ length: tokenCount(grid) }, (_, token) => token),
    );
  }

  /** Each row is one of those before. */
  #gather(cells: Cells, step: number, grid: CellGrid, sourcesOf: (grid: CellGrid) => Int32Array): Cells {
    const { rows, columns, classToken } = grid;
    const gathered = { rows, columns, classToken, size: cells.size, buffer: this.#freeBuffer(cells) };
    this.operations.push({
      kind: 'gather',
      step,
      by: 'cells',
      members: 1,
      sources: sourcesOf(gathered),
      from: rowsOf(cells),
      to: rowsOf(gathered),
      work: cells.size,
    });
    return gathered;
  }

  #squares(
    cells: Cells,
    step: number,
    given: Extract<TowerStep, { readonly kind: 'merge' | 'pool' }>,
  ): Cells {
    const { size: side } = given;
    const members = side * side;
    const isPool = given.kind === 'pool';
    const made = {
      rows: Math.floor(cells.rows / side),
      columns: Math.floor(cells.columns / side),
      size: isPool ? cells.size : cells.size * members,
      buffer: this.#freeBuffer(cells),
    };
    this.operations.push({
      kind: 'gather',
      step,
      by: isPool ? 'mean' : given.order,
      members,
      sources: squareSources(cells, side),
      from: rowsOf(cells),
      to: rowsOf(made),
      work: cells.size * members,
    });
    return made;
  }

  #positions(cells: Cells, step: number, given: PositionStep): Cells {
    const taps =
      given.kind === 'position-axes'
        ? axesTaps(cells)
        : given.kind === 'position-grid'
          ? [gridPositionTaps(cells, given)]
          : [tableTaps(cells, given.table.rows)];
    return this.#inPlace(cells, step, (rows) =>
      taps.map((own, table) => ({
        kind: 'table',
        table,
        taps: own,
        ...rows,
        work: VALUE_WORK * cells.size * Math.ceil(own.rows.length / rows.to.rows),
      })),
    );
  }

  #layer(cells: Cells, step: number, { branches }: Extract<TowerStep, { readonly kind: 'layer' }>): Cells {
    return this.#inPlace(cells, step, (rows) =>
      branches.flatMap(({ body }, branch): TowerOperation[] =>
        body.kind === 'tower-mlp'
          ? [{ kind: 'mlp', branch, ...rows, work: mlpWork(body) }]
          : this.#attention(cells, body, { branch, ...rows }),
      ),
    );
  }

  #attention(
    cells: Cells,
    { query, key, value, output, headCount, headSize, rope, window }: GridAttentionSpec,
    shared: {
      readonly step: number;
      readonly branch: number;
      readonly from: BufferRows;
      readonly to: BufferRows;
    },
  ): TowerOperation[] {
    const groups = numberOf(this.#groupsByWindow, this.groups, [cells, window], () =>
      windowGroups(cells, window),
    );
    const rotation =
      rope && numberOf(this.#rotationsByRope, this.rotations, [cells, rope], () => rotationOf(cells, rope));
    const seen = 2 * headCount * headSize * seenTokens(this.groups[groups] as TokenGroups);
    return [
      { kind: 'project', ...shared, rotation, groups, work: workOf(query) + workOf(key) + workOf(value) },
      { kind: 'attend', ...shared, groups, work: workOf(output) + seen },
    ];
  }

  #numberOf(step: TowerStep): number {
    return this.#numbers.get(step) as number;
  }

  #freeBuffer(...read: readonly Cells[]): number {
    const used = new Set([...this.#kept, ...read.map(({ buffer }) => buffer)]);
    let free = 0;
    while (used.has(free)) free++;
    return free;
  }
}

/** The place of what `make` gives in a list, once for all with the same key. */
function numberOf<Item>(
  known: Map<string, number>,
  list: Item[],
  [{ rows, columns, classToken }, what]: readonly [Cells, unknown],
  make: () => Item,
): number {
  const key = JSON.stringify([rows, columns, classToken, what]);
  const number = known.get(key) ?? list.push(make()) - 1;
  known.set(key, number);
  return number;
}

function rotationOf(cells: Cells, rope: GridRopeSpec): Rotation {
  return { values: turnsOf(cells, rope) };
}

/** How many a row sees, on average. */
function seenTokens({ order, starts }: TokenGroups): number {
  let pairs = 0;
  for (let group = 1; group < starts.length; group++) {
    pairs += ((starts[group] as number) - (starts[group - 1] as number)) ** 2;
  }
  return pairs / order.length;
}

function withToken(grid: CellGrid, count: number): Int32Array {
  const sources = Int32Array.from({ length: count + 1 }, (_, token) => token - firstCell(grid));
  if (grid.classToken === 'last') sources[count] = -1;
  return sources;
}

function rowsOf(cells: Cells): BufferRows {
  return { buffer: cells.buffer, rows: tokenCount(cells), size: cells.size };
}

function outputOf(cells: Cells): OutputRows {
  return { ...rowsOf(cells), columns: cells.columns };
}

function workOf({ weight, columns }: LinearSpec): number {
  return weight.rows * columns;
}

function mlpWork({ gate, up, down }: TowerMlpSpec): number {
  return workOf(up) + workOf(down) + (gate === undefined ? 0 : workOf(gate));
}
