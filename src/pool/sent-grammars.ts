// Grammar tables that an engine process has: they are sent once and named by their key afterwards. The engine says where it
// does not know a key, and gets the tables again.

import { MAX_GRAMMARS } from '../engine/grammars.ts';
import type { SentRequest } from '../engine/protocol.ts';
import { type EngineRequest, isAnswered } from '../engine/request.ts';

export class SentGrammars {
  /** Least recently used first, as in the engine, which drops the same ones. */
  readonly #keys = new Set<string>();

  /** The request without tables that the engine has. */
  pack(request: EngineRequest): SentRequest {
    if (!isAnswered(request) || request.grammar === undefined) return request;
    const { tables, continues } = request.grammar;
    const { key } = tables;
    const isKnown = this.#keys.delete(key);
    this.#keys.add(key);
    const [oldest] = this.#keys;
    if (this.#keys.size > MAX_GRAMMARS && oldest !== undefined) this.#keys.delete(oldest);
    return isKnown ? { ...request, grammar: { tables: { key }, continues } } : request;
  }

  forget(key: string): void {
    this.#keys.delete(key);
  }

  /** Another engine comes, which has none. */
  clear(): void {
    this.#keys.clear();
  }
}
