// A piece of a tower's work as its kernels read it: some rows of one operation. It lies in the buffer of steps, whose kernels
// read its first word alone. What places are of the view lies in two buffers: its rows of floats, and its lists of words.
//
//   0 rows        of this piece
//   3 first       the first of them among the operation's
//   4 … 5         where rows that are read and rows that are written start in the view's floats
//   6 … 8         where the operation's lists start
//   9 … 10        values of a row that is read, and how many make one that is written
//   11 … 13       where queries, keys and values start in the view's floats
//   16 + 4 item   of attention: its first query in the order of groups, how many there are, first key of their group and end

export const PIECE_WORDS = 16;
export const PIECE_ITEM_WORDS = 4;

/** What `pieceWords` writes. */
export interface Piece {
  readonly rows: number;
  readonly first: number;
  readonly source?: number;
  readonly target?: number;
  readonly lists?: readonly number[];
  readonly size?: number;
  readonly members?: number;
  readonly heads?: readonly number[];
  readonly items?: readonly number[];
}

export function pieceWords(piece: Piece): Uint32Array<ArrayBuffer> {
  const {
    rows,
    first,
    source = 0,
    target = 0,
    lists = [],
    size = 0,
    members = 0,
    heads = [],
    items = [],
  } = piece;
  const words = new Uint32Array(PIECE_WORDS + items.length);
  words.set([rows, 0, 0, first, source, target], 0);
  words.set(lists, 6);
  words.set([size, members], 9);
  words.set(heads, 11);
  words.set(items, PIECE_WORDS);
  return words;
}

/** Declares `step` itself where it is not declared by `stepReader`. */
export const pieceReader = (binding: number): string => /* wgsl */ `
@group(0) @binding(${binding}) var<storage, read> step: array<u32>;
fn rowCount() -> u32 { return step[0]; }
${pieceWordsReader}`;

export const pieceWordsReader = /* wgsl */ `
fn firstRow() -> u32 { return step[3]; }
fn sourceAt() -> u32 { return step[4]; }
fn targetAt() -> u32 { return step[5]; }
fn listAt(list: u32) -> u32 { return step[6u + list]; }
fn sourceSize() -> u32 { return step[9]; }
fn memberCount() -> u32 { return step[10]; }
fn headsAt(part: u32) -> u32 { return step[11u + part]; }
fn itemAt(index: u32) -> u32 { return ${PIECE_WORDS}u + ${PIECE_ITEM_WORDS}u * index; }
`;
