// `prompt_logprobs` of an answer, as vLLM writes them: for each token of the prompt an object by token id, none for the first.

import type { GenerationEvent } from '../../generation/generation-event.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { TokenLogprob } from '../../sampling/sample-row.ts';
import { finiteLogprob, tokenString } from '../jobs/answer-shape.ts';

type Scores = Extract<GenerationEvent, { kind: 'scores' }>;
type Entry = readonly [id: string, entry: object];

export function promptLogprobsOf(
  model: ServedModel | undefined,
  { ids, scores }: Scores,
  count: number,
): (object | null)[] {
  const entry = ({ token, logprob }: TokenLogprob, rank: number | undefined): Entry => [
    String(token),
    { logprob: finiteLogprob(logprob), rank, decoded_token: tokenString(model, token) },
  ];
  return Array.from(ids, (token, at) => {
    const score = scores[at - 1];
    if (score === undefined) return null;
    const { logprob, rank, top } = score;
    const likeliest = top.slice(0, count).map((one, place) => entry(one, place + 1));
    return Object.fromEntries<object>([entry({ token, logprob }, rank), ...likeliest]);
  });
}

/** Gathers them while an answer comes. */
export class PromptLogprobs {
  readonly #model: ServedModel | undefined;
  readonly #count: number | undefined;
  /** By the first choice of each prompt. */
  readonly #byIndex = new Map<number, (object | null)[]>();

  /** `count`: how many alternatives were asked for, if any. */
  constructor(model: ServedModel | undefined, count: number | undefined) {
    this.#model = model;
    this.#count = count;
  }

  observe(event: GenerationEvent): void {
    if (event.kind !== 'scores' || this.#count === undefined) return;
    this.#byIndex.set(event.index, promptLogprobsOf(this.#model, event, this.#count));
  }

  /** Of a prompt by its number; nothing where they were not asked for. */
  of(prompt: number): { readonly prompt_logprobs?: (object | null)[] } {
    const first = [...this.#byIndex.keys()].sort((a, b) => a - b)[prompt];
    const found = first === undefined ? undefined : this.#byIndex.get(first);
    return found === undefined ? {} : { prompt_logprobs: found };
  }
}
