import { describe, expect, it } from 'vitest';
import { buildBatch } from '../batch.ts';
import { HEADER_WORDS, ITEM_WORDS, PLAN_WORDS, ROW_WORDS } from './kernels/step-layout.ts';
import { planStep } from './plan-step.ts';

const shape = {
  headCount: 32,
  kvHeadCount: 8,
  bidirectional: false,
  imagesBothWays: false,
  mostParts: 1000,
  busyWorkgroups: 1024,
  manyQueries: 32,
  manyWorkgroups: 64,
};
const decoding = (start: number, blocks: number[]) =>
  ({ tokens: [7], start, blocks, wantLogits: 'last' }) as const;

type Plan = ReturnType<typeof planStep>;
const countsOf = ({ counts }: Plan, plan = 0) => counts.attention[plan];
const itemsOf = (plan: Plan, index = 0) => readItems(plan, PLAN_WORDS * index);
const manyOf = (plan: Plan) => readItems(plan, 4);

/** Items as { firstRow, queries, segments, whole }; two words of a plan say how many there are and where they start. */
function readItems({ words }: Plan, word: number) {
  const [count = 0, start = 0] = words.subarray((words[5] as number) + word);
  return Array.from({ length: count }, (_, index) => {
    const item = words.subarray(start + ITEM_WORDS * index);
    const [firstRow, firstQuery, endQuery, first, end, whole, table, position, textLast] = item;
    const queries = [firstQuery, endQuery];
    return { firstRow, queries, segments: [first, end], whole, table, position, textLast };
  });
}

describe('a step as kernels read it', () => {
  it('names each row’s token, position, adapter and place', () => {
    const blocks = [5, 9, 2];
    const { words, counts } = planStep(
      buildBatch([decoding(3, [4]), { ...decoding(70, blocks), adapter: 4 }]),
      [shape],
    );
    expect(counts).toMatchObject({ rows: 2, adapted: 2, wanted: 2 });
    const second = HEADER_WORDS + ROW_WORDS;
    expect([...words.subarray(second, second + ROW_WORDS)]).toEqual([7, 70, 5, 2 * 32 + 6]);
    const tables = words[6] as number;
    expect([...words.subarray(tables, tables + 4)]).toEqual([4, ...blocks]);
  });

  it('names the places of rows where the model sees, and which rows are of images', () => {
    const images = { places: Int32Array.of(4, 5), embeddings: new Float32Array(2), deepstack: [] };
    const rotaryPositions = Int32Array.from([0, 1, 2, 3, 4, 4].flatMap((at) => [at, at, at + 1]));
    const text = { tokens: [1, 2, 3], start: 3, blocks: [0], wantLogits: 'last' } as const;
    const batch = buildBatch([decoding(8, [1]), { ...text, images: { ...images, rotaryPositions } }]);
    const { words, counts } = planStep(batch, [shape], { imageToken: 9 });
    expect(counts).toMatchObject({ rows: 4, images: 2, deepstack: 0 });
    const rows = words.subarray(HEADER_WORDS, HEADER_WORDS + 4 * ROW_WORDS);
    expect([0, 1, 2, 3].map((row) => rows[ROW_WORDS * row])).toEqual([7, 1, 9, 9]);
    const places = words.subarray(HEADER_WORDS + 4 * ROW_WORDS, words[3]);
    expect([...places]).toEqual([8, 8, 8, 0, 3, 3, 4, 0, 4, 4, 5, 6, 4, 4, 5, 6, 2, 3]);
  });

  it('lets items of an image take its whole history, where its rows see all of it', () => {
    const images = {
      places: Int32Array.of(60, 61, 62, 63, 64, 65),
      embeddings: new Float32Array(6),
      deepstack: [],
    };
    const text = {
      tokens: Array(10).fill(1),
      start: 60,
      blocks: [0, 1, 2],
      wantLogits: 'last',
      images,
    } as const;
    const few = { ...shape, headCount: 8, manyQueries: 0, busyWorkgroups: 1 };
    const ends = (imagesBothWays: boolean) =>
      itemsOf(planStep(buildBatch([text]), [{ ...few, imagesBothWays }], { imageToken: 0 })).map(
        ({ segments }) => segments[1],
      );
    // Four rows an item: the first has positions 60 to 63, the image ends after 65.
    expect([ends(false), ends(true)]).toEqual([
      [1, 2, 2],
      [2, 2, 2],
    ]);
  });

  it('shares a long history out, a segment each, and merges it', () => {
    const plan = planStep(buildBatch([decoding(200, [0, 1, 2, 3, 4, 5, 6])]), [shape]);
    const items = itemsOf(plan);
    expect(items.map(({ segments }) => segments)).toEqual([
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
    ]);
    expect(items.every(({ whole, position }) => whole === 0 && position === 200)).toBe(true);
    expect(countsOf(plan)?.merges).toBe(1);
  });

  it('lets bidirectional queries attend to their whole text', () => {
    const tokens = Array.from({ length: 70 }, () => 1);
    const text = { tokens, start: 0, blocks: [0, 1, 2], wantLogits: 'none' } as const;
    const few = { ...shape, manyQueries: 0, busyWorkgroups: 1 };
    const ends = (bidirectional: boolean) =>
      itemsOf(planStep(buildBatch([text]), [{ ...few, bidirectional }])).map(({ segments }) => segments[1]);
    expect(new Set(ends(true))).toEqual(new Set([2]));
    expect(new Set(ends(false))).toEqual(new Set([1, 2]));
    const [first] = itemsOf(planStep(buildBatch([text]), [{ ...few, bidirectional: true }]));
    expect(first?.textLast).toBe(69);
  });

  it('leaves histories whole where the GPU is busy anyway, or parts would not fit', () => {
    const many = Array.from({ length: 200 }, (_, index) => decoding(200, [0, 1, 2, 3, 4, 5, 6 + index]));
    const busy = planStep(buildBatch(many), [shape]);
    expect(countsOf(busy)).toMatchObject({ items: 200, merges: 0 });
    const crowded = planStep(buildBatch(many.slice(0, 2)), [{ ...shape, mostParts: 4 }]);
    expect(countsOf(crowded)).toMatchObject({ items: 5, merges: 1 });
  });

  it('takes all heads of a row that share a KV head together', () => {
    const prompt = { tokens: [1, 2, 3], start: 0, blocks: [0], wantLogits: 'none' } as const;
    const items = itemsOf(planStep(buildBatch([prompt]), [shape]));
    expect(items.map(({ queries }) => queries)).toEqual([
      [0, 4],
      [4, 8],
      [8, 12],
    ]);
  });

  it('takes many queries of a prompt together, and decodes next to them as ever', () => {
    const prompt = {
      tokens: Array.from({ length: 70 }, (_, token) => token),
      start: 64,
      blocks: [0, 1, 2, 3, 4],
      wantLogits: 'none',
    } as const;
    const plan = planStep(buildBatch([decoding(3, [5]), prompt]), [shape]);
    expect(itemsOf(plan)).toMatchObject([{ firstRow: 0, queries: [0, 4] }]);
    const many = manyOf(plan);
    expect(many).toHaveLength(Math.ceil((70 * 4) / 32));
    expect(many[0]).toMatchObject({
      firstRow: 1,
      queries: [0, 32],
      segments: [0, 2],
      whole: 1,
      position: 64,
    });
    expect(many.at(-1)).toMatchObject({ queries: [256, 280], segments: [0, 3] });
    expect(many[0]?.table).toBe((plan.words[6] as number) + 1);
  });

  it('shares a short prompt out where a few large items would leave the GPU idle', () => {
    const prompt = { tokens: Array(20).fill(1), start: 0, blocks: [0], wantLogits: 'none' } as const;
    expect(countsOf(planStep(buildBatch([prompt]), [shape]))).toMatchObject({ items: 20, many: 0 });
  });

  it('has a plan for each shape of attention, over the same tables', () => {
    const wide = { ...shape, headCount: 64 };
    const plan = planStep(buildBatch([decoding(200, [0, 1, 2, 3, 4, 5, 6]), decoding(3, [9])]), [
      shape,
      wide,
    ]);
    expect(countsOf(plan)).toEqual(countsOf(plan, 1));
    const [first, second] = [itemsOf(plan), itemsOf(plan, 1)];
    expect(first.at(-1)).toMatchObject({ firstRow: 1, queries: [0, 4], position: 3 });
    expect(second.at(-1)).toMatchObject({ firstRow: 1, queries: [0, 8], position: 3 });
    const table = (plan.words[6] as number) + 7;
    expect([first.at(-1)?.table, second.at(-1)?.table]).toEqual([table, table]);
    expect(plan.words[table]).toBe(9);
  });
});
