import { describe, expect, it } from 'vitest';
import { readManifest, type SavedPrefix, type SlotModel, writeManifest } from './slot-manifest.ts';

const model: SlotModel = { model: 'small', adapters: ['red', 'blue'], format: 'f16', arithmetic: 3 };
const tokens = Int32Array.from({ length: 96 }, (_, at) => 100_000 * at - 7);

const saved = (salt: string): SavedPrefix => ({
  prefix: { salt, tokens, imagesAt: (offset) => (offset === 32 ? '[3,"a cat"]' : '') },
  states: [0, 2],
});

/** What another model and tenant reads of a manifest. */
function read(salt: string, other: Partial<SlotModel> = {}, tenant = 'ann', by = model) {
  const result = readManifest(writeManifest(saved(salt), by), { ...model, ...other }, tenant);
  return 'prefix' in result ? result : result.message;
}

describe('the manifest of a saved slot', () => {
  it('gives back tokens, images, states and salt', () => {
    for (const salt of [':ann', ':ann:more', '1:ann', '0:ann:a:b']) {
      const result = read(salt) as SavedPrefix;
      expect(result.prefix.salt).toBe(salt);
      expect(result.prefix.tokens).toEqual(tokens);
      expect(result.states).toEqual([0, 2]);
      expect([0, 32, 64].map((at) => result.prefix.imagesAt(at))).toEqual(['', '[3,"a cat"]', '']);
    }
  });

  it('knows an adapter by what it is, whatever its number is by now', () => {
    expect((read('1:ann', { adapters: ['blue'] }) as SavedPrefix).prefix.salt).toBe('0:ann');
    expect(read('1:ann', { adapters: ['red', 'green'] })).toContain('adapter');
    expect((read(':ann', { adapters: [] }) as SavedPrefix).prefix.salt).toBe(':ann');
  });

  it('says what differs where it is of no use', () => {
    expect(read(':ann', { model: 'large' })).toContain('another model');
    expect(read(':ann', { format: 'q8' })).toContain('KV type');
    expect(read(':ann', { arithmetic: 4 })).toContain('other bits');
    expect(read(':ann', {}, '')).toContain('shareCache');
    expect(read(':', {}, 'ann')).toContain('shareCache');
    const later = Buffer.from(writeManifest(saved(':ann'), model))
      .toString()
      .replace('"version":1', '"version":2');
    expect(readManifest(Buffer.from(later), model, 'ann')).toMatchObject({ ok: false, failure: 'unfit' });
  });
});
