import { describe, expect, it } from 'vitest';
import type { StepLoad } from './step-plan.ts';
import { TokenBudget } from './token-budget.ts';

const decodes = (count: number): StepLoad => ({ tokens: count, sequences: count, attended: 100 * count });
const NOTHING = decodes(0);

function learn(budget: TokenBudget, msPerToken: number, steps = 20): void {
  for (let i = 0; i < steps; i++) {
    const tokens = budget.prefillTokens(NOTHING, 0);
    budget.observe({ tokens, sequences: 1, attended: 0 }, msPerToken * tokens);
  }
}

describe('TokenBudget', () => {
  it('leaves of a fixed budget what the decodes do not need', () => {
    const budget = new TokenBudget({ kind: 'fixed', maxStepTokens: 100 });
    expect(budget.prefillTokens(decodes(30), 500)).toBe(70);
    expect(budget.prefillFloor(decodes(30))).toBe(70);
  });

  it('finds the number of tokens that fits the target', () => {
    const budget = new TokenBudget({ kind: 'adaptive', targetStepMs: 200, maxStepTokens: 4096 });
    learn(budget, 0.5);
    expect(budget.prefillTokens(NOTHING, 0)).toBeGreaterThan(350);
    expect(budget.prefillTokens(NOTHING, 0)).toBeLessThanOrEqual(410);
    expect(budget.prefillTokens(decodes(100), 0)).toBeLessThan(320);
  });

  it('lets a prompt beside which nobody decodes take longer steps, where it may', () => {
    const budget = new TokenBudget({
      kind: 'adaptive',
      targetStepMs: 25,
      loneStepMs: 100,
      maxStepTokens: 4096,
    });
    learn(budget, 0.5);
    expect(budget.prefillTokens(NOTHING, 0)).toBeGreaterThan(150);
    expect(budget.prefillTokens(decodes(1), 0)).toBeLessThanOrEqual(51);
  });

  it('starts small and at most doubles the largest step it has measured', () => {
    const budget = new TokenBudget({ kind: 'adaptive', targetStepMs: 1e6, maxStepTokens: 1000 });
    const sizes = Array.from({ length: 6 }, () => {
      const tokens = budget.prefillTokens(NOTHING, 0);
      budget.observe({ tokens, sequences: 1, attended: 0 }, 1);
      return tokens;
    });
    expect(sizes).toEqual([64, 128, 256, 512, 1000, 1000]);
  });

  it('always leaves enough to make progress, within the limit', () => {
    const slow = new TokenBudget({ kind: 'adaptive', targetStepMs: 1, maxStepTokens: 50 });
    learn(slow, 100);
    expect(slow.prefillTokens(NOTHING, 0)).toBe(32);
    expect(slow.prefillTokens(decodes(20), 0)).toBe(12);
    expect(slow.prefillTokens(decodes(45), 0)).toBeLessThanOrEqual(0);
    expect(slow.prefillFloor(decodes(10))).toBe(32);
    expect(slow.prefillFloor(decodes(45))).toBe(5);
  });

  it('refuses budgets that cannot work', () => {
    expect(() => new TokenBudget({ kind: 'fixed', maxStepTokens: 0 })).toThrow('not 0');
    expect(() => new TokenBudget({ kind: 'adaptive', targetStepMs: 0, maxStepTokens: 64 })).toThrow(
      'above 0',
    );
  });
});
