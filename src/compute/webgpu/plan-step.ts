// A batch as the kernels read it (see kernels/step-layout.ts), and how its attention is shared out among workgroups.

import { type Batch, BLOCK_TOKENS } from '../backend.ts';
import { queryLanes, SEGMENT_BLOCKS } from './kernels/attend.ts';
import { HEADER_WORDS, ITEM_WORDS, ROW_WORDS } from './kernels/step-layout.ts';

export interface StepCounts {
  readonly rows: number;
  readonly wanted: number;
  readonly states: number;
  readonly items: number;
  readonly merges: number;
  /** Attention items of many queries each. */
  readonly many: number;
}

export interface StepWords {
  readonly counts: StepCounts;
  readonly words: Uint32Array<ArrayBuffer>;
}

export interface AttentionShape {
  readonly headCount: number;
  readonly kvHeadCount: number;
  /** Parts that can wait for a merge. */
  readonly mostParts: number;
  /** Workgroups that keep the whole GPU busy: with fewer, histories are shared out segment by segment. */
  readonly busyWorkgroups: number;
  /** Queries of an item where a sequence has many of them; 0 where none has. */
  readonly manyQueries: number;
  /** Workgroups of such items that are worth it: they are not shared out. */
  readonly manyWorkgroups: number;
}

/** Rows of one sequence. */
interface Stretch {
  readonly firstRow: number;
  readonly rows: number;
  /** Position of the first row. */
  readonly start: number;
  /** Where its blocks start among all tables. */
  readonly table: number;
}

/** Queries of one workgroup. */
interface Tile {
  readonly stretch: Stretch;
  readonly firstQuery: number;
  readonly endQuery: number;
  readonly segments: number;
}

/** Which word of an item names its table. */
const TABLE_WORD = 6;
const SEGMENT_TOKENS = SEGMENT_BLOCKS * BLOCK_TOKENS;

export function planStep(batch: Batch, shape: AttentionShape): StepWords {
  const rows = batch.tokens.length;
  const stretches = cutStretches(batch);
  const isMany = hasMany(stretches, shape);
  const lanes = queryLanes(shape.headCount, shape.kvHeadCount);
  const { items, merges } = shareOut(
    cutTiles(
      stretches.filter((stretch) => !isMany(stretch)),
      lanes,
      shape,
    ),
    shape,
  );
  const many = cutTiles(stretches.filter(isMany), shape.manyQueries, shape).flatMap(wholeItem);
  const wantedAt = HEADER_WORDS + rows * ROW_WORDS;
  const statesAt = wantedAt + batch.logitRows.length;
  const itemsAt = statesAt + batch.stateRows.length;
  const mergesAt = itemsAt + items.length;
  const manyAt = mergesAt + merges.length;
  const tablesAt = manyAt + many.length;
  const words = new Uint32Array(tablesAt + batch.blocks.length);
  const counts = {
    rows,
    wanted: batch.logitRows.length,
    states: batch.stateRows.length,
    items: items.length / ITEM_WORDS,
    merges: merges.length / ITEM_WORDS,
    many: many.length / ITEM_WORDS,
  };
  words.set([counts.rows, counts.wanted, counts.items, counts.merges, wantedAt, itemsAt, mergesAt, tablesAt]);
  words.set([counts.many, manyAt, counts.states, statesAt], 8);
  writeRows(batch, words);
  words.set(batch.logitRows, wantedAt);
  words.set(batch.stateRows, statesAt);
  words.set(items, itemsAt);
  words.set(merges, mergesAt);
  words.set(many, manyAt);
  // Tables are told by their place in the buffer.
  for (const [from, to] of [
    [itemsAt, mergesAt],
    [manyAt, tablesAt],
  ] as const) {
    for (let at = from + TABLE_WORD; at < to; at += ITEM_WORDS) words[at] = (words[at] as number) + tablesAt;
  }
  words.set(batch.blocks, tablesAt);
  return { counts, words };
}

function writeRows(batch: Batch, words: Uint32Array): void {
  for (let sequence = 0; sequence < batch.starts.length; sequence++) {
    const first = batch.rowStarts[sequence] as number;
    const start = batch.starts[sequence] as number;
    const table = batch.blockStarts[sequence] as number;
    for (let row = first; row < (batch.rowStarts[sequence + 1] as number); row++) {
      const position = start + row - first;
      const block = batch.blocks[table + Math.floor(position / BLOCK_TOKENS)] as number;
      const at = HEADER_WORDS + row * ROW_WORDS;
      words[at] = batch.tokens[row] as number;
      words[at + 1] = position;
      words[at + 2] = table;
      words[at + 3] = block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
    }
  }
}

function cutStretches(batch: Batch): Stretch[] {
  return Array.from(batch.starts, (start, sequence) => {
    const firstRow = batch.rowStarts[sequence] as number;
    const rows = (batch.rowStarts[sequence + 1] as number) - firstRow;
    return { firstRow, rows, start, table: batch.blockStarts[sequence] as number };
  });
}

/** Which sequences are served by items of many queries: all that fill one, where together they are worth it. */
function hasMany(
  stretches: readonly Stretch[],
  { headCount, kvHeadCount, manyQueries, manyWorkgroups }: AttentionShape,
): (stretch: Stretch) => boolean {
  const queries = ({ rows }: Stretch) => (rows * headCount) / kvHeadCount;
  const fills = (stretch: Stretch) => manyQueries > 0 && queries(stretch) >= manyQueries;
  const items = stretches.filter(fills).reduce((sum, one) => sum + Math.ceil(queries(one) / manyQueries), 0);
  return (stretch) => fills(stretch) && items * kvHeadCount >= manyWorkgroups;
}

function cutTiles(
  stretches: readonly Stretch[],
  queries: number,
  { headCount, kvHeadCount }: AttentionShape,
): Tile[] {
  const group = headCount / kvHeadCount;
  const tiles: Tile[] = [];
  for (const stretch of stretches) {
    const count = stretch.rows * group;
    for (let firstQuery = 0; firstQuery < count; firstQuery += queries) {
      const endQuery = Math.min(firstQuery + queries, count);
      const last = stretch.start + Math.floor((endQuery - 1) / group);
      tiles.push({ stretch, firstQuery, endQuery, segments: Math.floor(last / SEGMENT_TOKENS) + 1 });
    }
  }
  return tiles;
}

/** An item that takes its whole history. */
function wholeItem({ stretch, firstQuery, endQuery, segments }: Tile): number[] {
  return [stretch.firstRow, firstQuery, endQuery, 0, segments, 1, stretch.table, stretch.start];
}

function shareOut(tiles: readonly Tile[], shape: AttentionShape): { items: number[]; merges: number[] } {
  const items: number[] = [];
  const merges: number[] = [];
  const isBusy = tiles.length * shape.kvHeadCount >= shape.busyWorkgroups;
  for (const whole of tiles) {
    const { stretch, firstQuery, endQuery, segments } = whole;
    const tile = [stretch.firstRow, firstQuery, endQuery];
    const firstItem = items.length / ITEM_WORDS;
    if (isBusy || segments === 1 || firstItem + segments > shape.mostParts) {
      items.push(...wholeItem(whole));
      continue;
    }
    for (let segment = 0; segment < segments; segment++) {
      items.push(...tile, segment, segment + 1, 0, stretch.table, stretch.start);
    }
    merges.push(...tile, firstItem, segments, 0, 0, 0);
  }
  return { items, merges };
}
