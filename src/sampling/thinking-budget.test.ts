import { describe, expect, it } from 'vitest';
import { ThinkingBudget } from './thinking-budget.ts';

const limit = { tokens: 3, opened: false, opens: [[10, 11]], closes: [[20]], ending: [20, 21] };

/** What comes where the model would write `wanted`, for ever. */
function written(options: Partial<typeof limit>, wanted: (at: number) => number, count: number): number[] {
  const budget = new ThinkingBudget({ ...limit, ...options });
  return Array.from({ length: count }, (_, at) => {
    const token = budget.forced ?? wanted(at);
    budget.accept(token);
    return token;
  });
}

describe('a budget of reasoning', () => {
  it('ends it after so many tokens, and lets the answer go on', () => {
    expect(written({ opened: true }, () => 1, 8)).toEqual([1, 1, 1, 20, 21, 1, 1, 1]);
    expect(written({}, (at) => (at === 0 ? 10 : at === 1 ? 11 : 1), 9)).toEqual([
      10, 11, 1, 1, 1, 20, 21, 1, 1,
    ]);
  });

  it('ends it at once where there is none to spend', () => {
    expect(written({ opened: true, tokens: 0 }, () => 1, 4)).toEqual([20, 21, 1, 1]);
  });

  it('touches neither an answer without reasoning nor one that ends it itself', () => {
    expect(written({}, () => 1, 6)).toEqual([1, 1, 1, 1, 1, 1]);
    expect(written({ opened: true }, (at) => (at === 1 ? 20 : 1), 6)).toEqual([1, 20, 1, 1, 1, 1]);
  });

  it('counts all reasoning of an answer together', () => {
    const again = [1, 20, 5, 10, 11, 1, 1, 1];
    expect(written({ opened: true }, (at) => again[at] ?? 1, 11)).toEqual([
      1, 20, 5, 10, 11, 1, 1, 20, 21, 1, 1,
    ]);
  });

  it('is the same after tokens that were drafted, resumed or accepted one by one', () => {
    const tokens = [10, 11, 1, 1, 1, 20, 21, 4];
    for (let own = 0; own <= tokens.length; own++) {
      const grown = new ThinkingBudget(limit, tokens.slice(0, own));
      expect(grown.after(tokens.slice(own)).forced).toBe(new ThinkingBudget(limit, tokens).forced);
      const before = grown.forced;
      grown.after([1, 1, 1, 1]);
      expect(grown.forced).toBe(before);
    }
  });
});
