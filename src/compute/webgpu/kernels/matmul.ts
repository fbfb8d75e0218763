// Rows of activations times a matrix. A workgroup makes 32 columns of a few rows: one column a lane, the inputs divided
// into sixteen segments. A sum has one order, whatever the number of rows: group after group within a segment,
// then four segments in turn, then the four quarters two by two. Products within a group are whole numbers and exact in any order.
//
// Where the matrix is one of several experts, stacked, a tile has rows of one expert (see moe-routing.ts).

import { type CodedFormat, type FloatFormat, type Format, floatWords, GROUP_INPUTS } from '../format.ts';
import { softCap } from './activation.ts';
import { addGroup, groupSums, prepareInput } from './int8-dot.ts';
import { INPUT_ROWS } from './linear-input.ts';
import { tableReader } from './moe-routing.ts';
import { codeReader, pairReader } from './panel-reader.ts';
import { stepReader } from './step-layout.ts';
import { repeat } from './wgsl.ts';

const SEGMENTS = 16;
/** Sums of a lane that are merged at once: more would need more workgroup memory than most adapters have. */
const PLACES_AT_ONCE = 16;

/** Threads of a workgroup: as many segments at once as the adapter allows. */
export const multiplyThreads = (most: number): number =>
  32 * Math.min(SEGMENTS, Math.max(1, Math.floor(most / 32)));

/** Whether an adapter can run a kernel. */
export function canMultiply(
  { rows, panels, threads }: Pick<MultiplyKernel, 'rows' | 'panels' | 'threads'>,
  workgroupBytes: number,
): boolean {
  const places = rows * panels;
  // Sums that are merged in several rounds wait in registers, where there is a thread for each of them.
  if (places > PLACES_AT_ONCE && threads < SEGMENTS * 32) return false;
  return 4 * Math.min(places, PLACES_AT_ONCE) * SEGMENTS * 32 <= workgroupBytes;
}

/** What one compiled kernel does for all matrices of a format. */
export interface MultiplyKernel {
  readonly format: Format;
  readonly rows: number;
  /** Panels that it takes: inputs are read once for all of them. */
  readonly panels: number;
  /** Groups, or pairs, that are read ahead of being multiplied. */
  readonly ahead: number;
  /** Reads as many again while these are multiplied: for products that wait for memory. */
  readonly prefetches?: boolean | undefined;
  readonly threads: number;
  /** Whether rows go to experts, each to those that it has chosen. */
  readonly experts?: boolean | undefined;
}

/** The matrix at hand, in words of a uniform buffer: see `shapeWords`. */
export interface MultiplyShape {
  readonly inputs: number;
  /** Columns of this matrix, and where they lie in a row of the output. */
  readonly outputs: number;
  readonly outputStride: number;
  readonly outputOffset: number;
  /** Of the step's rows, of those whose logits are wanted, or of those of some experts. */
  readonly input: 'rows' | 'wanted' | ExpertInput;
  readonly adds: boolean;
  readonly hasBias: boolean;
  /** Factor on products and bias; 1 where absent. */
  readonly scale?: number | undefined;
  readonly softcap?: number | undefined;
}

interface ExpertInput {
  /** Experts whose matrices these are. */
  readonly first: number;
  readonly count: number;
  /** Choices that share a row of the input: all of a row's, or one. */
  readonly choices: number;
}

/** Words of the uniform buffer, in the order of `Shape` in the kernel. */
export function shapeWords(format: Format, shape: MultiplyShape): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(12);
  const count = format.kind === 'coded' ? shape.inputs / GROUP_INPUTS : Math.ceil(shape.inputs / 2);
  const experts = typeof shape.input === 'object' ? shape.input : { first: 0, count: 0, choices: 0 };
  words.set([
    count,
    shape.outputs,
    shape.outputStride,
    shape.outputOffset,
    shape.input === 'wanted' ? 1 : 0,
    Number(shape.adds),
    Number(shape.hasBias),
  ]);
  new Float32Array(words.buffer).set([shape.softcap ?? 0, shape.scale ?? 1], 7);
  words.set([experts.first, experts.count, experts.choices], 9);
  return words;
}

/**
 * Bindings: codes, scales (coded alone), inputs as codes and sides (or values), output, step (or rows of experts), bias,
 * shape.
 */
export function multiplyKernel(kernel: MultiplyKernel): string {
  const { format, rows, panels, threads } = kernel;
  const places = rows * panels;
  const rounds = Math.ceil(places / PLACES_AT_ONCE);
  return /* wgsl */ `
${format.kind === 'coded' ? codedInputs(format) : floatInputs(format)}
${common(format.kind === 'coded' ? 4 : 2)}
${kernel.experts ? expertTiles(format.kind === 'coded' ? 5 : 3) : stepTiles(format.kind === 'coded' ? 5 : 3, rows)}
var<workgroup> partial: array<f32, ${Math.min(places, PLACES_AT_ONCE) * SEGMENTS * 32}>;
${storeColumn}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  let panel = group.x * ${panels}u;
  let tile = tileAt(group.y);
  let lane = index % 32u;
  if (tile.first >= tile.end) { return; }
  // Rows past the last compute the last one's sums again, for nobody.
${repeat(rows, (row) => `  let row${row} = ${rowStart(format, `inputRow(min(tile.first + ${row}u, tile.end - 1u))`)};`)}
${repeat(panels, (index) => `  let panel${index} = (firstPanel(tile) + min(panel + ${index}u, (shape.outputs - 1u) / 32u)) * shape.count;`)}
  ${rounds > 1 ? 'let segment = index / 32u;' : `for (var segment = index / 32u; segment < ${SEGMENTS}u; segment += ${threads / 32}u) {`}
${segmentSums(kernel)}
${repeat(rounds, (round) => mergeText(kernel, round, rounds))}
  ${rounds > 1 ? '' : '}'}
${rounds > 1 ? '' : `  workgroupBarrier();\n${storeText(kernel, 0)}`}
}
`;
}

/** Where a row's first group, or pair, lies; the next one follows a block of rows later. */
const rowStart = (format: Format, row: string): string =>
  format.kind === 'coded'
    ? `(${row} / ${INPUT_ROWS}u) * shape.count * ${INPUT_ROWS}u + ${row} % ${INPUT_ROWS}u`
    : `${row} * shape.count`;

/** The sums of a segment, in `sum0`, `sum1` and so on. */
function segmentSums(kernel: MultiplyKernel): string {
  const { format, rows, panels, ahead, prefetches } = kernel;
  const each = (text: (unit: number, panel: number) => string) =>
    repeat(ahead, (unit) => repeat(panels, (panel) => text(unit, panel)));
  const next = (unit: number, panel: number, at: string) => {
    const place = `panel${panel} + min(${at} + ${unit}u, shape.count - 1u)`;
    return `nextWords${unit}${panel} = loadWords(${place}, lane); nextScale${unit}${panel} = loadScales(${place}, lane);`;
  };
  const isAhead = prefetches === true && format.kind === 'coded';
  return /* wgsl */ `${repeat(panels * rows, (place) => `    var sum${place} = 0.0;`)}
    let end = segmentEnd(segment);
    var at = segmentStart(segment);
${isAhead ? each((unit, panel) => `    var nextWords${unit}${panel}: Words; var nextScale${unit}${panel}: vec4<f32>; ${next(unit, panel, 'at')}`) : ''}
    for (; at + ${ahead}u <= end; at += ${ahead}u) {
${isAhead ? each((unit, panel) => `    let code${unit}${panel} = codesOf(nextWords${unit}${panel}); let scale${unit}${panel} = nextScale${unit}${panel}; ${next(unit, panel, `at + ${ahead}u`)}`) : ''}
${isAhead ? addRows(kernel, ahead) : addUnits(kernel, ahead)}
    }
    for (; at < end; at++) {
${addUnits(kernel, 1)}
    }`;
}

/** Puts sums where they are merged, and where there are several rounds merges them. */
function mergeText(kernel: MultiplyKernel, round: number, rounds: number): string {
  const first = round * PLACES_AT_ONCE;
  const count = Math.min(PLACES_AT_ONCE, kernel.rows * kernel.panels - first);
  const put = repeat(
    count,
    (place) => `    partial[${place * SEGMENTS * 32}u + segment * 32u + lane] = sum${first + place};`,
  );
  if (rounds === 1) return put;
  return `${round === 0 ? '' : '    workgroupBarrier();\n'}${put}\n    workgroupBarrier();\n${storeText(kernel, round)}`;
}

function storeText({ rows, panels, threads }: MultiplyKernel, round: number): string {
  const first = round * PLACES_AT_ONCE;
  const count = Math.min(PLACES_AT_ONCE, rows * panels - first);
  return /* wgsl */ `  for (var place = index / 32u; place < ${count}u; place += ${threads / 32}u) {
    let whole = place + ${first}u;
    store(tile, panel + whole / ${rows}u, lane, tile.first + whole % ${rows}u, place);
  }`;
}

/** Reads some groups (or pairs) of all panels, then adds their products to the sums, one after the other. */
function addUnits(kernel: MultiplyKernel, count: number): string {
  const { format, panels } = kernel;
  const read = repeat(count, (unit) =>
    repeat(panels, (panel) => readUnit(format, `${unit}${panel}`, `panel${panel} + at + ${unit}u`)),
  );
  return `${read}\n${addRows(kernel, count)}`;
}

function addRows({ format, rows, panels }: MultiplyKernel, count: number): string {
  return repeat(count, (unit) => repeat(rows, (row) => addRow(format, unit, row, rows, panels)));
}

function readUnit(format: Format, name: string, at: string): string {
  if (format.kind === 'coded') {
    return `    let code${name} = codesOf(loadWords(${at}, lane)); let scale${name} = loadScales(${at}, lane);`;
  }
  return `    let weight${name} = loadPair((${at}) * ${floatWords(format)}u + lane);`;
}

function addRow(format: Format, unit: number, row: number, rows: number, panels: number): string {
  const place = `row${row} + (at + ${unit}u)${format.kind === 'coded' ? ` * ${INPUT_ROWS}u` : ''}`;
  const sum = (panel: number) => `sum${panel * rows + row}`;
  if (format.kind === 'float') {
    const add = (panel: number) => {
      const weight = `weight${unit}${panel}`;
      return `      ${sum(panel)} = fma(${weight}.y, x.y, fma(${weight}.x, x.x, ${sum(panel)}));`;
    };
    return `    {\n      let x = inputValues[${place}];\n${repeat(panels, add)}\n    }`;
  }
  return /* wgsl */ `    {
      let side = inputSides[${place}];
      let x0 = inputCodes[(${place}) * 2u];
      let x1 = inputCodes[(${place}) * 2u + 1u];
${prepareInput(format)}
${repeat(panels, (panel) => addGroup(format, `code${unit}${panel}`, `scale${unit}${panel}`, sum(panel)))}
    }`;
}

const codedInputs = (format: CodedFormat): string => /* wgsl */ `
@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> inputCodes: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> inputSides: array<vec2<u32>>;
${codeReader(format)}
${groupSums}`;

const floatInputs = (format: FloatFormat): string => /* wgsl */ `
@group(0) @binding(0) var<storage, read> codes: array<u32>;
@group(0) @binding(1) var<storage, read> inputValues: array<vec2<f32>>;
${pairReader(format)}`;

/** Bindings from `binding` on: output, then the step or the table of experts' tiles, then bias and shape. */
function common(binding: number): string {
  return /* wgsl */ `
struct Shape {
  // Groups of a column, or pairs.
  count: u32, outputs: u32, outputStride: u32, outputOffset: u32, counter: u32, adds: u32, hasBias: u32, softcap: f32, scale: f32,
  firstExpert: u32, experts: u32, choices: u32,
}
// Rows of one workgroup, and the matrix that is theirs.
struct Tile { first: u32, end: u32, expert: u32 }
@group(0) @binding(${binding}) var<storage, read_write> output: array<f32>;
@group(0) @binding(${binding + 2}) var<storage, read> bias: array<f32>;
@group(0) @binding(${binding + 3}) var<uniform> shape: Shape;
fn segmentStart(segment: u32) -> u32 { return segment * ((shape.count + ${SEGMENTS - 1}u) / ${SEGMENTS}u); }
fn segmentEnd(segment: u32) -> u32 { return min(segmentStart(segment + 1u), shape.count); }
`;
}

/** Rows of the step, one after the other. */
const stepTiles = (binding: number, rows: number): string => /* wgsl */ `
${stepReader(binding)}
fn tileAt(index: u32) -> Tile { return Tile(index * ${rows}u, step[shape.counter], 0u); }
fn firstPanel(tile: Tile) -> u32 { return 0u; }
fn firstBias(tile: Tile) -> u32 { return 0u; }
fn inputRow(row: u32) -> u32 { return row; }
fn outputRow(row: u32) -> u32 { return row; }
`;

/** Choices of one expert. Tiles of experts that these matrices are not of are nobody's. */
const expertTiles = (binding: number): string => /* wgsl */ `
${tableReader(binding)}
fn tileAt(index: u32) -> Tile {
  if (index >= tileCount()) { return Tile(0u, 0u, 0u); }
  let expert = tileExpert(index) - shape.firstExpert;
  if (expert >= shape.experts) { return Tile(0u, 0u, 0u); }
  return Tile(tileFirst(index), tileEnd(index), expert);
}
fn firstPanel(tile: Tile) -> u32 { return tile.expert * ((shape.outputs + 31u) / 32u); }
fn firstBias(tile: Tile) -> u32 { return tile.expert * shape.outputs; }
fn inputRow(place: u32) -> u32 { return choiceAt(place) / shape.choices; }
fn outputRow(place: u32) -> u32 { return choiceAt(place); }
`;

/** Adds up the segments of a column of a row, and writes what becomes of the sum. */
const storeColumn = /* wgsl */ `${softCap}
fn writeColumn(tile: Tile, row: u32, column: u32, product: f32) {
  if (column >= shape.outputs || row >= tile.end) { return; }
  var sum = product;
  if (shape.hasBias == 1u) { sum += bias[firstBias(tile) + column]; }
  sum *= shape.scale;
  if (shape.softcap > 0.0) { sum = capped(sum, shape.softcap); }
  let at = outputRow(row) * shape.outputStride + shape.outputOffset + column;
  if (shape.adds == 1u) { sum += output[at]; }
  output[at] = sum;
}
fn quarter(first: u32) -> f32 {
  return ((partial[first] + partial[first + 32u]) + partial[first + 64u]) + partial[first + 96u];
}
fn store(tile: Tile, panel: u32, lane: u32, row: u32, place: u32) {
  let sums = place * ${SEGMENTS * 32}u + lane;
  writeColumn(tile, row, panel * 32u + lane,
    (quarter(sums) + quarter(sums + ${SEGMENTS * 8}u)) + (quarter(sums + ${SEGMENTS * 16}u) + quarter(sums + ${SEGMENTS * 24}u)));
}`;
