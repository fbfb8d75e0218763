// A completion from a gateway, with what of its prompt was cached.

import { expect } from 'vitest';

export interface FleetCompletion {
  readonly choices: readonly { readonly text: string }[];
  readonly usage: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details: { readonly cached_tokens: number };
  };
}

/** Twelve tokens, greedily. */
export async function fleetCompletion(url: string, prompt: string): Promise<FleetCompletion> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: 12, temperature: 0, ignore_eos: true }),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text) as FleetCompletion;
}
