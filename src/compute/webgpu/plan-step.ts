// A batch as the kernels read it (see kernels/step-layout.ts), and how its attention is divided among workgroups.

import { type Batch, BLOCK_TOKENS } from '../backend.ts';
import { queryLanes, SEGMENT_BLOCKS } from './kernels/attention.ts';
import {
  HEADER_WORDS,
  ITEM_WORDS,
  NO_SLOT,
  PLACE_WORDS,
  PLAN_WORDS,
  ROW_WORDS,
  SEQUENCE_WORDS,
  STATES_WORDS,
} from './kernels/step-layout.ts';

export interface StepCounts {
  readonly rows: number;
  /** All of them where any uses an adapter, else 0. */
  readonly adapted: number;
  readonly wanted: number;
  readonly states: number;
  /** 0 where the model has no recurrent states. */
  readonly sequences: number;
  readonly attention: readonly AttentionCounts[];
  /** Rows of images. */
  readonly images: number;
  /** Outputs that are added after as many of the first layers. */
  readonly deepstack: number;
}

/** Of a model that sees. */
export interface StepVision {
  /** The token that rows of images count as; their own is no word. */
  readonly imageToken: number;
}

export interface AttentionCounts {
  readonly items: number;
  readonly merges: number;
  readonly many: number;
}

interface StepWords {
  readonly counts: StepCounts;
  readonly words: Uint32Array<ArrayBuffer>;
}

export interface AttentionShape {
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly bidirectional: boolean;
  readonly imagesBothWays: boolean;
  /** Parts that can wait for a merge. */
  readonly mostParts: number;
  /** Workgroups that keep the whole GPU busy: with fewer, histories are divided into segments. */
  readonly busyWorkgroups: number;
  /** Queries of an item where a sequence has many of them; 0 where none has. */
  readonly manyQueries: number;
  /** Fewest workgroups of such items that are worth it: their histories are not divided. */
  readonly manyWorkgroups: number;
}

interface Stretch {
  readonly firstRow: number;
  readonly rows: number;
  readonly start: number;
  /** Where its blocks start among all tables. */
  readonly table: number;
  /** Of its rows where their image ends; none where no row of the step is of one. */
  readonly imageEnds: Int32Array | undefined;
}

interface Tile {
  readonly stretch: Stretch;
  readonly firstQuery: number;
  readonly endQuery: number;
  readonly segments: number;
}

/** The word of an item that names its table. */
const TABLE_WORD = 6;
const SEGMENT_TOKENS = SEGMENT_BLOCKS * BLOCK_TOKENS;

/** Words of items, of merges, and of items of many queries, for attentions of one shape. */
interface Plan {
  readonly items: readonly number[];
  readonly merges: readonly number[];
  readonly many: readonly number[];
}

/** With a plan for each shape of attention. */
export function planStep(batch: Batch, shapes: readonly AttentionShape[], vision?: StepVision): StepWords {
  const rows = batch.tokens.length;
  const stretches = cutStretches(batch);
  const plans = shapes.map((shape) => planAttention(stretches, shape));
  const places = vision === undefined ? new Uint32Array() : placeWords(batch);
  const placesAt = HEADER_WORDS + rows * ROW_WORDS;
  const wantedAt = placesAt + places.length;
  const statesAt = wantedAt + batch.logitRows.length;
  const plansAt = statesAt + batch.stateRows.length;
  const listsAt = plansAt + plans.length * PLAN_WORDS;
  const lists = plans.flatMap(({ items, merges, many }) => [items, merges, many]);
  const tablesAt = lists.reduce((at, { length }) => at + length, listsAt);
  const recurrentAt = tablesAt + batch.blocks.length;
  const recurrentStates = stateWords(batch, recurrentAt);
  const words = new Uint32Array(recurrentAt + recurrentStates.length);
  const counts = {
    rows,
    adapted: batch.adapters.some((adapter) => adapter >= 0) ? rows : 0,
    wanted: batch.logitRows.length,
    states: batch.stateRows.length,
    sequences: batch.recurrentStates.from.length,
    attention: plans.map(({ items, merges, many }) => ({
      items: items.length / ITEM_WORDS,
      merges: merges.length / ITEM_WORDS,
      many: many.length / ITEM_WORDS,
    })),
    images: batch.images?.rows.length ?? 0,
    deepstack: batch.images?.deepstack.length ?? 0,
  };
  words.set([counts.rows, counts.wanted, counts.states, wantedAt, statesAt, plansAt, tablesAt, recurrentAt]);
  writeRows(batch, words);
  for (const row of batch.images?.rows ?? []) words[HEADER_WORDS + row * ROW_WORDS] = vision?.imageToken ?? 0;
  words.set(places, placesAt);
  words.set(batch.logitRows, wantedAt);
  words.set(batch.stateRows, statesAt);
  let at = listsAt;
  for (const [index, list] of lists.entries()) {
    words.set([list.length / ITEM_WORDS, at], plansAt + 2 * index);
    words.set(list, at);
    at += list.length;
  }
  // A table is named by its place in the buffer; nothing reads that word of a merge.
  for (let word = listsAt + TABLE_WORD; word < tablesAt; word += ITEM_WORDS) {
    words[word] = (words[word] as number) + tablesAt;
  }
  words.set(batch.blocks, tablesAt);
  words.set(recurrentStates, recurrentAt);
  return { counts, words };
}

/** Rows' places, where those of text alone are their positions, and then rows of images. */
function placeWords({ tokens, starts, rowStarts, rotaryPositions, imageEnds, images }: Batch): Uint32Array {
  const rows = images?.rows ?? new Int32Array();
  const words = new Uint32Array(PLACE_WORDS * tokens.length + rows.length);
  for (const [sequence, start] of starts.entries()) {
    const first = rowStarts[sequence] as number;
    for (let row = first; row < (rowStarts[sequence + 1] as number); row++) {
      const at = PLACE_WORDS * row;
      if (rotaryPositions === undefined) words.fill(start + row - first, at, at + 3);
      else words.set(rotaryPositions.subarray(3 * row, 3 * row + 3), at);
      words[at + 3] = imageEnds?.[row] ?? 0;
    }
  }
  words.set(rows, PLACE_WORDS * tokens.length);
  return words;
}

/** The list of recurrent states, which starts at word `at`; empty where there are none. */
function stateWords({ recurrentStates, rowStarts, tokens }: Batch, at: number): Uint32Array {
  const { from, starts, rows, slots } = recurrentStates;
  if (from.length === 0) return new Uint32Array();
  const keptAt = STATES_WORDS + SEQUENCE_WORDS * from.length;
  const rowsAt = keptAt + 2 * rows.length;
  const words = new Uint32Array(rowsAt + tokens.length);
  words.set([from.length, at + rowsAt]);
  for (const [sequence, slot] of from.entries()) {
    const [firstRow = 0, endRow = 0] = rowStarts.subarray(sequence);
    const [begin = 0, end = 0] = starts.subarray(sequence);
    const record = [firstRow, endRow, slot < 0 ? NO_SLOT : slot, at + keptAt + 2 * begin, end - begin];
    words.set(record, STATES_WORDS + SEQUENCE_WORDS * sequence);
    words.fill(sequence, rowsAt + firstRow, rowsAt + endRow);
  }
  for (const [index, row] of rows.entries()) words.set([row, slots[index] as number], keptAt + 2 * index);
  return words;
}

function planAttention(stretches: readonly Stretch[], shape: AttentionShape): Plan {
  const isMany = hasMany(stretches, shape);
  const lanes = queryLanes(shape.headCount, shape.kvHeadCount);
  const few = stretches.filter((stretch) => !isMany(stretch));
  return {
    ...shareOut(cutTiles(few, lanes, shape), shape),
    many: cutTiles(stretches.filter(isMany), shape.manyQueries, shape).flatMap(wholeItem),
  };
}

function writeRows(batch: Batch, words: Uint32Array): void {
  for (let sequence = 0; sequence < batch.starts.length; sequence++) {
    const first = batch.rowStarts[sequence] as number;
    const start = batch.starts[sequence] as number;
    const table = batch.blockStarts[sequence] as number;
    const adapter = batch.adapters[sequence] ?? -1;
    for (let row = first; row < (batch.rowStarts[sequence + 1] as number); row++) {
      const position = start + row - first;
      const block = batch.blocks[table + Math.floor(position / BLOCK_TOKENS)] as number;
      const at = HEADER_WORDS + row * ROW_WORDS;
      words[at] = batch.tokens[row] as number;
      words[at + 1] = position;
      words[at + 2] = adapter + 1;
      words[at + 3] = block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
    }
  }
}

function cutStretches(batch: Batch): Stretch[] {
  return Array.from(batch.starts, (start, sequence) => {
    const firstRow = batch.rowStarts[sequence] as number;
    const rows = (batch.rowStarts[sequence + 1] as number) - firstRow;
    const imageEnds = batch.imageEnds?.subarray(firstRow, firstRow + rows);
    return { firstRow, rows, start, table: batch.blockStarts[sequence] as number, imageEnds };
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
  { headCount, kvHeadCount, bidirectional, imagesBothWays }: AttentionShape,
): Tile[] {
  const group = headCount / kvHeadCount;
  const tiles: Tile[] = [];
  for (const stretch of stretches) {
    const count = stretch.rows * group;
    for (let firstQuery = 0; firstQuery < count; firstQuery += queries) {
      const endQuery = Math.min(firstQuery + queries, count);
      const row = Math.floor((endQuery - 1) / group);
      // A row before it in its image sees no more, and no other as much.
      const imageEnd = imagesBothWays ? (stretch.imageEnds?.[row] ?? 0) : 0;
      const last = bidirectional ? lastOf(stretch) : Math.max(stretch.start + row, imageEnd - 1);
      tiles.push({ stretch, firstQuery, endQuery, segments: Math.floor(last / SEGMENT_TOKENS) + 1 });
    }
  }
  return tiles;
}

const lastOf = ({ start, rows }: Stretch): number => start + rows - 1;

/** An item that takes its whole history. */
function wholeItem({ stretch, firstQuery, endQuery, segments }: Tile): number[] {
  const { firstRow, table, start } = stretch;
  return [firstRow, firstQuery, endQuery, 0, segments, 1, table, start, lastOf(stretch)];
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
      items.push(...tile, segment, segment + 1, 0, stretch.table, stretch.start, lastOf(stretch));
    }
    merges.push(...tile, firstItem, segments, 0, 0, 0, 0);
  }
  return { items, merges };
}
