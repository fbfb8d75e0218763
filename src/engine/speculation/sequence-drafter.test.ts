import { describe, expect, it } from 'vitest';
import type { SampleRow } from '../../sampling/sample-row.ts';
import { type Draft, noDraft, shortened } from '../scheduler/draft.ts';
import { AcceptanceRates } from './acceptance-rates.ts';
import type { Lookahead } from './drafter.ts';
import { PromptLookupDrafter } from './prompt-lookup-drafter.ts';
import { SequenceDrafter } from './sequence-drafter.ts';

const expected = [10, 11, 12, 13, 14];
const predicted = { source: 'prediction', matchLength: 1 } as const;
const ofModel = { source: 'draft-model', matchLength: 0 } as const;

/** An answer without a grammar that 99 would end. */
const anything = (): Lookahead => ({
  accept: (token) => token !== 99,
  row: () => undefined,
  rows: () => [],
  likely: () => ({ tokens: [], forced: 0 }),
  ending: () => [],
});

function setup({ prompt = [1, 2, 3], prediction = expected } = {}) {
  const rates = new AcceptanceRates();
  const drafter = new SequenceDrafter([new PromptLookupDrafter(prompt, prediction)], rates);
  return { rates, drafter };
}

/** What a step computes of a sequence whose client expects a text. */
function draftOf(drafter: SequenceDrafter, length: number): Draft {
  const proposed = drafter.propose(anything(), 31);
  const tokens = proposed.map(({ token }) => token);
  return shortened({ tokens, rows: tokens.map(() => ({}) as SampleRow), proposed }, length);
}

describe('a draft', () => {
  it('is what was proposed, each token less likely than the one before it', () => {
    const proposed = setup().drafter.propose(anything(), 4);
    expect(proposed.map(({ token }) => token)).toEqual([10, 11, 12, 13]);
    expect(proposed.map(({ probability }) => probability)).toEqual(
      [0.9, 0.9 ** 2, 0.9 ** 3, 0.9 ** 4].map(near),
    );
  });

  it('ends before a token that cannot come', () => {
    const { drafter } = setup({ prediction: [10, 11, 99, 12] });
    expect(drafter.propose(anything(), 31).map(({ token }) => token)).toEqual([10, 11]);
  });

  it('that is cut counts as far as it is computed', () => {
    const { drafter } = setup();
    const draft = draftOf(drafter, 2);
    expect([draft.tokens, draft.rows.length, draft.proposed.length]).toEqual([[10, 11], 2, 5]);
    drafter.commit(draft, [10, 11, 12]);
    expect(drafter.counts).toEqual({ accepted: 2, rejected: 0 });
  });

  it('counts once, up to the first token that is rejected', () => {
    const { drafter, rates } = setup();
    drafter.commit(draftOf(drafter, 4), [10, 7]);
    expect(drafter.counts).toEqual({ accepted: 1, rejected: 3 });
    // Two tokens were judged, and of those after the rejected one nothing is known.
    expect(rates.of(predicted)).toBeCloseTo((20 * 0.9 + 0.998) / (20 + 1.998));
  });

  it('shows by its first token what it would have been worth, where none is computed', () => {
    const { drafter, rates } = setup();
    drafter.commit(draftOf(drafter, 0), [7]);
    expect(drafter.counts).toEqual({ accepted: 0, rejected: 0 });
    expect(rates.of(predicted)).toBeLessThan(0.9);
  });

  it('is made anew from what came, with a draft or without', () => {
    const { drafter } = setup();
    drafter.commit(noDraft, [10]);
    drafter.commit(draftOf(drafter, 1), [11, 12]);
    expect(draftOf(drafter, 2).tokens).toEqual([13, 14]);
  });
});

describe('what a draft model says', () => {
  it('is followed where nobody knows better, as long as it was followed before', () => {
    const { drafter } = setup({ prediction: [] });
    const proposed = drafter.propose(anything(), 31, drafted(5, 6, 7));
    expect(proposed).toMatchObject([5, 6, 7].map((token) => ({ token, ...ofModel })));
    const { drafter: other } = setup();
    expect(other.propose(anything(), 2, drafted(10, 6)).map(({ token }) => token)).toEqual([10, 11]);
  });
});

const drafted = (...tokens: readonly number[]) => tokens.map((token) => ({ token, ...ofModel }));

function near(value: number): number {
  return expect.closeTo(value, 9) as number;
}
