// How likely the tokens of prompts are: each prompt is a request to the engine, before the answers, which then find its KV
// blocks in the prefix cache.

import type { FinishEvent, Logprobs, RequestEvent, ScoreRequest } from '../engine/request.ts';
import { Detokenizer } from '../text/detokenizer.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import type { TokenDetail } from './answer-parts.ts';
import { cancelAll, mergeStreams } from './engine-streams.ts';
import { engineError } from './generation-error.ts';
import { type GenerationRequest, queueFields } from './generation-request.ts';

interface ScoringObserver {
  submitted(requestId: string, prompt: number): void;
  /** Also after an abort. */
  ended(event: FinishEvent, prompt: number): void;
}

/** Of all tokens of a prompt but the first; prompts in the order in which they are done. */
export async function* scorePrompts(
  request: GenerationRequest,
  scoring: number,
  signal: AbortSignal,
  observer: ScoringObserver,
): AsyncGenerator<readonly [prompt: number, scores: readonly Logprobs[]], void, void> {
  const { engine } = request.model;
  const running = new Set<string>();
  function* submitAll(): Generator<AsyncGenerator<RequestEvent, void, void>> {
    for (const [at, { ids, images, pictures }] of request.prompts.entries()) {
      const one: ScoreRequest = {
        id: `${request.id}-${at}-scores`,
        prompt: ids,
        ...(images === undefined ? {} : { images }),
        ...(pictures === undefined ? {} : { pictures }),
        scoring,
        ...queueFields(request),
      };
      running.add(one.id);
      observer.submitted(one.id, at);
      yield engine.submit(one);
    }
  }
  const heard = (at: number, event: RequestEvent) => {
    if (event.kind !== 'finish') return;
    running.delete(event.id);
    observer.ended(event, at);
  };
  try {
    for await (const [at, event] of mergeStreams(submitAll(), signal, heard)) {
      if (event.kind !== 'finish') continue;
      const { scores, error, reason } = event;
      const message = `the engine ended the scoring of the prompt: ${reason}`;
      if (scores === undefined) throw engineError(error ?? { code: 'engine-failed', message }, request.names);
      yield [at, scores];
    }
  } finally {
    await cancelAll(engine, running);
  }
}

/** The tokens of a prompt with their places in its text, which lacks what the model wants before every text. */
export function promptDetails(
  tokenizer: Tokenizer,
  ids: Int32Array,
  scores: readonly Logprobs[],
  text: string,
): readonly TokenDetail[] {
  const detokenizer = new Detokenizer(tokenizer, { special: true });
  let length = 0;
  const offsets = Array.from(ids, (token) => {
    const offset = length;
    length += detokenizer.push(token).length;
    return offset;
  });
  const hidden = Math.max(0, length + detokenizer.flush().length - text.length);
  return Array.from(ids, (token, at) => ({
    token,
    offset: Math.max(0, (offsets[at] as number) - hidden),
    isPrompt: true,
    ...(scores[at - 1] ?? { logprob: 0, top: [], isFirst: true }),
  }));
}
