import { describe, expect, it } from 'vitest';
import { AcceptanceRates } from './acceptance-rates.ts';
import { draftLengths } from './draft-lengths.ts';
import { RowCosts } from './row-costs.ts';

const chain = (probability: number, length: number) =>
  Array.from({ length }, (_, i) => probability ** (i + 1));

describe('how draft tokens are shared out', () => {
  it('none where a row costs as much as a step', () => {
    expect(draftLengths([chain(0.9, 8)], 1, (draftTokens) => 1 + draftTokens)).toEqual([0]);
  });

  it('all where they cost nothing', () => {
    expect(draftLengths([chain(0.5, 6), chain(0.1, 3)], 2, () => 1)).toEqual([6, 3]);
  });

  it('as many as make most tokens a millisecond, over steps in the cost', () => {
    // Four rows cost hardly more than one, five much more.
    const costs = [1, 1.6, 1.7, 1.2, 2.5, 2.6];
    const stepMs = (draftTokens: number) => costs[draftTokens] ?? 9;
    expect(draftLengths([chain(0.6, 5)], 1, stepMs)).toEqual([3]);
  });

  it('to those first whose draft tokens are likelier', () => {
    const stepMs = (draftTokens: number) => (draftTokens <= 3 ? 1 : 9);
    expect(draftLengths([chain(0.9, 5), chain(0.3, 5)], 2, stepMs)).toEqual([3, 0]);
    expect(draftLengths([chain(0.9, 5), chain(0.85, 5)], 2, stepMs)).toEqual([2, 1]);
  });
});

describe('what rows cost', () => {
  it('is learned from steps, lies between those that were measured, and goes on as is usual', () => {
    const costs = new RowCosts();
    for (let i = 0; i < 50; i++) {
      costs.observe(1, 10);
      costs.observe(9, 18);
    }
    expect(costs.of(5) / costs.of(1)).toBeGreaterThan(1.2);
    expect(costs.of(5) / costs.of(1)).toBeLessThan(1.6);
    expect(costs.of(17) / costs.of(9)).toBeCloseTo(1.9, 1);
  });

  it('is known from the first step on where it was measured before', () => {
    const costs = new RowCosts([
      { rows: 1, ms: 100 },
      { rows: 4, ms: 160 },
      { rows: 8, ms: 260 },
    ]);
    costs.observe(4, 200);
    expect(costs.of(8)).toBeCloseTo(260, 0);
    expect(costs.of(6)).toBeCloseTo(210, 0);
    expect(costs.of(12)).toBeCloseTo(360, 0);
  });

  it('tells times in its own unit from the first step on', () => {
    const costs = new RowCosts();
    costs.observe(1, 40);
    expect(costs.usually(10)).toBeCloseTo(costs.of(1) / 4, 6);
  });

  it('leaves out what was measured while the machine was slow', () => {
    const costs = new RowCosts([
      { rows: 1, ms: 100 },
      { rows: 8, ms: 300 },
      { rows: 16, ms: 900 },
      { rows: 32, ms: 1000 },
    ]);
    expect(costs.of(16)).toBeCloseTo(533, 0);
  });

  it('never falls with more rows, however measurements waver', () => {
    const costs = new RowCosts([
      { rows: 1, ms: 100 },
      { rows: 4, ms: 90 },
      { rows: 8, ms: 95 },
    ]);
    for (let rows = 2; rows <= 64; rows++) expect(costs.of(rows)).toBeGreaterThan(costs.of(rows - 1));
  });

  it('stays what it is when the whole machine becomes slower', () => {
    const costs = new RowCosts();
    for (let i = 0; i < 50; i++) {
      costs.observe(1, 10);
      costs.observe(8, 15);
    }
    for (let i = 0; i < 100; i++) costs.observe(8, 45);
    expect(costs.of(8) / costs.of(1)).toBeLessThan(2.3);
  });

  it('is not believed of one step that was held up, for ever', () => {
    const costs = new RowCosts();
    for (let i = 0; i < 20; i++) costs.observe(1, 10);
    costs.observe(8, 5000);
    expect(costs.of(8) / costs.of(1)).toBeLessThan(3);
    for (let i = 0; i < 1200; i++) costs.observe(1, 10);
    expect(costs.of(8) / costs.of(1)).toBeLessThan(1.5);
  });
});

describe('how often draft tokens are right', () => {
  it('is what was seen in the sequence, and elsewhere as long as that is little', () => {
    const engine = new AcceptanceRates();
    for (let i = 0; i < 200; i++) new AcceptanceRates(engine).learn('after2', 0, true);
    const sequence = new AcceptanceRates(engine);
    expect(sequence.of('after2')).toBeLessThan(0.1);
    for (let i = 0; i < 20; i++) sequence.learn('after2', 1, false);
    expect(sequence.of('after2')).toBeGreaterThan(0.7);
    expect(new AcceptanceRates(engine).of('after2')).toBeLessThan(0.3);
  });

  it('is told apart by kind', () => {
    const rates = new AcceptanceRates();
    for (let i = 0; i < 50; i++) rates.learn('after1', 0, true);
    expect(rates.of('after8')).toBeCloseTo(0.85);
  });
});
