// Collects the pieces of an answer by choice.

import type { FinishReason } from '../sampling/stop-condition.ts';
import type { GenerationPart, TokenDetail } from './answer-parts.ts';
import type { GenerationEvent } from './generation-event.ts';

export interface WholeChoice {
  readonly index: number;
  /** With the token that ended the answer. */
  readonly tokens: readonly number[];
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly WholeCall[];
  /** Of tokens whose text is shown, where log-probabilities were requested. */
  readonly details: readonly TokenDetail[];
  /** The last call was cut off within its arguments. */
  readonly hasOpenCall?: boolean;
  /** Undefined until it ends. */
  readonly reason: FinishReason | undefined;
  readonly stop: string | undefined;
  /** Set where the grammar allowed more than is valid; null where it cannot be said. */
  readonly isValid?: boolean | null;
}

export interface WholeCall {
  readonly id: string;
  readonly name: string;
  /** JSON text; incomplete where the answer was cut off. */
  readonly arguments: string;
}

type Writable<Value> = { -readonly [Field in keyof Value]: Value[Field] };

type Growing = Writable<Omit<WholeChoice, 'tokens' | 'calls' | 'details'>> & {
  readonly tokens: number[];
  readonly calls: Writable<WholeCall>[];
  readonly details: TokenDetail[];
};

export class WholeAnswer {
  readonly #choices: readonly Growing[];
  #ended = 0;

  constructor(choices: number) {
    this.#choices = Array.from({ length: choices }, (_, index) => ({
      index,
      tokens: [],
      text: '',
      reasoning: '',
      calls: [],
      details: [],
      hasOpenCall: false,
      reason: undefined,
      stop: undefined,
    }));
  }

  get choices(): readonly WholeChoice[] {
    return this.#choices;
  }

  get complete(): boolean {
    return this.#ended === this.#choices.length;
  }

  get reasons(): FinishReason[] {
    return this.#choices.flatMap(({ reason }) => (reason === undefined ? [] : [reason]));
  }

  add(event: GenerationEvent): void {
    const choice = this.#choices[event.index];
    if (choice === undefined) throw new RangeError(`there is no choice ${event.index}`);
    if (event.kind === 'scores') return;
    if (event.kind === 'finish') {
      if (choice.reason === undefined) this.#ended++;
      choice.reason = event.reason;
      choice.hasOpenCall = event.hasOpenCall ?? false;
      choice.stop = event.stop;
      if (event.isValid !== undefined) choice.isValid = event.isValid;
      return;
    }
    if (event.token !== undefined) choice.tokens.push(event.token);
    for (const part of event.parts) addPart(choice, part);
    choice.details.push(...event.details);
  }
}

function addPart(choice: Growing, part: GenerationPart): void {
  switch (part.kind) {
    case 'content':
      choice.text += part.text;
      break;
    case 'reasoning':
      choice.reasoning += part.text;
      break;
    case 'call':
      choice.calls.push({ id: part.id, name: part.name, arguments: '' });
      break;
    case 'arguments': {
      const call = choice.calls[part.call];
      if (call !== undefined) call.arguments += part.text;
    }
  }
}
