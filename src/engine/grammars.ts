// The grammars of running answers: made of tables once, and shared by all requests that bring the same.

import { SharedMasks } from '../grammar/masks.ts';
import { Grammar, Matcher } from '../grammar/matcher.ts';
import type { GrammarTables } from '../grammar/tables.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { AnswerRequest, RequestError } from './request.ts';

/** Those that are used last stay. */
export const MAX_GRAMMARS = 32;
/** Masks that grammars share, in bytes: 16 KB each for a vocabulary of 128,000. */
const MAX_SHARED_BYTES = 32 * 2 ** 20;

/** Without a matcher where the request has no grammar. */
export type Matching =
  | { readonly ok: true; readonly matcher: Matcher | undefined }
  | { readonly ok: false; readonly error: RequestError };

export class Grammars {
  readonly #vocabulary: VocabularyTables;
  readonly #shared: SharedMasks;
  readonly #grammars = new Map<string, Grammar>();

  constructor(vocabulary: VocabularyTables) {
    this.#vocabulary = vocabulary;
    const maskBytes = Math.max(1, vocabulary.size >>> 3);
    this.#shared = new SharedMasks(Math.max(64, Math.floor(MAX_SHARED_BYTES / maskBytes)));
  }

  /** Where the answer stands: after the tokens that it has already. */
  matcher({ grammar, answer = [] }: AnswerRequest): Matching {
    if (grammar === undefined) return { ok: true, matcher: undefined };
    const matcher = new Matcher(this.#grammar(grammar.tables), grammar.continues);
    if (answer.every((token) => matcher.accept(token))) return { ok: true, matcher };
    return { ok: false, error: { code: 'invalid', message: 'the answer so far does not fit its grammar' } };
  }

  tablesOf(key: string): GrammarTables | undefined {
    return this.#grammars.get(key)?.tables;
  }

  #grammar(tables: GrammarTables): Grammar {
    const grammar = this.#grammars.get(tables.key) ?? new Grammar(tables, this.#vocabulary, this.#shared);
    this.#grammars.delete(tables.key);
    this.#grammars.set(tables.key, grammar);
    const [oldest] = this.#grammars.keys();
    if (this.#grammars.size > MAX_GRAMMARS && oldest !== undefined) this.#grammars.delete(oldest);
    return grammar;
  }
}

/** Where nobody has said what tokens spell. */
export function noGrammars({ grammar }: AnswerRequest): Matching {
  if (grammar === undefined) return { ok: true, matcher: undefined };
  return { ok: false, error: { code: 'invalid', message: 'a grammar came before the vocabulary' } };
}
