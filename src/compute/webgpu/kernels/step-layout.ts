// A step as its kernels read it, in one buffer of words: counts and places first, then a record for each row, then
// lists whose places the front names.
//
//   0 rows, 1 wanted rows, 2 rows whose states are wanted, 3 … 7 where wanted rows, states, plans, tables and
//   recurrent states start
//   8 + 4 row      token, position, its adapter (0: none, 1: the first), its KV place (block * 32 + position % 32)
//   rows' places   where the model sees, after the records: each row's time, row and column for rotary embeddings, and
//                  where its image ends (0: it is of none); then the row of each image feature
//   wanted         the row of each row of logits
//   states         the row of each wanted state
//   plans          for each shape of attention: number and place of its items, of its merges, of its items of many queries
//   items          9 words each, see attention.ts; of many queries likewise
//   merges         9 words each, see attention.ts
//   tables         physical blocks of each sequence
//   recurrent states       where the model has any: number of sequences, where the numbers of rows' sequences start, then
//                  for each sequence its first row and end, the slot it goes on from (NO_SLOT: none), where its kept rows
//                  start and how many they are; then row and slot of each; then each row's sequence

export const HEADER_WORDS = 8;
export const ROW_WORDS = 4;
export const PLACE_WORDS = 4;
export const PLAN_WORDS = 6;
export const ITEM_WORDS = 9;
export const STATES_WORDS = 2;
export const SEQUENCE_WORDS = 5;
export const NO_SLOT = 0xffffffff;

export const stepReader = (binding: number): string => /* wgsl */ `
@group(0) @binding(${binding}) var<storage, read> step: array<u32>;
fn rowCount() -> u32 { return step[0]; }
fn wantedCount() -> u32 { return step[1]; }
fn stateCount() -> u32 { return step[2]; }
fn wantedRow(index: u32) -> u32 { return step[step[3] + index]; }
fn stateRow(index: u32) -> u32 { return step[step[4] + index]; }
fn rowToken(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u]; }
fn rowPosition(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 1u]; }
fn rowAdapter(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 2u]; }
fn rowSlot(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 3u]; }
`;

/** Reads rows' places and features' rows, too, where the model sees. */
export const placeReader = /* wgsl */ `
fn placeOf(row: u32) -> u32 { return ${HEADER_WORDS}u + rowCount() * ${ROW_WORDS}u + row * ${PLACE_WORDS}u; }
fn imageEnd(row: u32) -> u32 { return step[placeOf(row) + 3u]; }
fn featureCount() -> u32 { return step[3] - placeOf(rowCount()); }
fn featureRow(index: u32) -> u32 { return step[placeOf(rowCount()) + index]; }
`;

/** Reads one of the plans, too. */
export const planReader = (binding: number, plan: number): string => /* wgsl */ `${stepReader(binding)}
fn planWord(word: u32) -> u32 { return step[step[5] + ${PLAN_WORDS * plan}u + word]; }
fn itemCount() -> u32 { return planWord(0u); }
fn itemAt(index: u32) -> u32 { return planWord(1u) + index * ${ITEM_WORDS}u; }
fn mergeCount() -> u32 { return planWord(2u); }
fn mergeAt(index: u32) -> u32 { return planWord(3u) + index * ${ITEM_WORDS}u; }
fn manyCount() -> u32 { return planWord(4u); }
fn manyAt(index: u32) -> u32 { return planWord(5u) + index * ${ITEM_WORDS}u; }
`;

/** Reads the recurrent states of sequences, too. */
export const statesReader = (binding: number): string => /* wgsl */ `${stepReader(binding)}
struct Sequence { firstRow: u32, endRow: u32, slot: u32, keptAt: u32, kept: u32 }
fn sequenceCount() -> u32 { return step[step[7]]; }
fn sequenceAt(index: u32) -> Sequence {
  let at = step[7] + ${STATES_WORDS}u + index * ${SEQUENCE_WORDS}u;
  return Sequence(step[at], step[at + 1u], step[at + 2u], step[at + 3u], step[at + 4u]);
}
fn sequenceOf(row: u32) -> Sequence { return sequenceAt(step[step[step[7] + 1u] + row]); }
fn isEmpty(sequence: Sequence) -> bool { return sequence.slot == ${NO_SLOT}u; }
fn keptRow(sequence: Sequence, index: u32) -> u32 { return step[sequence.keptAt + 2u * index]; }
fn keptSlot(sequence: Sequence, index: u32) -> u32 { return step[sequence.keptAt + 2u * index + 1u]; }
`;
