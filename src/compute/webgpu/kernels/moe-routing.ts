// Which rows each expert has, so that its weights are read once for all of them: choices in the order of their experts,
// then of their rows, cut into tiles of so many. A choice is `row * choices a row + place`.
//
//   0 tiles, 1 where the list of choices starts
//   4 + 4 tile     expert, first and end place in the list
//   list           choices
//
// One workgroup does it, each thread for some experts: the list has one order, however the threads run.

import { repeat } from './repeat.ts';
import { stepReader } from './step-layout.ts';

interface GroupShape {
  readonly experts: number;
  /** Choices of a row. */
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

/** Words of a table for so many choices. */
export const tableWords = (mostChoices: number): number => listAt(mostChoices) + mostChoices;

/** The most tiles that choices may need: every expert that has any may leave one of its tiles nearly empty. */
export function mostTiles({ experts, rows }: Pick<GroupShape, 'experts' | 'rows'>, choices: number): number {
  return Math.floor((choices + Math.min(experts, choices) * (rows - 1)) / rows);
}

/** The reading side; `binding` is its place in the kernel's group. */
export const tableReader = (binding: number): string => /* wgsl */ `
@group(0) @binding(${binding}) var<storage, read> table: array<u32>;
fn tileCount() -> u32 { return table[0]; }
fn tileExpert(tile: u32) -> u32 { return table[${HEADER_WORDS}u + tile * ${TILE_WORDS}u]; }
fn tileFirst(tile: u32) -> u32 { return table[${HEADER_WORDS}u + tile * ${TILE_WORDS}u + 1u]; }
fn tileEnd(tile: u32) -> u32 { return table[${HEADER_WORDS}u + tile * ${TILE_WORDS}u + 2u]; }
fn choiceAt(place: u32) -> u32 { return table[table[1] + place]; }
`;

/** Bindings: step, choices (expert, factor), table. */
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

/** Workgroups that group the heads of so many rows. */
export const headGroups = (heads: number, rows: number): number => Math.ceil((heads * rows) / GROUP_THREADS);

/** The same where every row has chosen everything, in order, as rows do with heads. Bindings: step, table. */
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

/** What is done for each choice, in order: it is number `start + i`, and `chosen[i]` its expert. */
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
