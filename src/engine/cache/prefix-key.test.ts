import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { KEY_LANES, writeBlockKey, writeRootKey } from './prefix-key.ts';

function rootOf(modelKey: string, salt: string): string {
  const key = new Int32Array(KEY_LANES);
  writeRootKey(modelKey, salt, key, 0);
  return key.join();
}

function keyAfter(parent: readonly number[], tokens: Int32Array): string {
  const key = new Int32Array(KEY_LANES);
  writeBlockKey(Int32Array.from(parent), 0, tokens, 0, key, 0);
  return key.join();
}

const blocks = fc
  .array(fc.nat(200_000), { minLength: BLOCK_TOKENS, maxLength: BLOCK_TOKENS })
  .map((tokens) => Int32Array.from(tokens));

describe('keys of prefixes', () => {
  it('differ between models and between salts, also where their texts would run together', () => {
    const roots = [
      ['a', 'b'],
      ['ab', ''],
      ['', 'ab'],
      ['1:a', ''],
      ['b', 'a'],
    ].map(([model = '', salt = '']) => rootOf(model, salt));
    expect(new Set(roots).size).toBe(roots.length);
  });

  it('change in both lanes with any token, wherever in the block it stands', () => {
    fc.assert(
      fc.property(blocks, fc.nat(BLOCK_TOKENS - 1), fc.integer({ min: 1, max: 4 }), (tokens, at, change) => {
        const other = tokens.slice();
        other[at] = (other[at] as number) + change;
        const [high, low] = keyAfter([1, 2], tokens).split(',');
        const [otherHigh, otherLow] = keyAfter([1, 2], other).split(',');
        expect(high).not.toBe(otherHigh);
        expect(low).not.toBe(otherLow);
      }),
    );
  });

  it('differ between parents that differ in one lane only', () => {
    fc.assert(
      fc.property(blocks, fc.integer(), fc.integer(), (tokens, high, low) => {
        const key = keyAfter([high, low], tokens);
        expect(keyAfter([high ^ 1, low], tokens)).not.toBe(key);
        expect(keyAfter([high, low ^ 1], tokens)).not.toBe(key);
      }),
    );
  });

  it('are all different over a million blocks that differ little, in each lane about as often as chance has it', () => {
    const tokens = new Int32Array(BLOCK_TOKENS);
    const parent = new Int32Array(KEY_LANES);
    const key = new Int32Array(KEY_LANES);
    const whole = new Set<bigint>();
    const lanes = [new Set<number>(), new Set<number>()] as const;
    const count = 1_000_000;
    for (let i = 0; i < count; i++) {
      tokens[3] = i & 1023;
      tokens[4] = i >>> 10;
      writeBlockKey(parent, 0, tokens, 0, key, 0);
      const [high, low] = key as unknown as [number, number];
      whole.add((BigInt(high) << 32n) | BigInt(low >>> 0));
      lanes[0].add(high);
      lanes[1].add(low);
    }
    expect(whole.size).toBe(count);
    // Of n random values of 32 bits, n² / 2^33 repeat: 116.
    for (const lane of lanes) expect(count - lane.size).toBeLessThan(200);
  });

  it('are the same on every machine', () => {
    const tokens = Int32Array.from({ length: BLOCK_TOKENS }, (_, i) => i * 1000);
    expect([rootOf('model', ':tenant'), keyAfter([1, 2], tokens)]).toMatchInlineSnapshot(`
      [
        "-1665186256,-1807420577",
        "-362274198,-574443968",
      ]
    `);
  });
});
