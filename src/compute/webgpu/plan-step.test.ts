import { describe, expect, it } from 'vitest';
import { buildBatch } from '../batch.ts';
import { HEADER_WORDS, ROW_WORDS } from './kernels/step-layout.ts';
import { planStep } from './plan-step.ts';

const shape = {
  headCount: 32,
  kvHeadCount: 8,
  mostParts: 1000,
  busyWorkgroups: 1024,
  manyQueries: 32,
  manyWorkgroups: 64,
};
const decoding = (start: number, blocks: number[]) =>
  ({ tokens: [7], start, blocks, wantLogits: 'last' }) as const;

type Plan = ReturnType<typeof planStep>;
const itemsOf = (plan: Plan) => readItems(plan, plan.counts.items, 5);
const manyOf = (plan: Plan) => readItems(plan, plan.counts.many, 9);

/** Items as { firstRow, queries, segments, whole }; a word of the header says where they start. */
function readItems({ words }: Plan, count: number, header: number) {
  return Array.from({ length: count }, (_, index) => {
    const at = (words[header] as number) + 8 * index;
    const [firstRow, firstQuery, endQuery, first, end, whole, table, position] = words.subarray(at, at + 8);
    return { firstRow, queries: [firstQuery, endQuery], segments: [first, end], whole, table, position };
  });
}

describe('a step as kernels read it', () => {
  it('names each row’s token, position, table and place', () => {
    const blocks = [5, 9, 2];
    const { words, counts } = planStep(buildBatch([decoding(3, [4]), decoding(70, blocks)]), shape);
    expect(counts).toMatchObject({ rows: 2, wanted: 2 });
    const second = HEADER_WORDS + ROW_WORDS;
    expect([...words.subarray(second, second + ROW_WORDS)]).toEqual([7, 70, 1, 2 * 32 + 6]);
    const tables = words[7] as number;
    expect([...words.subarray(tables, tables + 4)]).toEqual([4, ...blocks]);
  });

  it('shares a long history out, a segment each, and merges it', () => {
    const plan = planStep(buildBatch([decoding(200, [0, 1, 2, 3, 4, 5, 6])]), shape);
    const items = itemsOf(plan);
    expect(items.map(({ segments }) => segments)).toEqual([
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
    ]);
    expect(items.every(({ whole, position }) => whole === 0 && position === 200)).toBe(true);
    expect(plan.counts.merges).toBe(1);
  });

  it('leaves histories whole where the GPU is busy anyway, or parts would not fit', () => {
    const many = Array.from({ length: 200 }, (_, index) => decoding(200, [0, 1, 2, 3, 4, 5, 6 + index]));
    const busy = planStep(buildBatch(many), shape);
    expect(busy.counts).toMatchObject({ items: 200, merges: 0 });
    const crowded = planStep(buildBatch(many.slice(0, 2)), { ...shape, mostParts: 4 });
    expect(crowded.counts).toMatchObject({ items: 5, merges: 1 });
  });

  it('takes all heads of a row that share a K/V head together', () => {
    const prompt = { tokens: [1, 2, 3], start: 0, blocks: [0], wantLogits: 'none' } as const;
    const items = itemsOf(planStep(buildBatch([prompt]), shape));
    expect(items.map(({ queries }) => queries)).toEqual([
      [0, 4],
      [4, 8],
      [8, 12],
    ]);
  });

  it('takes many queries of a prompt together, and decodes beside them as ever', () => {
    const prompt = {
      tokens: Array.from({ length: 70 }, (_, token) => token),
      start: 64,
      blocks: [0, 1, 2, 3, 4],
      wantLogits: 'none',
    } as const;
    const plan = planStep(buildBatch([decoding(3, [5]), prompt]), shape);
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
    expect(many[0]?.table).toBe((plan.words[7] as number) + 1);
  });

  it('shares a short prompt out where a few large items would leave the GPU idle', () => {
    const prompt = { tokens: Array(20).fill(1), start: 0, blocks: [0], wantLogits: 'none' } as const;
    expect(planStep(buildBatch([prompt]), shape).counts).toMatchObject({ items: 20, many: 0 });
  });
});
