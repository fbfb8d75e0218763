// What a step's kernels are told, in one buffer of words: counts and places first, then a record for each row, then
// lists whose places the front names.
//
//   0 rows, 1 wanted rows, 2 rows whose states are wanted, 3 … 6 where wanted rows, states, plans and tables start
//   8 + 4 row      token, position, where its block table starts, its K/V place (block * 32 + position % 32)
//   wanted         the row of each row of logits
//   states         the row of each wanted state
//   plans          for each shape of attention: number and place of its items, of its merges, of its items of many queries
//   items          8 words each, see attend.ts; of many queries likewise
//   merges         8 words each, see merge.ts
//   tables         physical blocks of each sequence

export const HEADER_WORDS = 8;
export const ROW_WORDS = 4;
export const PLAN_WORDS = 6;
export const ITEM_WORDS = 8;

/** The reading side; `binding` is its place in the kernel's group. */
export const stepReader = (binding: number): string => /* wgsl */ `
@group(0) @binding(${binding}) var<storage, read> step: array<u32>;
fn rowCount() -> u32 { return step[0]; }
fn wantedCount() -> u32 { return step[1]; }
fn stateCount() -> u32 { return step[2]; }
fn wantedRow(index: u32) -> u32 { return step[step[3] + index]; }
fn stateRow(index: u32) -> u32 { return step[step[4] + index]; }
fn rowToken(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u]; }
fn rowPosition(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 1u]; }
fn rowSlot(row: u32) -> u32 { return step[${HEADER_WORDS}u + row * ${ROW_WORDS}u + 3u]; }
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
