// Builds the items of an answer while it is generated, with an event for each beginning, delta and end.

import type { AnswerPiece, GenerationPart, TokenDetail } from '../../generation/answer-parts.ts';
import { type ItemStatus, newItemId, type OutputItem } from './items.ts';

export interface OutputEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

type Growing = { readonly id: string; readonly index: number; text: string } & (
  | { readonly kind: 'content'; readonly logprobs: object[] }
  | { readonly kind: 'reasoning' }
  | { readonly kind: 'call'; readonly name: string; readonly callId: string }
);

export class OutputItems {
  readonly #entryOf: (detail: TokenDetail) => object;
  readonly #done: OutputItem[] = [];
  #growing: Growing | undefined;
  /** White space, which belongs to a text only if text follows. */
  #space = '';
  /** Log-probabilities of tokens whose item is not known yet. */
  #details: TokenDetail[] = [];
  #undecidedTokens = 0;
  #reasoningTokens = 0;

  constructor(entryOf: (detail: TokenDetail) => object) {
    this.#entryOf = entryOf;
  }

  get items(): readonly OutputItem[] {
    return this.#growing === undefined ? this.#done : [...this.#done, itemOf(this.#growing, 'in_progress')];
  }

  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  push({ parts, details }: AnswerPiece): OutputEvent[] {
    this.#count(parts);
    this.#details.push(...details);
    return parts.flatMap((part) => this.#part(part));
  }

  /** Ends the open item, which is incomplete where the answer was cut off. */
  end(status: 'completed' | 'incomplete'): OutputEvent[] {
    const events: OutputEvent[] = [];
    const [hasItems, rest] = [this.items.length > 0, this.#details.length > 0];
    if (!hasItems || (this.#growing?.kind === 'content' && rest)) {
      events.push(...this.#grow('content', () => this.#newContent(), this.#space));
    }
    events.push(...this.#close(status));
    return events;
  }

  #count(parts: readonly GenerationPart[]): void {
    this.#undecidedTokens++;
    const reasons =
      parts.length === 0
        ? this.#growing?.kind === 'reasoning'
        : parts.some(({ kind }) => kind === 'reasoning');
    if (reasons) this.#reasoningTokens += this.#undecidedTokens;
    if (reasons || parts.length > 0) this.#undecidedTokens = 0;
  }

  #part(part: GenerationPart): OutputEvent[] {
    switch (part.kind) {
      case 'content':
        return this.#content(part.text);
      case 'reasoning':
        this.#forget();
        return this.#grow(
          'reasoning',
          () => ({ kind: 'reasoning', ...this.#newItem('reasoning') }),
          part.text,
        );
      case 'call': {
        this.#forget();
        const { name, id: callId } = part;
        return this.#begin({ kind: 'call', name, callId, ...this.#newItem('function_call') });
      }
      case 'arguments':
        this.#forget();
        return this.#growing?.kind === 'call' ? this.#delta(this.#growing, part.text) : [];
    }
  }

  #content(text: string): OutputEvent[] {
    const all = this.#space + text;
    this.#space = '';
    if (this.#growing?.kind !== 'content' && all.trim() === '') {
      this.#space = all;
      return [];
    }
    return this.#grow('content', () => this.#newContent(), all);
  }

  /** Neither the space before it nor what is known of its tokens is part of a text. */
  #forget(): void {
    this.#space = '';
    this.#details = [];
  }

  #grow(kind: Growing['kind'], make: () => Growing, text: string): OutputEvent[] {
    const events = this.#growing?.kind === kind ? [] : this.#begin(make());
    return [...events, ...this.#delta(this.#growing as Growing, text)];
  }

  #begin(next: Growing): OutputEvent[] {
    const events = this.#close('completed');
    const index = this.#done.length;
    this.#growing = next;
    events.push({ type: 'response.output_item.added', output_index: index, item: bareItem(next) });
    if (next.kind !== 'call') {
      events.push({ type: 'response.content_part.added', ...locationOf(next), part: partOf(next) });
    }
    return events;
  }

  #delta(item: Growing, delta: string): OutputEvent[] {
    const details = this.#details;
    this.#details = [];
    if (delta === '' && details.length === 0) return [];
    item.text += delta;
    const { item_id, output_index } = locationOf(item);
    if (item.kind === 'call') {
      return [{ type: 'response.function_call_arguments.delta', item_id, output_index, delta }];
    }
    if (item.kind === 'reasoning') {
      return [{ type: 'response.reasoning_text.delta', ...locationOf(item), delta }];
    }
    const logprobs = details.map(this.#entryOf);
    item.logprobs.push(...logprobs);
    return [{ type: 'response.output_text.delta', ...locationOf(item), delta, logprobs }];
  }

  #close(status: ItemStatus): OutputEvent[] {
    const item = this.#growing;
    if (item === undefined) return [];
    this.#growing = undefined;
    const whole = itemOf(item, status);
    this.#done.push(whole);
    return [...endOf(item), { type: 'response.output_item.done', output_index: item.index, item: whole }];
  }

  #newContent(): Growing {
    return { kind: 'content', logprobs: [], ...this.#newItem('message') };
  }

  #newItem(type: OutputItem['type']) {
    const growing = this.#growing === undefined ? 0 : 1;
    return { id: newItemId(type), index: this.#done.length + growing, text: '' };
  }
}

function locationOf({ id, index }: Growing) {
  return { item_id: id, output_index: index, content_index: 0 };
}

function endOf(item: Growing): OutputEvent[] {
  const { text } = item;
  const location = locationOf(item);
  if (item.kind === 'call') {
    const { item_id, output_index } = location;
    const { name } = item;
    const type = 'response.function_call_arguments.done';
    return [{ type, item_id, output_index, name, arguments: text }];
  }
  const done =
    item.kind === 'reasoning'
      ? { type: 'response.reasoning_text.done', ...location, text }
      : { type: 'response.output_text.done', ...location, text, logprobs: item.logprobs };
  return [done, { type: 'response.content_part.done', ...location, part: partOf(item) }];
}

function partOf(item: Exclude<Growing, { kind: 'call' }>) {
  const { text } = item;
  return item.kind === 'reasoning'
    ? ({ type: 'reasoning_text', text } as const)
    : ({ type: 'output_text', text, annotations: [], logprobs: [...item.logprobs] } as const);
}

function bareItem(item: Growing): OutputItem {
  const whole = itemOf(item, 'in_progress');
  return whole.type === 'function_call' ? whole : { ...whole, content: [] };
}

function itemOf(item: Growing, status: ItemStatus): OutputItem {
  const { id, text } = item;
  switch (item.kind) {
    case 'content': {
      const content = [partOf(item) as Extract<ReturnType<typeof partOf>, { type: 'output_text' }>];
      return { id, type: 'message', status, role: 'assistant', content };
    }
    case 'reasoning':
      return { id, type: 'reasoning', status, summary: [], content: [{ type: 'reasoning_text', text }] };
    case 'call':
      return { id, type: 'function_call', status, call_id: item.callId, name: item.name, arguments: text };
  }
}
