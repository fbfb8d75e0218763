// Which tokens a token sees, and how attention scores and logits are bounded.

import { expect, it } from 'vitest';
import { randomTokens, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';
import type { OpenBackend } from './backend-contract.ts';
import { largestDifference, logitsOf, whole, withBackend } from './running.ts';

export function attentionContract(open: OpenBackend): void {
  const lastLogits = (options: TinyModelOptions, tokens: readonly number[]) =>
    withBackend(open, tinyModel(options), {}, (backend) => logitsOf(backend, whole(tokens, [0])));

  it('sees nothing before its window, and all within', async () => {
    const tokens = randomTokens(20, 131);
    const changed = (position: number) =>
      tokens.map((token, at) => (at === position ? (token + 1) % 131 : token));
    await withBackend(open, tinyModel({ layerCount: 1, window: 6 }), {}, async (backend) => {
      const logits = await logitsOf(backend, whole(tokens, [0]));
      expect(await logitsOf(backend, whole(changed(13), [1]))).toEqual(logits);
      expect(await logitsOf(backend, whole(changed(14), [1]))).not.toEqual(logits);
    });
  });

  it('never sees a later token', async () => {
    const tokens = randomTokens(40, 131);
    await withBackend(open, tinyModel(), {}, async (backend) => {
      const all = await logitsOf(backend, whole(tokens, [0, 1], 'all'));
      for (const length of [1, 17, 32, 33]) {
        const prefix = await logitsOf(backend, whole(tokens.slice(0, length), [2, 3]));
        expect(prefix).toEqual(all.subarray((length - 1) * 131, length * 131));
      }
    });
  });

  it('has scores bounded by the soft cap, and small scores as they are', async () => {
    const tokens = randomTokens(30, 131);
    const uncapped = await lastLogits({}, tokens);
    const loose = await lastLogits({ attentionSoftcap: 300 }, tokens);
    const tight = await lastLogits({ attentionSoftcap: 0.1 }, tokens);
    expect(largestDifference(loose, uncapped)).toBeLessThan(1e-3);
    expect(largestDifference(tight, uncapped)).toBeGreaterThan(1e-2);
  });

  it('gives logits within the logit cap', async () => {
    const logits = await lastLogits({ logitSoftcap: 0.5 }, [1, 2, 3]);
    expect(Math.max(...logits.map(Math.abs))).toBeLessThanOrEqual(0.5);
  });
}
