// The embedded model against two independent implementations: PyTorch in float32 and llama.cpp. Complete
// without any other file.

import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import type { BackendName } from '../../src/compute/backend.ts';
import { BLOCK_TOKENS } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { chooseBackend } from '../../src/compute/choose-backend.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { chatIds, withEngine } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, engineRequest } from '../support/engine-requests.ts';
import { likeliest } from '../support/golden.ts';
import { hasAddon } from '../support/native.ts';
import { thorough } from '../support/thorough.ts';

interface Golden {
  readonly completions: readonly {
    readonly name: string;
    readonly prompt: string;
    readonly promptIds: readonly number[];
    readonly greedyIds: readonly number[];
    /** By how much the likeliest token led the second, at each step. */
    readonly leads: readonly number[];
    readonly topLogits: readonly (readonly [token: number, logit: number])[];
    readonly llamaCppIds: readonly number[];
  }[];
  readonly tokens: readonly { readonly text: string; readonly ids: readonly number[] }[];
  readonly chats: readonly {
    readonly name: string;
    readonly messages: readonly Readonly<Record<string, unknown>>[];
    readonly tools: readonly unknown[] | null;
    readonly addGenerationPrompt: boolean;
    readonly text: string;
  }[];
}

const golden: Golden = JSON.parse(readFileSync(embeddedModelPath.replace('.gguf', '.golden.json'), 'utf8'));
const model = openLocalModel(embeddedModelPath);
afterAll(() => model.close());

// Int8 activations move logits by about this much; where the lead is smaller, either token is right.
const NEAR_TIE = 0.1;

/** Steps up to the first that is too close to call. */
function decided({ greedyIds, leads }: Golden['completions'][number]): number[] {
  const end = leads.findIndex((lead) => lead < NEAR_TIE);
  return greedyIds.slice(0, end === -1 ? greedyIds.length : end);
}

const backends: readonly BackendName[] = hasAddon ? ['reference', 'cpu'] : ['reference'];

describe.each(backends)('the embedded model on the %s backend', (name) => {
  it('has the logits that PyTorch computes', async () => {
    // The reference backend takes a minute for all of them. Long texts of other models: reference.test.ts.
    const isQuick = ({ promptIds }: Golden['completions'][number]) => thorough || promptIds.length < 20;
    const completions = name === 'reference' ? golden.completions.filter(isQuick) : golden.completions;
    const blocks = completions.map(({ promptIds }) => Math.ceil(promptIds.length / BLOCK_TOKENS));
    const blockCount = blocks.reduce((sum, count) => sum + count, 0);
    const backend = await chooseBackend(name).create(model.spec, model.files.weights, { blockCount });
    let next = 0;
    const tables = blocks.map((count) => Array.from({ length: count }, () => next++));
    const { logits } = await backend.step(
      buildBatch(
        completions.map(({ promptIds }, index) => ({
          tokens: promptIds,
          start: 0,
          blocks: tables[index] as number[],
          wantLogits: 'last',
        })),
      ),
    );
    for (const [index, { topLogits, greedyIds, leads }] of completions.entries()) {
      const row = logits.subarray(index * model.spec.vocabSize, (index + 1) * model.spec.vocabSize);
      const tolerance = name === 'reference' ? 1e-3 : 0.05;
      const scale = Math.max(...topLogits.map(([, logit]) => Math.abs(logit)));
      for (const [token, logit] of topLogits) {
        expect(Math.abs((row[token] as number) - logit) / scale).toBeLessThan(tolerance);
      }
      if ((leads[0] as number) > NEAR_TIE) expect(likeliest(row)).toBe(greedyIds[0]);
    }
    backend.close();
  });
});

describe('the embedded model', () => {
  it.each(golden.completions)('answers $name as PyTorch and llama.cpp do', async (completion) => {
    const { promptIds, greedyIds, llamaCppIds } = completion;
    const request = engineRequest({ prompt: promptIds, sampling: { maxTokens: greedyIds.length } });
    const { tokens } = await withEngine({}, (engine) => collect(engine.submit(request)));
    const certain = decided(completion);
    expect(tokens.slice(0, certain.length)).toEqual(certain);
    expect(llamaCppIds.slice(0, certain.length)).toEqual(certain);
  });

  it('answers most prompts exactly as PyTorch does, ties included', async () => {
    const answers = await withEngine({}, (engine) =>
      Promise.all(
        golden.completions.map(({ promptIds, greedyIds }) =>
          collect(
            engine.submit(engineRequest({ prompt: promptIds, sampling: { maxTokens: greedyIds.length } })),
          ),
        ),
      ),
    );
    const same = answers.filter(
      ({ tokens }, index) => tokens.join() === golden.completions[index]?.greedyIds.join(),
    );
    expect(same.length).toBeGreaterThanOrEqual(golden.completions.length - 3);
  });

  it.each(golden.tokens)('tokenizes $text as Hugging Face tokenizers does', ({ text, ids }) => {
    expect([...model.tokenizer.encode(text, { special: true })]).toEqual(ids);
  });

  it.each(golden.chats)(
    'renders the conversation "$name" as Jinja does',
    ({ messages, tools, addGenerationPrompt, text }) => {
      expect(model.template?.render({ messages, tools: tools ?? undefined, addGenerationPrompt })).toBe(text);
    },
  );

  it('tells ten different stories with ten seeds, each to its end', async () => {
    const prompt = chatIds('Tell me a story about a fox named Milo in the forest.');
    const stories = await withEngine({}, (engine) =>
      Promise.all(
        Array.from({ length: 10 }, async (_, seed) => {
          const sampling = { temperature: 0.8, seed, maxTokens: 400 };
          const { tokens, finish } = await collect(engine.submit(engineRequest({ prompt, sampling })));
          expect(finish.reason).toBe('stop');
          return model.tokenizer.decode(tokens);
        }),
      ),
    );
    expect(new Set(stories).size).toBe(10);
    for (const story of stories) {
      expect(story).toContain('Milo');
      expect(story.split(' ').length).toBeGreaterThan(100);
    }
  });
});
