// An answer on its way through a grammar: which tokens may come next, and where it stands after one has come. All answers
// of one grammar share what was found out about its places.

import { Allowance, Effort, TooAmbiguous } from './effort.ts';
import { endingBytes, likelyBytes } from './likely-bytes.ts';
import { Masks, type SharedMasks } from './masks.ts';
import { type Place, Places } from './places.ts';
import type { GrammarTables } from './tables.ts';
import { longestTokens, type VocabularyTables } from './vocabulary.ts';

const SPACE = 0x20;
/** What a look ahead may cost: a few new masks of a large vocabulary. */
const FORK_STEPS = 1_000_000;

/** As a rule, of a token. */
const TOKEN_BYTES = 6;

/** Where an answer stands whose beginning cannot be found. */
const NOWHERE: Place = { frames: [], complete: false, next: undefined, mask: undefined };

export interface LikelyTokens {
  readonly tokens: readonly number[];
  /** So many of the first leave no choice. */
  readonly forced: number;
}

export class Grammar {
  readonly vocabulary: VocabularyTables;
  readonly tables: GrammarTables;
  /** Of whoever looks now. */
  readonly effort = new Effort();
  readonly #shared: SharedMasks;
  readonly #controls: ReadonlySet<number>;
  #places: Places;
  #masks: Masks;
  /** How often everything was forgotten. */
  #age = 0;

  constructor(tables: GrammarTables, vocabulary: VocabularyTables, shared: SharedMasks) {
    this.vocabulary = vocabulary;
    this.tables = tables;
    this.#shared = shared;
    this.#controls = new Set(vocabulary.controls);
    this.#places = new Places(tables, this.effort);
    this.#masks = new Masks(tables, vocabulary, this.#places, shared, this.effort);
  }

  get age(): number {
    return this.#age;
  }

  /** `continues`: the answer goes on with a text, so that a space before its first word is its own. */
  start(continues: boolean): Place {
    const { start } = this.#places;
    if (continues || !this.vocabulary.stripsLeadingSpace) return start;
    const opening: Place = { ...start, next: undefined, mask: undefined, isOwn: true };
    for (let byte = 0; byte < 256; byte++) this.#places.next(opening, byte);
    if (opening.next !== undefined) opening.next[SPACE] = start;
    return opening;
  }

  adopt(place: Place): Place {
    return place.isOwn ? this.start(false) : this.#places.adopt(place);
  }

  mask(place: Place): Uint32Array {
    return this.#masks.of(place);
  }

  /** Null where the token is not possible. */
  next(place: Place, token: number): Place | null {
    if (this.#controls.has(token)) return this.#places.afterToken(place, token);
    const { starts, bytes } = this.vocabulary;
    let at: Place | null = place;
    const end = starts[token + 1] as number;
    if (end === starts[token]) return null;
    for (let i = starts[token] as number; i < end && at !== null; i++)
      at = this.#places.next(at, bytes[i] as number);
    return at;
  }

  /** Of the text that follows. */
  likely(place: Place, last: number | undefined, most: number): LikelyTokens {
    const likely = likelyBytes(this.#places, place, last, most * TOKEN_BYTES);
    const tokens = longestTokens(likely.bytes, this.vocabulary).slice(0, most);
    const sure = longestTokens(likely.bytes.subarray(0, likely.forced), this.vocabulary);
    let forced = 0;
    while (forced < tokens.length && tokens[forced] === sure[forced]) forced += 1;
    return { tokens, forced };
  }

  ending(place: Place, most: number): number[] {
    const bytes = endingBytes(this.#places, place, most * TOKEN_BYTES);
    return longestTokens(bytes, this.vocabulary).slice(0, most);
  }

  lastByte(token: number): number | undefined {
    const { starts, bytes } = this.vocabulary;
    const [start, end] = [starts[token] as number, starts[token + 1] as number];
    return end > start ? bytes[end - 1] : undefined;
  }

  /** Keeps memory bounded, whatever grammars and answers do. */
  tidy(): void {
    if (!this.#places.full) return;
    this.#age++;
    this.#places = new Places(this.tables, this.effort);
    this.#masks = new Masks(this.tables, this.vocabulary, this.#places, this.#shared, this.effort);
  }
}

export class Matcher {
  readonly #grammar: Grammar;
  #place = NOWHERE;
  #age: number;
  readonly #allowance: Allowance;
  #failure: TooAmbiguous | undefined;
  #looksAhead = false;
  #lastByte: number | undefined;

  constructor(grammar: Grammar, continues: boolean, allowance = new Allowance()) {
    this.#grammar = grammar;
    this.#allowance = allowance;
    this.#age = grammar.age;
    this.#place = this.#found(() => grammar.start(continues)) ?? NOWHERE;
  }

  /** Another that goes its own way from here, at no cost to this one: for what may follow. */
  fork(): Matcher {
    const fork = new Matcher(this.#grammar, true, new Allowance(FORK_STEPS));
    fork.#place = this.#place;
    fork.#lastByte = this.#lastByte;
    fork.#age = this.#age;
    fork.#failure = this.#failure;
    fork.#looksAhead = true;
    return fork;
  }

  get vocabulary(): VocabularyTables {
    return this.#grammar.vocabulary;
  }

  /** The longest tokens, up to `most`, of the text that comes next, as far as there is but one beside white space. */
  likely(most: number): LikelyTokens {
    const look = () => this.#grammar.likely(this.#current(), this.#lastByte, most);
    return this.#looked(look) ?? { tokens: [], forced: 0 };
  }

  /** The same of the text that ends the value at hand, and of what follows it. */
  ending(most: number): number[] {
    return this.#looked(() => this.#grammar.ending(this.#current(), most)) ?? [];
  }

  /** The answer may end here. */
  get complete(): boolean {
    return this.#place.complete;
  }

  /** The answer is complete and nothing may follow. */
  get ended(): boolean {
    return this.#place.complete && this.#place.frames.length === 0;
  }

  /**
   * Tokens that may come next, as SampleRow wants them; the end tokens where the answer may end. Not to be changed. Throws
   * TooAmbiguous where it cannot go on.
   */
  mask(): Uint32Array {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#allowance.within(this.#grammar.effort, () => this.#grammar.mask(this.#current()));
  }

  /** False, and nothing changes, where the token is not possible. */
  accept(token: number): boolean {
    const next = this.#found(() => this.#grammar.next(this.#current(), token));
    if (next === null) return false;
    this.#place = next;
    this.#lastByte = this.#grammar.lastByte(token);
    this.#allowance.renew();
    // What answers know of their places is theirs: who only looks ahead takes nothing away.
    if (!this.#looksAhead) this.#grammar.tidy();
    return true;
  }

  /** The place that `look` finds; where that is too much, the failure is kept until a mask is asked for. */
  #found(look: () => Place | null): Place | null {
    if (this.#failure !== undefined) return this.#place;
    try {
      return this.#allowance.within(this.#grammar.effort, look);
    } catch (error) {
      if (!(error instanceof TooAmbiguous)) throw error;
      this.#failure = error;
      return this.#place;
    }
  }

  /** Undefined where that is too much. */
  #looked<Found>(look: () => Found): Found | undefined {
    try {
      return this.#allowance.within(this.#grammar.effort, look);
    } catch (error) {
      if (error instanceof TooAmbiguous) return undefined;
      throw error;
    }
  }

  #current(): Place {
    if (this.#age !== this.#grammar.age) {
      this.#place = this.#grammar.adopt(this.#place);
      this.#age = this.#grammar.age;
    }
    return this.#place;
  }
}
