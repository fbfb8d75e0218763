import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MergeLoop, PairTable } from './merge-loop.ts';
import { finish } from './steps.ts';

const symbol = fc.nat(5);
const rules = fc.array(fc.tuple(symbol, symbol, symbol, fc.nat(8)), { maxLength: 20 });

describe('the merge loop', () => {
  it('merges as repeated search for the best pair would', () => {
    fc.assert(
      fc.property(rules, fc.array(symbol, { maxLength: 60 }), (merges, symbols) => {
        const table = new PairTable(0);
        for (const [left, right, merged, rank] of merges) table.add(left, right, rank, merged);
        const merged = Int32Array.from(symbols);
        const count = new MergeLoop(table).run(merged, symbols.length);
        expect([...merged.subarray(0, count)]).toEqual(mergeBySearch(table, symbols));
        const stepped = Int32Array.from(symbols);
        expect(finish(new MergeLoop(table).steps(stepped, symbols.length))).toBe(count);
        expect(stepped.subarray(0, count)).toEqual(merged.subarray(0, count));
      }),
      { numRuns: 2000 },
    );
  });

  it('is fit for one piece of a hundred thousand symbols', () => {
    const table = new PairTable(4);
    for (let level = 0; level < 16; level++) table.add(level, level, level, level + 1);
    const symbols = new Int32Array(2 ** 17);
    expect(new MergeLoop(table).run(symbols, symbols.length)).toBe(2);
  });
});

describe('the pair table', () => {
  it('finds every pair it was given, with its first rank, however far it grows', () => {
    const pair = fc.tuple(fc.nat(300), fc.nat(300));
    fc.assert(
      fc.property(fc.array(pair, { maxLength: 300 }), pair, (pairs, other) => {
        const table = new PairTable(1);
        const first = new Map<string, number>();
        for (const [rank, [left, right]] of pairs.entries()) {
          table.add(left, right, rank, rank + 1000);
          if (!first.has(`${left},${right}`)) first.set(`${left},${right}`, rank);
        }
        for (const [left, right] of [...pairs, other]) {
          const handle = table.find(left, right);
          const rank = first.get(`${left},${right}`);
          expect(handle === -1 ? undefined : table.rank(handle)).toBe(rank);
          if (rank !== undefined) expect(table.merged(handle)).toBe(rank + 1000);
        }
      }),
    );
  });
});

function mergeBySearch(table: PairTable, symbols: readonly number[]): number[] {
  const result = [...symbols];
  for (;;) {
    let best = -1;
    let bestRank = Number.POSITIVE_INFINITY;
    for (let i = 0; i + 1 < result.length; i++) {
      const handle = table.find(result[i] as number, result[i + 1] as number);
      if (handle !== -1 && table.rank(handle) < bestRank) {
        best = i;
        bestRank = table.rank(handle);
      }
    }
    if (best === -1) return result;
    const handle = table.find(result[best] as number, result[best + 1] as number);
    result.splice(best, 2, table.merged(handle));
  }
}
