// Gathers the pieces of an answer, choice by choice.

import type { FinishReason } from '../sampling/stop-condition.ts';
import type { TokenDetail } from './choice-text.ts';
import type { GenerationEvent } from './generation.ts';

export interface WholeChoice {
  readonly index: number;
  /** All that were drawn, the one that ended the answer too. */
  readonly tokens: readonly number[];
  readonly text: string;
  /** Of tokens whose text is shown, where log-probabilities were asked for. */
  readonly details: readonly TokenDetail[];
  /** Undefined until it ends. */
  readonly reason: FinishReason | undefined;
}

type Growing = { -readonly [Field in keyof WholeChoice]: WholeChoice[Field] } & {
  readonly tokens: number[];
  readonly details: TokenDetail[];
};

export class WholeAnswer {
  readonly #choices: readonly Growing[];

  constructor(choices: number) {
    this.#choices = Array.from({ length: choices }, (_, index) => ({
      index,
      tokens: [],
      text: '',
      details: [],
      reason: undefined,
    }));
  }

  get choices(): readonly WholeChoice[] {
    return this.#choices;
  }

  /** Of the choices that have ended, in their order. */
  get reasons(): FinishReason[] {
    return this.#choices.flatMap(({ reason }) => (reason === undefined ? [] : [reason]));
  }

  add(event: GenerationEvent): void {
    const choice = this.#choices[event.index];
    if (choice === undefined) throw new RangeError(`there is no choice ${event.index}`);
    if (event.kind === 'finish') {
      choice.reason = event.reason;
      return;
    }
    if (event.token !== undefined) choice.tokens.push(event.token);
    choice.text += event.text;
    choice.details.push(...event.details);
  }
}
