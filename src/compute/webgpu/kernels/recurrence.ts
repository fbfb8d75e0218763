// Recurrences over the rows of a sequence: a workgroup takes some columns of a head's matrix, several threads a column, and
// has them in registers from the sequence's first row to its last. So a row's result never depends on where a sequence is
// cut.

const SLICES = 16;
const COLUMNS = 8;
const RECURRENCE_THREADS = SLICES * COLUMNS;

interface MatrixShape {
  readonly depth: number;
  /** Where a value lies in its slot: `column` and `k` say which one it is. */
  readonly place: string;
  readonly slotSize: number;
}

/**
 * Declares `learnt`, the thread's part of its column, values `firstOf(slice) + i`, with `recall(…)` and `keep(…)`, which
 * read it from a state slot and write it there. Beyond the column's end it is zero and stays so where keys are.
 */
export function learntText({ depth, place, slotSize }: MatrixShape): string {
  const own = Math.ceil(depth / SLICES);
  return /* wgsl */ `
const OWN = ${own}u;
const DEPTH = ${depth}u;
var<private> learnt: array<f32, ${own}>;
fn placeOf(slot: u32, head: u32, column: u32, k: u32) -> u32 { return slot * ${slotSize}u + ${place}; }
fn recall(sequence: Sequence, head: u32, column: u32, first: u32) {
  for (var i = 0u; i < OWN; i++) {
    learnt[i] = 0.0;
    if (!isEmpty(sequence) && first + i < DEPTH) { learnt[i] = memory[placeOf(sequence.slot, head, column, first + i)]; }
  }
}
fn keep(slot: u32, head: u32, column: u32, first: u32) {
  for (var i = 0u; i < OWN; i++) {
    if (first + i < DEPTH) { memory[placeOf(slot, head, column, first + i)] = learnt[i]; }
  }
}`;
}

/** Declares a function that gives the sum over a column's threads, in their order; two calls of one need a barrier between. */
export const columnSum = (name: string): string => /* wgsl */ `
var<workgroup> ${name}Parts: array<f32, ${RECURRENCE_THREADS}>;
fn ${name}(value: f32, thread: u32) -> f32 {
  ${name}Parts[thread] = value;
  workgroupBarrier();
  let first = thread - thread % ${SLICES}u;
  var sum = 0.0;
  for (var i = 0u; i < ${SLICES}u; i++) { sum += ${name}Parts[first + i]; }
  return sum;
}`;

/** The body of `main`: `row` does what one row does, with `isInside` where the thread's column is one. */
export function throughRows(columns: number, row: string): string {
  const blocks = Math.ceil(columns / COLUMNS);
  return /* wgsl */ `
@compute @workgroup_size(${RECURRENCE_THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (workgroup.y >= sequenceCount()) { return; }
  let sequence = sequenceAt(workgroup.y);
  let head = workgroup.x / ${blocks}u;
  let wanted = (workgroup.x % ${blocks}u) * ${COLUMNS}u + thread / ${SLICES}u;
  let isInside = wanted < ${columns}u;
  let column = min(wanted, ${columns - 1}u);
  let first = (thread % ${SLICES}u) * OWN;
  let isFirst = isInside && thread % ${SLICES}u == 0u;
  recall(sequence, head, column, first);
  var kept = 0u;
  for (var row = sequence.firstRow; row < sequence.endRow; row++) {
${row}
    if (kept < sequence.kept && keptRow(sequence, kept) == row) {
      if (isInside) { keep(keptSlot(sequence, kept), head, column, first); }
      kept++;
    }
  }
}
`;
}

export const recurrenceGroups = (heads: number, columns: number): number =>
  heads * Math.ceil(columns / COLUMNS);
