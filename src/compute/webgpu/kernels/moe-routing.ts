// MoE routing: the experts of each row and their factors, the rows of each expert, and the sum of a row's experts.
//
// Rows are grouped so that an expert's weights are read once for all of them: choices in the order of their experts, then
// of their rows, cut into tiles. A choice is `row * choices a row + place`. The table of tiles:
//
//   0 tiles, 1 where the list of choices starts
//   4 + 4 tile     expert, first and end place in the list
//   list           choices

import type { RouterSpec } from '../../../model/spec.ts';
import { sigmoid, spoiled } from './activation.ts';
import { stepReader } from './step-layout.ts';
import { repeat } from './wgsl.ts';

interface ChooseShape extends Pick<RouterSpec, 'score' | 'used' | 'groups' | 'normalized' | 'scale'> {
  readonly experts: number;
  /** Whether scores have a bias for the choice, and experts a factor. */
  readonly hasBias: boolean;
  readonly hasScales: boolean;
}

/**
 * One workgroup a row. An expert is chosen where few enough others are better: each thread counts them for its experts.
 * Numbers are compared as whole ones, so that there is an order even where some are none, and every choice is an expert.
 * Bindings: step, logits, choices (expert, factor), biases and then factors (where there are any).
 */
export function chooseExpertsKernel(shape: ChooseShape): string {
  const { experts, used, groups, hasBias, hasScales } = shape;
  const threads = Math.min(256, 32 * Math.ceil(experts / 32));
  const each = (text: string) =>
    `  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {\n${text}\n  }`;
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> choices: array<vec2<u32>>;
${hasBias || hasScales ? '@group(0) @binding(3) var<storage, read> vectors: array<f32>;' : ''}
var<workgroup> scores: array<f32, ${experts}>;
var<workgroup> keys: array<u32, ${experts}>;
var<workgroup> chosen: array<u32, ${used}>;
${spoiled}${sigmoid}
// Larger for larger numbers, the same for both zeros; 0 is left for what cannot be chosen.
fn keyOf(number: f32) -> u32 {
  let bits = bitcast<u32>(number);
  return max(1u, select(select(~bits, bits | 0x80000000u, bits < 0x80000000u), 0x80000000u, bits == 0x80000000u));
}
fn wanted(expert: u32) -> f32 { return scores[expert]${hasBias ? ' + vectors[expert]' : ''}; }
${groups === undefined ? '' : groupChoice(groups, experts)}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.x;
  if (row >= rowCount()) { return; }
${each(`    scores[expert] = ${shape.score === 'sigmoid' ? 'sigmoid(' : '('}logits[row * ${experts}u + expert]);`)}
  workgroupBarrier();
${shape.score === 'softmax' ? softmaxText(experts, each) : ''}
${groups === undefined ? '' : `  if (thread < ${groups.count}u) { groupKeys[thread] = groupKey(thread); }\n  workgroupBarrier();`}
${each(`    keys[expert] = ${groups === undefined ? 'keyOf(wanted(expert))' : `select(0u, keyOf(wanted(expert)), isKept(expert / ${experts / groups.count}u))`};`)}
  workgroupBarrier();
${each(`    let key = keys[expert];
    var better = 0u;
    for (var other = 0u; other < ${experts}u; other++) {
      if (keys[other] > key || (keys[other] == key && other < expert)) { better++; }
    }
    if (better < ${used}u) { chosen[better] = expert; }`)}
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < ${used}u; i++) { sum += scores[chosen[i]]; }
  let factor = ${shape.normalized ? `${shape.scale} / sum` : `f32(${shape.scale})`};
  for (var i = thread; i < ${used}u; i += ${threads}u) {
    let expert = chosen[i];
    let weight = scores[expert] * factor${hasScales ? ` * vectors[${hasBias ? experts : 0}u + expert]` : ''};
    choices[row * ${used}u + i] = vec2<u32>(expert, bitcast<u32>(weight));
  }
}
`;
}

/** Every thread reads all scores in the same order. */
function softmaxText(experts: number, each: (text: string) => string): string {
  return /* wgsl */ `  var largest = scores[0];
  for (var i = 1u; i < ${experts}u; i++) { largest = max(largest, scores[i]); }
  workgroupBarrier();
${each('    scores[expert] = exp(scores[expert] - largest);')}
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < ${experts}u; i++) { total += scores[i]; }
  workgroupBarrier();
${each('    scores[expert] = scores[expert] / total;')}
  workgroupBarrier();`;
}

/** Declares `groupKey` of a group, and whether it is among the best. */
function groupChoice({ count, used, by }: NonNullable<RouterSpec['groups']>, experts: number): string {
  const size = experts / count;
  return /* wgsl */ `
var<workgroup> groupKeys: array<u32, ${count}>;
fn groupKey(group: u32) -> u32 {
  var first = wanted(group * ${size}u);
  var second = ${size > 1 ? '-3.0e38' : '0.0'};
  for (var i = 1u; i < ${size}u; i++) {
    let next = wanted(group * ${size}u + i);
    second = max(second, min(first, next));
    first = max(first, next);
  }
  return keyOf(first${by === 'best' ? '' : ' + second'});
}
fn isKept(group: u32) -> bool {
  var better = 0u;
  for (var other = 0u; other < ${count}u; other++) {
    if (groupKeys[other] > groupKeys[group] || (groupKeys[other] == groupKeys[group] && other < group)) { better++; }
  }
  return better < ${used}u;
}`;
}

interface GroupShape {
  readonly experts: number;
  readonly choices: number;
  /** Rows of a tile. */
  readonly rows: number;
  /** Choices that the table has room for. */
  readonly mostChoices: number;
}

const HEADER_WORDS = 4;
const TILE_WORDS = 4;
const THREADS = 256;

/** A tile has one choice at least. */
const listAt = (mostChoices: number): number => HEADER_WORDS + TILE_WORDS * mostChoices;

/** Words of a table for this many choices. */
export const tableWords = (mostChoices: number): number => listAt(mostChoices) + mostChoices;

/** The most tiles that choices may need: every expert that has any may leave one of its tiles nearly empty. */
export function mostTiles({ experts, rows }: Pick<GroupShape, 'experts' | 'rows'>, choices: number): number {
  return Math.floor((choices + Math.min(experts, choices) * (rows - 1)) / rows);
}

export const tableReader = (binding: number): string => /* wgsl */ `
@group(0) @binding(${binding}) var<storage, read> table: array<u32>;
fn tileCount() -> u32 { return table[0]; }
fn tileExpert(tile: u32) -> u32 { return table[${HEADER_WORDS}u + tile * ${TILE_WORDS}u]; }
fn tileFirst(tile: u32) -> u32 { return table[${HEADER_WORDS}u + tile * ${TILE_WORDS}u + 1u]; }
fn tileEnd(tile: u32) -> u32 { return table[${HEADER_WORDS}u + tile * ${TILE_WORDS}u + 2u]; }
fn choiceAt(place: u32) -> u32 { return table[table[1] + place]; }
`;

/**
 * One workgroup, each thread for some experts: the list has one order, however the threads run. Bindings: step, choices
 * (expert, factor), table.
 */
export function groupChoicesKernel({ experts, choices, rows, mostChoices }: GroupShape): string {
  const perThread = Math.ceil(experts / THREADS);
  const each = (line: (own: number, expert: string) => string) =>
    repeat(perThread, (own) => line(own, `(thread + ${own * THREADS}u)`));
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> choices: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> table: array<u32>;
var<workgroup> chosen: array<u32, ${THREADS}>;
var<workgroup> counts: array<u32, ${experts}>;
fn tilesOf(expert: u32) -> u32 { return (counts[expert] + ${rows - 1}u) / ${rows}u; }
@compute @workgroup_size(${THREADS})
fn main(@builtin(local_invocation_index) thread: u32) {
  let all = rowCount() * ${choices}u;
${each((own) => `  var count${own} = 0u;`)}
${overChoices(each((own, expert) => `      if (chosen[i] == ${expert}) { count${own}++; }`))}
${each((own, expert) => `  if (${expert} < ${experts}u) { counts[${expert}] = count${own}; }`)}
  workgroupBarrier();
${each(
  (own, expert) => `  var next${own} = ${listAt(mostChoices)}u;
  if (${expert} < ${experts}u) {
    var first = 0u;
    var tile = 0u;
    for (var i = 0u; i < ${expert}; i++) { first += counts[i]; tile += tilesOf(i); }
    next${own} += first;
    for (var at = 0u; at < count${own}; at += ${rows}u) {
      let to = ${HEADER_WORDS}u + tile * ${TILE_WORDS}u;
      table[to] = ${expert};
      table[to + 1u] = first + at;
      table[to + 2u] = first + min(at + ${rows}u, count${own});
      tile++;
    }
    if (${expert} == ${experts - 1}u) { table[0] = tile; table[1] = ${listAt(mostChoices)}u; }
  }`,
)}
${overChoices(each((own, expert) => `      if (chosen[i] == ${expert}) { table[next${own}] = start + i; next${own}++; }`))}
}
`;
}

const GROUP_THREADS = 64;

/** Workgroups that group the heads of `rows` rows. */
export const headGroups = (heads: number, rows: number): number => Math.ceil((heads * rows) / GROUP_THREADS);

/** The same where every row has chosen everything, in order, as rows of MLA do with heads. Bindings: step, table. */
export function groupHeadsKernel({ experts: heads, rows, mostChoices }: Omit<GroupShape, 'choices'>): string {
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read_write> table: array<u32>;
@compute @workgroup_size(${GROUP_THREADS})
fn main(@builtin(global_invocation_id) place: vec3<u32>) {
  let all = rowCount();
  let tiles = (all + ${rows - 1}u) / ${rows}u;
  if (place.x == 0u) { table[0] = tiles * ${heads}u; table[1] = ${listAt(mostChoices)}u; }
  if (place.x >= all * ${heads}u) { return; }
  table[${listAt(mostChoices)}u + place.x] = (place.x % all) * ${heads}u + place.x / all;
  if (place.x >= tiles * ${heads}u) { return; }
  let to = ${HEADER_WORDS}u + place.x * ${TILE_WORDS}u;
  let head = place.x / tiles;
  let first = (place.x % tiles) * ${rows}u;
  table[to] = head;
  table[to + 1u] = head * all + first;
  table[to + 2u] = head * all + min(first + ${rows}u, all);
}
`;
}

/** Runs `text` for each choice, in order: it is number `start + i`, and `chosen[i]` its expert. */
function overChoices(text: string): string {
  return /* wgsl */ `  for (var start = 0u; start < all; start += ${THREADS}u) {
    workgroupBarrier();
    if (start + thread < all) { chosen[thread] = choices[start + thread].x; }
    workgroupBarrier();
    for (var i = 0u; i < min(${THREADS}u, all - start); i++) {
${text}
    }
  }`;
}

interface CombineShape {
  readonly size: number;
  readonly choices: number;
  /** Whether each counts by its factor; they do not where that was on what experts read. */
  readonly weighted: boolean;
  readonly scale: number;
  readonly adds: boolean;
}

export const COMBINED_VALUES = 256;

/**
 * Sums what the experts of a row give, one choice after the other; workgroups take some values of a row each. Bindings:
 * step, what experts give, choices (expert, factor), output.
 */
export function combineExpertsKernel({ size, choices, weighted, scale, adds }: CombineShape): string {
  const sum = scale === 1 ? 'sum' : `sum * ${scale}`;
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> given: array<f32>;
${weighted ? '@group(0) @binding(2) var<storage, read> choices: array<vec2<u32>>;' : ''}
@group(0) @binding(3) var<storage, read_write> output: array<f32>;
@compute @workgroup_size(${COMBINED_VALUES})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  let i = workgroup.x * ${COMBINED_VALUES}u + thread;
  if (row >= rowCount() || i >= ${size}u) { return; }
  var sum = 0.0;
  for (var choice = row * ${choices}u; choice < (row + 1u) * ${choices}u; choice++) {
    sum = fma(${weighted ? 'bitcast<f32>(choices[choice].y)' : '1.0'}, given[choice * ${size}u + i], sum);
  }
  output[row * ${size}u + i] ${adds ? '+=' : '='} ${sum};
}
`;
}
