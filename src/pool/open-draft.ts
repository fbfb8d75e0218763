// A smaller model that drafts for another: it must speak of the same tokens.

import { draftRefusal } from '../engine/speculation/draft-model.ts';
import type { ModelSpec } from '../model/spec.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import { openLocalModel } from './local-model.ts';

/** Its files are closed again; throws where it cannot draft for the model. */
export function openDraft(
  path: string,
  { spec: wanted, tokenizer }: { readonly spec: ModelSpec; readonly tokenizer: Tokenizer },
): { readonly spec: ModelSpec; readonly weights: WeightSource } {
  const { spec, weights, tokenizer: own, close } = openLocalModel(path);
  close();
  const refusal = draftRefusal(spec, wanted.vocabSize) ?? otherTokens(own, tokenizer);
  if (refusal !== undefined) throw new Error(`--draft: ${path} cannot draft for this model: ${refusal}`);
  return { spec, weights };
}

function otherTokens(own: Tokenizer, wanted: Tokenizer): string | undefined {
  const count = Math.min(own.vocabSize, wanted.vocabSize);
  for (let id = 0; id < count; id++) {
    const [a, b] = [own.tokenBytes(id), wanted.tokenBytes(id)];
    if (Buffer.compare(a, b) !== 0) return `token ${id} is another one`;
  }
  return undefined;
}
