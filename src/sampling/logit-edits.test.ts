import { describe, expect, it } from 'vitest';
import { dryEdit, penaltyEdit, takeDry, tokenPenalties } from './logit-edits.ts';
import { validateSampling } from './parameters.ts';
import { seedFrom } from './random.ts';
import type { SampleRow } from './sample-row.ts';
import { TokenCounts } from './token-counts.ts';

const vocabSize = 300_000;
const logits = Float32Array.from({ length: vocabSize }, (_, token) => Math.sin(token) * 8);
const seen = Array.from({ length: vocabSize / 2 }, (_, place) => 2 * place);

function rowOf(): SampleRow {
  const request = { repetitionPenalty: 1.5, frequencyPenalty: 0.3, presencePenalty: 0.2 };
  const validation = validateSampling(request, { vocabSize, freshSeed: seedFrom(1n) });
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  const dry = { tokens: seen, penalties: seen.map((token) => Math.fround(token / 1000)) };
  const counts = new TokenCounts(seen, seen.slice(1000));
  return { parameters: validation.parameters, position: 0, choice: 0, forbidden: [], counts, dry };
}

// A search for each token would take minutes.
describe('edits of single tokens, where half of a large vocabulary was seen', () => {
  it('give the bits of penalties on the whole row', () => {
    const expected = logits.slice();
    tokenPenalties(expected, rowOf());
    const edit = penaltyEdit(rowOf());
    expect(logits.map((logit, token) => edit(token, logit))).toEqual(expected);
  });

  it('give the bits of DRY on the whole row', () => {
    const expected = logits.slice();
    takeDry(expected, rowOf().dry);
    const edit = dryEdit(rowOf());
    expect(logits.map((logit, token) => edit(token, logit))).toEqual(expected);
  });
});
