// Calls of functions as they come in pieces. Writers of answers take one call after the other.

import { callId, type GenerationPart } from '../generation/answer-parts.ts';
import { invalid } from './json.ts';

interface CallPiece {
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly arguments: string | undefined;
}

export class CallParts {
  /** Of the upstream: its number for the open call, and its id. */
  #open: { readonly place: number; readonly id: string | undefined } | undefined;
  #calls = 0;

  add(place: number, { id, name, arguments: text }: CallPiece): GenerationPart[] {
    const isOpen = this.#open?.place === place && (id === undefined || id === this.#open.id);
    const begun = isOpen ? [] : this.#begin(place, id, name);
    return text === undefined ? begun : [...begun, { kind: 'arguments', call: this.#calls - 1, text }];
  }

  #begin(place: number, id: string | undefined, name: string | undefined): GenerationPart[] {
    if (name === undefined) throw invalid('arguments of a call that is not open');
    this.#open = { place, id };
    return [{ kind: 'call', call: this.#calls++, id: id ?? callId(), name }];
  }
}
