// Follows an answer through a grammar: which tokens may come next. All answers of a grammar share its parser states
// and masks.

import { endingBytes, likelyBytes } from './likely-bytes.ts';
import { Masks, type SharedMasks } from './masks.ts';
import { type ParserState, ParserStates } from './parser-states.ts';
import { AnswerBudget, BudgetExceeded, StepBudget } from './step-budget.ts';
import type { GrammarTables } from './tables.ts';
import { longestTokens, type VocabularyTables } from './vocabulary.ts';

const SPACE = 0x20;
/** The budget of a look ahead: a few new masks of a large vocabulary. */
const FORK_STEPS = 1_000_000;

/** Typical length of a token. */
const TOKEN_BYTES = 6;

/** For an answer whose start exceeds the budget. */
const NOWHERE: ParserState = { stacks: [], complete: false, next: undefined, mask: undefined };

export interface LikelyTokens {
  readonly tokens: readonly number[];
  /** How many of the first are forced. */
  readonly forced: number;
}

export class Grammar {
  readonly vocabulary: VocabularyTables;
  readonly tables: GrammarTables;
  /** Of the current search. */
  readonly budget = new StepBudget();
  readonly #shared: SharedMasks;
  readonly #controls: ReadonlySet<number>;
  #parserStates: ParserStates;
  #masks: Masks;
  /** How often the caches were cleared. */
  #age = 0;

  constructor(tables: GrammarTables, vocabulary: VocabularyTables, shared: SharedMasks) {
    this.vocabulary = vocabulary;
    this.tables = tables;
    this.#shared = shared;
    this.#controls = new Set(vocabulary.controls);
    this.#parserStates = new ParserStates(tables, this.budget);
    this.#masks = new Masks(tables, vocabulary, this.#parserStates, shared, this.budget);
  }

  get age(): number {
    return this.#age;
  }

  /** `continues`: the answer continues a text, so a space before its first word is kept. */
  start(continues: boolean): ParserState {
    const { start } = this.#parserStates;
    if (continues || !this.vocabulary.stripsLeadingSpace) return start;
    const opening: ParserState = { ...start, next: undefined, mask: undefined, isOwn: true };
    for (let byte = 0; byte < 256; byte++) this.#parserStates.next(opening, byte);
    if (opening.next !== undefined) opening.next[SPACE] = start;
    return opening;
  }

  adopt(parserState: ParserState): ParserState {
    return parserState.isOwn ? this.start(false) : this.#parserStates.adopt(parserState);
  }

  mask(parserState: ParserState): Uint32Array {
    return this.#masks.of(parserState);
  }

  /** Null where the token is not allowed. */
  next(parserState: ParserState, token: number): ParserState | null {
    if (this.#controls.has(token)) return this.#parserStates.afterToken(parserState, token);
    const { starts, bytes } = this.vocabulary;
    let at: ParserState | null = parserState;
    const end = starts[token + 1] as number;
    if (end === starts[token]) return null;
    for (let i = starts[token] as number; i < end && at !== null; i++)
      at = this.#parserStates.next(at, bytes[i] as number);
    return at;
  }

  likely(parserState: ParserState, last: number | undefined, most: number): LikelyTokens {
    const likely = likelyBytes(this.#parserStates, parserState, last, most * TOKEN_BYTES);
    const tokens = longestTokens(likely.bytes, this.vocabulary).slice(0, most);
    const sure = longestTokens(likely.bytes.subarray(0, likely.forced), this.vocabulary);
    let forced = 0;
    while (forced < tokens.length && tokens[forced] === sure[forced]) forced += 1;
    return { tokens, forced };
  }

  ending(parserState: ParserState, most: number): number[] {
    const bytes = endingBytes(this.#parserStates, parserState, most * TOKEN_BYTES);
    return longestTokens(bytes, this.vocabulary).slice(0, most);
  }

  lastByte(token: number): number | undefined {
    const { starts, bytes } = this.vocabulary;
    const [start, end] = [starts[token] as number, starts[token + 1] as number];
    return end > start ? bytes[end - 1] : undefined;
  }

  /** Keeps memory bounded. */
  tidy(): void {
    if (!this.#parserStates.full) return;
    this.#age++;
    this.#parserStates = new ParserStates(this.tables, this.budget);
    this.#masks = new Masks(this.tables, this.vocabulary, this.#parserStates, this.#shared, this.budget);
  }
}

export class Matcher {
  readonly #grammar: Grammar;
  #parserState = NOWHERE;
  #age: number;
  readonly #answerBudget: AnswerBudget;
  #failure: BudgetExceeded | undefined;
  #looksAhead = false;
  #lastByte: number | undefined;

  constructor(grammar: Grammar, continues: boolean, answerBudget = new AnswerBudget()) {
    this.#grammar = grammar;
    this.#answerBudget = answerBudget;
    this.#age = grammar.age;
    this.#parserState = this.#found(() => grammar.start(continues)) ?? NOWHERE;
  }

  /** An independent copy for looking ahead, with its own budget. */
  fork(): Matcher {
    const fork = new Matcher(this.#grammar, true, new AnswerBudget(FORK_STEPS));
    fork.#parserState = this.#parserState;
    fork.#lastByte = this.#lastByte;
    fork.#age = this.#age;
    fork.#failure = this.#failure;
    fork.#looksAhead = true;
    return fork;
  }

  get vocabulary(): VocabularyTables {
    return this.#grammar.vocabulary;
  }

  /** Greedy tokens, up to `most`, of the text that must come next, white space aside. */
  likely(most: number): LikelyTokens {
    const look = () => this.#grammar.likely(this.#current(), this.#lastByte, most);
    return this.#looked(look) ?? { tokens: [], forced: 0 };
  }

  /** The same for the end of the current value and what must follow it. */
  ending(most: number): number[] {
    return this.#looked(() => this.#grammar.ending(this.#current(), most)) ?? [];
  }

  get complete(): boolean {
    return this.#parserState.complete;
  }

  /** Complete, and nothing may follow. */
  get ended(): boolean {
    return this.#parserState.complete && this.#parserState.stacks.length === 0;
  }

  /**
   * Allowed tokens in the format of SampleRow; end tokens where the answer may end. Must not be changed. Throws
   * BudgetExceeded.
   */
  mask(): Uint32Array {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#answerBudget.within(this.#grammar.budget, () => this.#grammar.mask(this.#current()));
  }

  /** False, without a change, where the token is not allowed. */
  accept(token: number): boolean {
    const next = this.#found(() => this.#grammar.next(this.#current(), token));
    if (next === null) return false;
    this.#parserState = next;
    this.#lastByte = this.#grammar.lastByte(token);
    this.#answerBudget.renew();
    // Looking ahead must not clear the caches that answers use.
    if (!this.#looksAhead) this.#grammar.tidy();
    return true;
  }

  /** Where the budget is exceeded, the failure is kept for the next mask. */
  #found(look: () => ParserState | null): ParserState | null {
    if (this.#failure !== undefined) return this.#parserState;
    try {
      return this.#answerBudget.within(this.#grammar.budget, look);
    } catch (error) {
      if (!(error instanceof BudgetExceeded)) throw error;
      this.#failure = error;
      return this.#parserState;
    }
  }

  /** Undefined where the budget is exceeded. */
  #looked<Found>(look: () => Found): Found | undefined {
    try {
      return this.#answerBudget.within(this.#grammar.budget, look);
    } catch (error) {
      if (error instanceof BudgetExceeded) return undefined;
      throw error;
    }
  }

  #current(): ParserState {
    if (this.#age !== this.#grammar.age) {
      this.#parserState = this.#grammar.adopt(this.#parserState);
      this.#age = this.#grammar.age;
    }
    return this.#parserState;
  }
}
