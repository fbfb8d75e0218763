import { describe, expect, it } from 'vitest';
import type { Drafter } from './drafter.ts';
import { PromptLookupDrafter } from './prompt-lookup-drafter.ts';

/** What a drafter would go on with. */
function ahead(drafter: Drafter, most: number): number[] {
  const tokens: number[] = [];
  while (tokens.length < most) {
    const next = drafter.propose();
    if (next === undefined) break;
    tokens.push(next.token);
    drafter.extend(next.token);
  }
  drafter.rollBack();
  return tokens;
}

describe('draft tokens of prompt lookup', () => {
  it('go on as the text did after the same tokens, the last time', () => {
    const drafter = new PromptLookupDrafter([1, 2, 3, 4, 9, 1, 2, 7, 8, 9, 1, 2]);
    expect(ahead(drafter, 4)).toEqual([7, 8, 9, 1]);
    expect(drafter.propose()).toMatchObject({ source: 'prompt-lookup', matchLength: 3 });
  });

  it('believe a longer match before a younger one', () => {
    const drafter = new PromptLookupDrafter([5, 6, 7, 8, 1, 0, 7, 8, 2, 0, 5, 6, 7, 8]);
    expect(drafter.propose()).toEqual({ token: 1, source: 'prompt-lookup', matchLength: 4 });
  });

  it('go round where the text repeats itself to its end', () => {
    expect(ahead(new PromptLookupDrafter([1, 2, 3, 1, 2, 3, 1, 2]), 7)).toEqual([3, 1, 2, 3, 1, 2, 3]);
  });

  it('are none where nothing came before', () => {
    expect(new PromptLookupDrafter([1, 2, 3]).propose()).toBeUndefined();
    expect(new PromptLookupDrafter([1]).propose()).toBeUndefined();
  });

  it('change nothing, however far they are extended', () => {
    const drafter = new PromptLookupDrafter([1, 2, 3, 4, 5, 6, 1, 2]);
    const first = ahead(drafter, 40);
    for (let i = 0; i < 200; i++) drafter.extend(i);
    drafter.rollBack();
    expect(ahead(drafter, 40)).toEqual(first);
    drafter.accept(3);
    expect(ahead(drafter, 3)).toEqual([4, 5, 6]);
  });

  it('find what stands far back in a long text', () => {
    const long = Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 15_013);
    const drafter = new PromptLookupDrafter(long);
    for (const token of long.slice(100, 104)) drafter.accept(token);
    expect(ahead(drafter, 5)).toEqual(long.slice(104, 109));
  });

  it('are the same for a text that came at once and one that came token by token', () => {
    const tokens = Array.from({ length: 600 }, (_, i) => (i * i) % 17);
    const grown = new PromptLookupDrafter(tokens.slice(0, 5));
    for (const token of tokens.slice(5)) grown.accept(token);
    expect(ahead(grown, 20)).toEqual(ahead(new PromptLookupDrafter(tokens), 20));
  });
});

describe('draft tokens from an expected text', () => {
  const expected = [10, 11, 12, 13, 14, 15, 16, 17];

  it('begin with it', () => {
    const drafter = new PromptLookupDrafter([1, 2, 3], expected);
    expect(ahead(drafter, 20)).toEqual(expected);
    expect(drafter.propose()).toMatchObject({ source: 'prediction', matchLength: 1 });
  });

  it('go on after a token that was replaced', () => {
    const drafter = new PromptLookupDrafter([1, 2, 3], expected);
    for (const token of [10, 99]) drafter.accept(token);
    expect(drafter.propose()).toEqual({ token: 12, source: 'prediction', matchLength: 0 });
    drafter.accept(12);
    expect(drafter.propose()).toEqual({ token: 13, source: 'prediction', matchLength: 1 });
  });

  it.each([
    ['after tokens that were left out', [10, 14], [15, 16, 17]],
    ['after tokens that were put in', [10, 97, 98, 99, 11, 12], [13, 14, 15, 16, 17]],
  ])('find back %s', (_, came, rest) => {
    const drafter = new PromptLookupDrafter([1, 2, 3], expected);
    for (const token of came) drafter.accept(token);
    drafter.accept(rest[0] as number);
    expect(ahead(drafter, 3)).toEqual(rest.slice(1, 4));
  });

  it('never lead from its end into the prompt', () => {
    const drafter = new PromptLookupDrafter([1, 2, 3], [7, 8]);
    for (const token of [7, 8]) drafter.accept(token);
    expect(ahead(drafter, 5)).not.toContain(-1);
  });
});
