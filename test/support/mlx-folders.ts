// The folders that mlx-lm converted and the adapters that it trains, and how near to mlx-lm's own logits backends with
// activations of 8 bits come.

import { existsSync, readdirSync } from 'node:fs';
import { hasTestdata, testdata } from './testdata.ts';

const named = (...path: string[]): string[] =>
  hasTestdata
    ? readdirSync(testdata(...path)).filter((name) => existsSync(testdata(...path, name, 'golden-mlx.json')))
    : [];

export const mlxFolders: readonly string[] = named('mlx');
export const mlxAdapters: readonly string[] = named('mlx', 'adapters');

/** Where two scores of a router are next to equal for one token, and the other expert is chosen; later tokens see that one. */
const withOtherExperts: Readonly<Record<string, number>> = {
  'gpt_oss-mxfp4-q8': 0.9,
  'qwen3_moe-nvfp4': 0.95,
};

/** Activations of 8 bits meet quantized weights; over 150 tokens a delta net adds up what they lose. */
export function leastLikeness(folder: string): number {
  if (isFloats(folder)) return 0.9999;
  const flipped = withOtherExperts[folder];
  if (flipped !== undefined) return flipped;
  if (/^qwen3_5-/.test(folder)) return 0.99;
  return /^(deepseek|gemma3n|gemma4|gpt_oss|granitemoehybrid|lfm2|llama4|qwen2_moe)|nvfp4$/.test(folder)
    ? 0.995
    : 0.999;
}

export function agreeing(computed: readonly number[], expected: readonly number[]): number {
  return computed.filter((token, index) => token === expected[index]).length / expected.length;
}

/** Whether weights are floats, and so activations, too: then every token is that of mlx-lm. */
export function isFloats(folder: string): boolean {
  return /-(bf16|fp16)(-lora)?$/.test(folder);
}
