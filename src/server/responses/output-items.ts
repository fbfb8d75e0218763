// Builds the items of an answer while it is generated, with an event for each beginning, delta and end.

import { createHash } from 'node:crypto';
import type { AnswerPiece, GenerationPart, NamedCall, TokenDetail } from '../../generation/answer-parts.ts';
import { CustomInput } from './custom-input.ts';
import { type ItemStatus, newItemId, type OutputItem } from './items.ts';
import type { KnownTool } from './tools.ts';

export interface OutputEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

type Growing = { readonly id: string; readonly index: number; text: string } & (
  | { readonly kind: 'content'; readonly logprobs: object[] }
  | { readonly kind: 'reasoning' }
  | { readonly kind: 'call'; readonly tool: KnownTool; readonly callId: string }
  | {
      readonly kind: 'custom';
      readonly tool: KnownTool;
      readonly callId: string;
      readonly input: CustomInput;
    }
);

interface NewIds {
  item(type: OutputItem['type'], index: number): string;
  /** `given`: by the caller that has read the call. */
  call(index: number, given: string): string;
}

const randomIds: NewIds = { item: (type) => newItemId(type), call: (_, given) => given };

/** The same for the same place in the same response, so that an answer that is computed again has them, too. */
export function idsOf(responseId: string): NewIds {
  const digest = (text: string) => createHash('sha256').update(`${responseId} ${text}`).digest('hex');
  return {
    item: (type, index) => newItemId(type, digest(`item ${index}`).slice(0, 32)),
    // Letters and digits: what the strictest templates accept.
    call: (index, { length }) => digest(`call ${index}`).slice(0, length),
  };
}

type Call = Extract<Growing, { readonly tool: KnownTool }>;

export class OutputItems {
  readonly #entryOf: (detail: TokenDetail) => object;
  readonly #newIds: NewIds;
  readonly #tools: ReadonlyMap<string, KnownTool>;
  readonly #done: OutputItem[] = [];
  #growing: Growing | undefined;
  /** White space, which belongs to a text only if text follows. */
  #space = '';
  /** Log-probabilities of tokens whose item is not known yet. */
  #details: TokenDetail[] = [];
  #undecidedTokens = 0;
  #reasoningTokens = 0;

  /** `tools`: by the names that the model has for them. */
  constructor(
    entryOf: (detail: TokenDetail) => object,
    tools: ReadonlyMap<string, KnownTool> = new Map(),
    newIds: NewIds = randomIds,
  ) {
    this.#entryOf = entryOf;
    this.#tools = tools;
    this.#newIds = newIds;
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
        return this.#begin(this.#newCall(part));
      }
      case 'arguments': {
        this.#forget();
        const open = this.#growing;
        if (open?.kind === 'call') return this.#delta(open, part.text);
        return open?.kind === 'custom' ? this.#delta(open, open.input.push(part.text)) : [];
      }
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
    if (!isCall(next)) {
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
    if (isCall(item)) return [{ type: `${callEvents[item.kind]}.delta`, item_id, output_index, delta }];
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

  #newCall({ name, id }: NamedCall): Growing {
    const callId = this.#newIds.call(this.#next, id);
    const tool = this.#tools.get(name) ?? { name, custom: false };
    return tool.custom
      ? { kind: 'custom', tool, callId, input: new CustomInput(), ...this.#newItem('custom_tool_call') }
      : { kind: 'call', tool, callId, ...this.#newItem('function_call') };
  }

  #newItem(type: OutputItem['type']) {
    const index = this.#next;
    return { id: this.#newIds.item(type, index), index, text: '' };
  }

  get #next(): number {
    return this.#done.length + (this.#growing === undefined ? 0 : 1);
  }
}

const callEvents = {
  call: 'response.function_call_arguments',
  custom: 'response.custom_tool_call_input',
} as const;

function isCall(item: Growing): item is Call {
  return item.kind === 'call' || item.kind === 'custom';
}

function locationOf({ id, index }: Growing) {
  return { item_id: id, output_index: index, content_index: 0 };
}

function endOf(item: Growing): OutputEvent[] {
  const { text } = item;
  const location = locationOf(item);
  if (isCall(item)) {
    const { item_id, output_index } = location;
    const whole = item.kind === 'custom' ? { input: text } : { name: item.tool.name, arguments: text };
    return [{ type: `${callEvents[item.kind]}.done`, item_id, output_index, ...whole }];
  }
  const done =
    item.kind === 'reasoning'
      ? { type: 'response.reasoning_text.done', ...location, text }
      : { type: 'response.output_text.done', ...location, text, logprobs: item.logprobs };
  return [done, { type: 'response.content_part.done', ...location, part: partOf(item) }];
}

function partOf(item: Exclude<Growing, Call>) {
  const { text } = item;
  return item.kind === 'reasoning'
    ? ({ type: 'reasoning_text', text } as const)
    : ({ type: 'output_text', text, annotations: [], logprobs: [...item.logprobs] } as const);
}

function bareItem(item: Growing): OutputItem {
  const whole = itemOf(item, 'in_progress');
  return 'content' in whole ? { ...whole, content: [] } : whole;
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
      return { id, type: 'function_call', status, ...calledOf(item), arguments: text };
    case 'custom':
      return { id, type: 'custom_tool_call', status, ...calledOf(item), input: text };
  }
}

function calledOf({ callId, tool: { name, namespace } }: Call) {
  return { call_id: callId, name, ...(namespace === undefined ? {} : { namespace }) };
}
