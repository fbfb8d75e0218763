import { describe, expect, it } from 'vitest';
import { rowOf } from '../../../test/support/sampling-requests.ts';
import { TokenCounts } from '../../sampling/token-counts.ts';
import { planSampling } from './plan-sampling.ts';
import { HEAD_WORDS, JOB_WORDS, JOBS_PER_ROW, jobWords, LIST_WORDS } from './sampling-layout.ts';

const VOCAB_SIZE = 100;
const ROOM = 4096;
const heads = 4 * JOBS_PER_ROW * HEAD_WORDS;
const list = 4 * LIST_WORDS;

describe('planSampling', () => {
  it('asks for no more than is needed', () => {
    const bytes = (...requests: Parameters<typeof rowOf>[0][]) =>
      planSampling(
        requests.map((request) => rowOf(request, VOCAB_SIZE)),
        VOCAB_SIZE,
        ROOM,
      ).byteLength;
    expect(bytes({ temperature: 0 })).toBe(heads);
    expect(bytes({ temperature: 0 }, { temperature: 1 })).toBe(2 * (heads + list));
    expect(bytes({ temperature: 0, logprobs: 1 })).toBe(heads + 2 * list);
    expect(bytes({ typicalP: 0.5 })).toBe(heads);
  });

  it('leaves to the processor what the GPU cannot decide, and what has no room', () => {
    const counts = new TokenCounts([1, 2, 3]);
    const rows = [
      rowOf({ typicalP: 0.5 }, VOCAB_SIZE),
      rowOf({ typicalP: 0.5, topK: 40 }, VOCAB_SIZE),
      rowOf({ typicalP: 0.5, temperature: 0 }, VOCAB_SIZE),
      rowOf({ presencePenalty: 1e-30 }, VOCAB_SIZE, { counts }),
      rowOf({ presencePenalty: 1 }, VOCAB_SIZE, { counts }),
      rowOf({}, VOCAB_SIZE, { mask: new Uint32Array(4) }),
    ];
    expect(planSampling(rows, VOCAB_SIZE, ROOM).isLeft).toEqual([true, false, false, true, false, false]);
    const jobs = rows.length * JOBS_PER_ROW * JOB_WORDS;
    const tight = planSampling(rows, VOCAB_SIZE, jobs + 6);
    expect(tight.isLeft).toEqual([true, false, false, true, false, true]);
    expect(tight.words.length).toBe(jobs + 6);
  });

  it('writes a mask once, however many rows share it, and a token that is forbidden twice', () => {
    const mask = Uint32Array.of(1, 2, 3, 4);
    const rows = [1, 2].map(() => rowOf({}, VOCAB_SIZE, { mask, forbidden: [7, 7] }));
    const { words } = planSampling(rows, VOCAB_SIZE, ROOM);
    const [first, second] = [0, 1].map(
      (row) => words[row * JOBS_PER_ROW * JOB_WORDS + jobWords.mask] as number,
    );
    expect(second).toBe(first);
    expect([...words.subarray(first, (first as number) + 4)]).toEqual([1, 2, 3, 4]);
    expect(words[jobWords.forbidden + 1]).toBe(1);
  });

  it('refuses penalties without counts, and masks that are too short', () => {
    expect(() => planSampling([rowOf({ presencePenalty: 1 }, VOCAB_SIZE)], VOCAB_SIZE, ROOM)).toThrow(
      'counts',
    );
    const row = rowOf({}, VOCAB_SIZE, { mask: new Uint32Array(3) });
    expect(() => planSampling([row], VOCAB_SIZE, ROOM)).toThrow('mask');
  });
});
