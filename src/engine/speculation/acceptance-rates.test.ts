import { describe, expect, it } from 'vitest';
import { AcceptanceRates } from './acceptance-rates.ts';

const lookup = (matchLength: number) => ({ source: 'prompt-lookup', matchLength }) as const;

describe('acceptance rates', () => {
  it('are what was seen in the sequence, and elsewhere as long as that is little', () => {
    const engine = new AcceptanceRates();
    for (let i = 0; i < 200; i++) new AcceptanceRates(engine).observe(lookup(2), false);
    const sequence = new AcceptanceRates(engine);
    expect(sequence.of(lookup(2))).toBeLessThan(0.1);
    for (let i = 0; i < 20; i++) sequence.observe(lookup(2), true);
    expect(sequence.of(lookup(2))).toBeGreaterThan(0.7);
    expect(new AcceptanceRates(engine).of(lookup(2))).toBeLessThan(0.3);
  });

  it('are told apart by source and match length', () => {
    const rates = new AcceptanceRates();
    for (let i = 0; i < 50; i++) rates.observe(lookup(1), false);
    expect(rates.of(lookup(8))).toBeCloseTo(0.85);
    expect(rates.of({ source: 'n-gram-cache', matchLength: 1 })).toBeCloseTo(0.2);
  });

  it('are shared by match lengths between which there is no difference', () => {
    const rates = new AcceptanceRates();
    for (let i = 0; i < 50; i++) rates.observe(lookup(4), false);
    expect(rates.of(lookup(7))).toBe(rates.of(lookup(4)));
    expect(rates.of(lookup(7))).toBeLessThan(0.3);
  });
});
