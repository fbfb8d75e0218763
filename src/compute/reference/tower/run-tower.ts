// Runs a vision tower over a view of a picture, step by step, and joins what it gives for all views.

import { curves, sigmoid } from '../../../model/activation-curves.ts';
import type { PreprocessingSpec } from '../../../model/vision/preprocessing.ts';
import { viewValues } from '../../../model/vision/view-values.ts';
import type {
  ImageView,
  PatchStep,
  TileGrid,
  TowerActivation,
  TowerBranchSpec,
  TowerMlpSpec,
  TowerSpec,
  TowerStep,
} from '../../../model/vision/vision-spec.ts';
import type { ImageFeatures } from '../../backend.ts';
import { joinViews } from '../../tower/join-views.ts';
import { applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import { addInto } from '../vector.ts';
import type { Loaded } from '../weights.ts';
import { type Cells, mapSquares } from './cells.ts';
import { runGridAttention } from './grid-attention.ts';
import { addPositionAxes, addPositionGrid, addPositionTable } from './positions.ts';

type Step<Kind> = Extract<Loaded<TowerStep>, { readonly kind: Kind }>;
type Outputs = readonly Cells[];

/** What the steps of a view have given beside its cells. */
export interface Progress {
  readonly cells: Cells;
  readonly deepstack: Outputs;
}

type RunStep<Kind> = (cells: Cells, step: Step<Kind>) => Cells;

const runs: {
  readonly [Kind in Exclude<TowerStep['kind'], 'patches' | 'deepstack'>]: RunStep<Kind>;
} = {
  linear: (cells, { linear }) => ({
    ...cells,
    size: linear.matrix.rows,
    values: applyLinear(linear, cells.values),
  }),
  norm: (cells, { norm, epsilon }) => ({
    ...cells,
    values: normalize(cells.values.slice(), cells.size, norm, epsilon),
  }),
  activation: (cells, { activation }) => ({ ...cells, values: cells.values.map(curveOf(activation)) }),
  affine: (cells, { factor, shift }) => ({
    ...cells,
    values: cells.values.map((value) => value * factor + shift),
  }),
  standardize: (cells, { shifts, scales }) => ({
    ...cells,
    values: cells.values.map((value, at) => {
      const channel = at % cells.size;
      return (value - (shifts[channel] as number)) * (scales[channel] as number);
    }),
  }),
  'class-token': addClassToken,
  'drop-class-token': dropClassToken,
  'position-table': addPositionTable,
  'position-grid': addPositionGrid,
  'position-axes': addPositionAxes,
  layer: runLayer,
  'feed-forward': (cells, { mlp }) => ({
    ...cells,
    size: mlp.down.matrix.rows,
    values: runMlp(mlp, cells.values),
  }),
  merge: runMerge,
  pool: runPool,
};

export function joinedFeatures(
  { join }: Loaded<TowerSpec>,
  done: readonly Progress[],
  tiles: TileGrid,
): ImageFeatures {
  const joined = (outputOf: (progress: Progress) => Cells) => joinViews(join, done.map(outputOf), tiles);
  return {
    embeddings: joined(({ cells }) => cells),
    deepstack: (done[0]?.deepstack ?? []).map((_, layer) =>
      joined(({ deepstack }) => deepstack[layer] as Cells),
    ),
  };
}

export function runView(
  { steps }: Loaded<TowerSpec>,
  preprocessing: PreprocessingSpec,
  view: ImageView,
): Progress {
  const [first, ...rest] = steps;
  if (first?.kind !== 'patches') throw new Error('a tower begins with patches');
  const values = viewValues(view, preprocessing);
  return runSteps(rest, patchesOf(first, { ...view, values }));
}

function runSteps(steps: readonly Loaded<TowerStep>[], begin: Cells): Progress {
  let cells = begin;
  const deepstack: Cells[] = [];
  for (const step of steps) {
    if (step.kind === 'patches') throw new Error('patches are the first step of a tower');
    if (step.kind === 'deepstack') deepstack.push(runSteps(step.steps, cells).cells);
    else cells = (runs[step.kind] as RunStep<typeof step.kind>)(cells, step as never);
  }
  return { cells, deepstack };
}

interface ViewValues {
  readonly width: number;
  readonly height: number;
  /** Channel by channel, row by row. */
  readonly values: Float32Array;
}

function patchesOf({ size, order, frames, linears, values }: Loaded<PatchStep>, given: ViewValues): Cells {
  const view =
    values === undefined
      ? given
      : { ...given, values: given.values.map((one) => one * values.factor + values.shift) };
  const rows = Math.floor(view.height / size);
  const columns = Math.floor(view.width / size);
  const patchSize = 3 * frames * size * size;
  const patches = new Float32Array(rows * columns * patchSize);
  for (let cell = 0; cell < rows * columns; cell++) {
    const patch = patches.subarray(cell * patchSize, (cell + 1) * patchSize);
    const corner = Math.floor(cell / columns) * size * view.width + (cell % columns) * size;
    readPatch({ size, order, frames }, view, corner, patch);
  }
  const [first, ...others] = linears.map((linear) => applyLinear(linear, patches));
  if (first === undefined) throw new Error('patches have no linear map');
  for (const other of others) addInto(first, other);
  return { rows, columns, size: first.length / (rows * columns), values: first };
}

/** `corner`: the patch's first pixel. */
function readPatch(
  { size, order, frames }: Pick<PatchStep, 'size' | 'order' | 'frames'>,
  { width, height, values }: ViewValues,
  corner: number,
  into: Float32Array,
): void {
  const area = size * size;
  // Of one channel, frame and pixel to the next.
  const [byChannel, byFrame, byPixel] =
    order === 'channels-first' ? [frames * area, area, 1] : [1, 3 * area, 3];
  for (let channel = 0; channel < 3; channel++) {
    for (let pixel = 0; pixel < area; pixel++) {
      const from = channel * width * height + corner + Math.floor(pixel / size) * width + (pixel % size);
      const value = values[from] as number;
      for (let frame = 0; frame < frames; frame++) {
        into[channel * byChannel + frame * byFrame + pixel * byPixel] = value;
      }
    }
  }
}

function addClassToken(cells: Cells, { token, place }: Step<'class-token'>): Cells {
  const values = new Float32Array(cells.values.length + cells.size);
  values.set(cells.values, place === 'first' ? cells.size : 0);
  values.set(token, place === 'first' ? 0 : cells.values.length);
  return { ...cells, values, classToken: place };
}

function dropClassToken(cells: Cells): Cells {
  const { size, values, classToken } = cells;
  const first = classToken === 'first' ? size : 0;
  return {
    ...cells,
    values: values.slice(first, first + cells.rows * cells.columns * size),
    classToken: undefined,
  };
}

function runLayer(cells: Cells, { branches, epsilon }: Step<'layer'>): Cells {
  const stream = { ...cells, values: cells.values.slice() };
  for (const branch of branches) addInto(stream.values, runBranch(stream, branch, epsilon));
  return stream;
}

function runBranch(stream: Cells, branch: Loaded<TowerBranchSpec>, epsilon: number): Float32Array {
  const { input, body, output, scales } = branch;
  const values =
    input === undefined ? stream.values : normalize(stream.values.slice(), stream.size, input, epsilon);
  const added =
    body.kind === 'tower-mlp' ? runMlp(body, values) : runGridAttention(body, { ...stream, values }, epsilon);
  if (output !== undefined) normalize(added, stream.size, output, epsilon);
  return scales === undefined
    ? added
    : added.map((value, at) => value * (scales[at % scales.length] as number));
}

function runMlp({ activation, gate, up, down }: Loaded<TowerMlpSpec>, input: Float32Array): Float32Array {
  const curve = curveOf(activation);
  const inner = applyLinear(up, input);
  if (gate === undefined) return applyLinear(down, inner.map(curve));
  const gates = applyLinear(gate, input);
  return applyLinear(
    down,
    inner.map((value, at) => curve(gates[at] as number) * value),
  );
}

function curveOf(activation: TowerActivation): (value: number) => number {
  return activation === 'quick-gelu' ? (value) => value * sigmoid(1.702 * value) : curves[activation];
}

function runMerge(cells: Cells, { size: side, order }: Step<'merge'>): Cells {
  const { size } = cells;
  const count = side * side;
  return mapSquares(cells, side, size * count, (members, into) => {
    for (const [member, values] of members.entries()) {
      if (order === 'cells') into.set(values, member * size);
      else
        for (let channel = 0; channel < size; channel++)
          into[channel * count + member] = values[channel] as number;
    }
  });
}

function runPool(cells: Cells, { size: side }: Step<'pool'>): Cells {
  return mapSquares(cells, side, cells.size, (members, into) => {
    for (let channel = 0; channel < into.length; channel++) {
      let sum = 0;
      for (const values of members) sum += values[channel] as number;
      into[channel] = sum / members.length;
    }
  });
}
