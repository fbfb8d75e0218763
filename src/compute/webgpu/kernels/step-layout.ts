// What a step's kernels are told, in one buffer of words: counts and places first, then a record for each row, then
// lists whose places the front names.
//
//   0 rows, 1 wanted rows, 2 attention items, 3 merges, 4 … 7 where wanted rows, items, merges and tables start
//   8 attention items of many queries, 9 where they start; 10 rows whose states are wanted, 11 where they start
//   12 + 4 row     token, position, where its block table starts, its K/V place (block * 32 + position % 32)
//   wanted         the row of each row of logits
//   states         the row of each wanted state
//   items          8 words each, see attend.ts; of many queries likewise
//   merges         8 words each, see merge.ts
//   tables         physical blocks of each sequence

export const HEADER_WORDS = 12;
export const ROW_WORDS = 4;
export const ITEM_WORDS = 8;

/** The reading side; `binding` is its place in the kernel's group. */
export const stepReader = (binding: number): string => /* wgsl */ `
@group(0) @binding(${binding}) var<storage, read> step: array<u32>;
fn rowCount() -> u32 { return step[0]; }
fn wantedCount() -> u32 { return step[1]; }
fn wantedRow(index: u32) -> u32 { return step[step[4] + index]; }
fn stateCount() -> u32 { return step[10]; }
fn stateRow(index: u32) -> u32 { return step[step[11] + index]; }
fn itemAt(index: u32) -> u32 { return step[5] + index * ${ITEM_WORDS}u; }
fn manyCount() -> u32 { return step[8]; }
fn manyAt(index: u32) -> u32 { return step[9] + index * ${ITEM_WORDS}u; }
fn mergeAt(index: u32) -> u32 { return step[6] + index * ${ITEM_WORDS}u; }
fn rowToken(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u]; }
fn rowPosition(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 1u]; }
fn rowTable(row: u32) -> u32 { return step[7] + step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 2u]; }
fn rowSlot(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 3u]; }
`;
