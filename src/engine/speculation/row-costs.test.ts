import { describe, expect, it } from 'vitest';
import { RowCosts } from './row-costs.ts';

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

  it('grows beyond the rows that were seen as it did between them: part of a step has nothing to do with rows', () => {
    const costs = new RowCosts([
      { rows: 1, ms: 1 },
      { rows: 33, ms: 9 },
    ]);
    for (let i = 0; i < 50; i++) {
      costs.observe(1, 4);
      costs.observe(9, 6);
    }
    expect(costs.of(17) / costs.of(1)).toBeCloseTo(2, 1);
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
