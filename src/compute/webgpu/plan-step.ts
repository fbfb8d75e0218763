// A batch as the kernels read it (see kernels/step-layout.ts), and how its attention is shared out among workgroups.

import { type Batch, BLOCK_TOKENS } from '../backend.ts';
import { queryLanes, SEGMENT_BLOCKS } from './kernels/attend.ts';
import { HEADER_WORDS, ITEM_WORDS, ROW_WORDS } from './kernels/step-layout.ts';

export interface StepCounts {
  readonly rows: number;
  readonly wanted: number;
  readonly items: number;
  readonly merges: number;
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
}

/** Rows of one sequence. */
interface Stretch {
  readonly firstRow: number;
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
  const tiles = cutTiles(batch, shape);
  const { items, merges } = shareOut(tiles, shape);
  const wantedAt = HEADER_WORDS + rows * ROW_WORDS;
  const itemsAt = wantedAt + batch.logitRows.length;
  const mergesAt = itemsAt + items.length;
  const tablesAt = mergesAt + merges.length;
  const words = new Uint32Array(tablesAt + batch.blocks.length);
  const counts = {
    rows,
    wanted: batch.logitRows.length,
    items: items.length / ITEM_WORDS,
    merges: merges.length / ITEM_WORDS,
  };
  words.set([counts.rows, counts.wanted, counts.items, counts.merges, wantedAt, itemsAt, mergesAt, tablesAt]);
  writeRows(batch, words);
  words.set(batch.logitRows, wantedAt);
  words.set(items, itemsAt);
  // Tables are told by their place in the buffer.
  for (let at = itemsAt + TABLE_WORD; at < mergesAt; at += ITEM_WORDS)
    words[at] = (words[at] as number) + tablesAt;
  words.set(merges, mergesAt);
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

function cutTiles(batch: Batch, { headCount, kvHeadCount }: AttentionShape): Tile[] {
  const group = headCount / kvHeadCount;
  const lanes = queryLanes(headCount, kvHeadCount);
  const tiles: Tile[] = [];
  for (let sequence = 0; sequence < batch.starts.length; sequence++) {
    const firstRow = batch.rowStarts[sequence] as number;
    const rows = (batch.rowStarts[sequence + 1] as number) - firstRow;
    const stretch = {
      firstRow,
      start: batch.starts[sequence] as number,
      table: batch.blockStarts[sequence] as number,
    };
    for (let firstQuery = 0; firstQuery < rows * group; firstQuery += lanes) {
      const endQuery = Math.min(firstQuery + lanes, rows * group);
      const last = stretch.start + Math.floor((endQuery - 1) / group);
      tiles.push({ stretch, firstQuery, endQuery, segments: Math.floor(last / SEGMENT_TOKENS) + 1 });
    }
  }
  return tiles;
}

function shareOut(tiles: readonly Tile[], shape: AttentionShape): { items: number[]; merges: number[] } {
  const items: number[] = [];
  const merges: number[] = [];
  const isBusy = tiles.length * shape.kvHeadCount >= shape.busyWorkgroups;
  for (const { stretch, firstQuery, endQuery, segments } of tiles) {
    const tile = [stretch.firstRow, firstQuery, endQuery];
    const firstItem = items.length / ITEM_WORDS;
    if (isBusy || segments === 1 || firstItem + segments > shape.mostParts) {
      items.push(...tile, 0, segments, 1, stretch.table, stretch.start);
      continue;
    }
    for (let segment = 0; segment < segments; segment++) {
      items.push(...tile, segment, segment + 1, 0, stretch.table, stretch.start);
    }
    merges.push(...tile, firstItem, segments, 0, 0, 0);
  }
  return { items, merges };
}
