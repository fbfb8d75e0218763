// An answer whose reasoning is limited: the marks that end it come when it is spent, and the answer goes on.

import { expect, it } from 'vitest';
import { chatIds, withEngine } from '../support/embedded-engine.ts';
import { collect, engineRequest } from '../support/engine-requests.ts';

it('ends reasoning after its tokens, goes on, and is the same where another engine takes it over', async () => {
  const prompt = chatIds('Tell me a story about a fox named Milo in the forest.');
  const sampling = { temperature: 0.8, seed: 3, maxTokens: 40, ignoreEos: true };
  const thinking = { tokens: 12, opened: true, opens: [], closes: [[300]], ending: [300, 301] };
  await withEngine({}, async (engine) => {
    const ask = (rest: object) => collect(engine.submit(engineRequest({ prompt, sampling, ...rest })));
    const plain = await ask({});
    expect(plain.tokens).not.toContain(300);
    const { tokens } = await ask({ thinking });
    expect(tokens.slice(0, 12)).toEqual(plain.tokens.slice(0, 12));
    expect(tokens.slice(12, 14)).toEqual([300, 301]);
    expect(tokens.length).toBe(40);
    for (const had of [5, 12, 13, 20]) {
      const resumed = await ask({ thinking, answer: tokens.slice(0, had) });
      expect(resumed.tokens).toEqual(tokens.slice(had));
    }
  });
});
