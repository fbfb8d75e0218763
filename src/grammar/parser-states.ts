// Where in a grammar a text has got to. A parser state is a set of stacks: at each level of calls a state, and on top the one
// that reads the next byte. Stacks and parser states are made once and kept, so that the same parser state is the same object, and what
// was found out about it stays known.

import { BudgetExceeded, StepBudget } from './step-budget.ts';
import { type ControlTable, countAfter, denseRows, type GrammarTables } from './tables.ts';

/** A state and where to go on when its rule ends. */
export interface Stack {
  readonly state: number;
  /** Of a rule that counts. */
  readonly count: number;
  /** The state to return to; undefined where the answer then may end. */
  readonly parent: Stack | undefined;
  /** Frames on top of this one. */
  readonly children: Map<number, Stack>;
  readonly number: number;
  /** The parser state that is reached by returning here. */
  returned: ParserState | undefined;
}

export interface ParserState {
  /** Those that may read on. */
  readonly stacks: readonly Stack[];
  /** The answer may end here. */
  readonly complete: boolean;
  /** By byte: where it leads; undefined where that is not known yet. */
  next: (ParserState | null | undefined)[] | undefined;
  mask: Uint32Array | undefined;
  /** Its edges are not those of its stacks. */
  readonly isOwn?: boolean;
}

/** What keeps the work for one byte bounded. */
const MAX_STACKS = 4096;
/** What they cost to make: see step-budget.ts. */
const STEPS_PER_PARSER_STATE = 20;
const STEPS_PER_STACK = 10;
/** Text that can be read in more ways is not looked at for what must follow. */
const MAX_FORCED_STACKS = 16;
/** So much is kept at most. */
const MAX_KEPT = 4000;

export class ParserStates {
  readonly #tables: GrammarTables;
  readonly #budget: StepBudget;
  /** By byte: the state that it leads to, or -1. */
  readonly rowOf: (state: number) => Int32Array;
  readonly #controls: ReadonlyMap<number, readonly ControlTable[]>;
  readonly #bottom = new Map<number, Stack>();
  readonly #parserStates = new Map<string, ParserState>();
  #stacks = 0;

  constructor(tables: GrammarTables, budget = new StepBudget()) {
    this.#tables = tables;
    this.#budget = budget;
    this.rowOf = denseRows(tables);
    const controls = new Map<number, ControlTable[]>();
    for (const control of tables.controls) {
      controls.set(control.state, [...(controls.get(control.state) ?? []), control]);
    }
    this.#controls = controls;
  }

  /** Edges of a state that any control token follows, but for some. */
  controlsOf(state: number): readonly ControlTable[] {
    return this.#controls.get(state) ?? [];
  }

  /**
   * The one byte that may come next, or that may beside white space. Undefined where there are several, where a control token
   * may come, and where too much would have to be looked at.
   */
  onlyByte({ stacks, isOwn }: ParserState, besideBlanks = false): number | undefined {
    if (isOwn === true || stacks.length > MAX_FORCED_STACKS) return undefined;
    this.#budget.spend(STEPS_PER_STACK * stacks.length);
    const { byteEdges, byteFirst, byteLast } = this.#tables;
    let only: number | undefined;
    for (const { state } of stacks) {
      if (this.#readsTokens(state)) return undefined;
      for (let edge = byteEdges[state] as number; edge < (byteEdges[state + 1] as number); edge++) {
        const byte = byteFirst[edge] as number;
        if (besideBlanks && isBlank(byte) && isBlank(byteLast[edge] as number)) continue;
        if (byteLast[edge] !== byte || (only ?? byte) !== byte) return undefined;
        only = byte;
      }
    }
    return only;
  }

  /** Whether control tokens lead on from a state, besides bytes. */
  #readsTokens(state: number): boolean {
    const { tokenEdges } = this.#tables;
    return tokenEdges[state] !== tokenEdges[state + 1] || this.#controls.has(state);
  }

  /** Time to begin anew, with empty hands. */
  get full(): boolean {
    return this.#stacks > MAX_KEPT || this.#parserStates.size > MAX_KEPT;
  }

  /** Where every answer begins. */
  get start(): ParserState {
    return this.at(this.#tables.starts[0] as number);
  }

  /** In a state of its own, with nothing known of who called. */
  at(state: number): ParserState {
    return this.#closed((add) => add(state, 0, undefined));
  }

  /** Where the caller goes on. */
  returned(stack: Stack): ParserState {
    stack.returned ??= this.#closed((add) => add(stack.state, stack.count, stack.parent));
    return stack.returned;
  }

  /** A parser state of others of the same grammar, as one of these. */
  adopt(parserState: ParserState): ParserState {
    return this.#closed((add) => {
      for (const { state, count, parent } of parserState.stacks) add(state, count, this.#copy(parent));
    }, parserState.complete);
  }

  #copy(stack: Stack | undefined): Stack | undefined {
    const chain: Stack[] = [];
    for (let at = stack; at !== undefined; at = at.parent) chain.push(at);
    return chain.reduceRight<Stack | undefined>(
      (parent, { state, count }) => this.#stack(state, count, parent),
      undefined,
    );
  }

  /** Null where the byte is not possible. */
  next(parserState: ParserState, byte: number): ParserState | null {
    parserState.next ??= new Array<ParserState | null | undefined>(256);
    const known = parserState.next[byte];
    if (known !== undefined) return known;
    const result = parserState.stacks.some(({ state }) => (this.rowOf(state)[byte] as number) >= 0)
      ? this.#reached(parserState, byte)
      : null;
    parserState.next[byte] = result;
    return result;
  }

  #reached(parserState: ParserState, byte: number): ParserState | null {
    const reached = this.#closed((add) => {
      for (const stack of parserState.stacks) {
        const to = this.rowOf(stack.state)[byte] as number;
        const count = to < 0 ? -1 : countAfter(this.#tables, stack.state, to, stack.count);
        if (count >= 0) add(to, count, stack.parent);
      }
    });
    return isDead(reached) ? null : reached;
  }

  /** Where a control token leads; null where it is not possible. */
  afterToken(parserState: ParserState, token: number): ParserState | null {
    const { tokenEdges, tokenId, tokenTo } = this.#tables;
    const reached = this.#closed((add) => {
      for (const { state, parent } of parserState.stacks) {
        for (let edge = tokenEdges[state] as number; edge < (tokenEdges[state + 1] as number); edge++) {
          if (tokenId[edge] === token) add(tokenTo[edge] as number, 0, parent);
        }
        for (const { without, to } of this.controlsOf(state))
          if (!without.includes(token)) add(to, 0, parent);
      }
    });
    return isDead(reached) ? null : reached;
  }

  #closed(
    begin: (add: (state: number, count: number, parent: Stack | undefined) => void) => void,
    complete = false,
  ): ParserState {
    const { accepts, starts, callEdges, callRule, callTo } = this.#tables;
    const seen = new Set<Stack>();
    const open: Stack[] = [];
    let ends = complete;
    const add = (state: number, count: number, parent: Stack | undefined) => {
      const stack = this.#stack(state, count, parent);
      if (seen.has(stack)) return;
      if (seen.size >= MAX_STACKS) throw new BudgetExceeded();
      seen.add(stack);
      open.push(stack);
    };
    begin(add);
    for (let stack = open.pop(); stack !== undefined; stack = open.pop()) {
      const { state, parent } = stack;
      if (accepts[state] === 1) {
        if (parent === undefined) ends = true;
        else add(parent.state, parent.count, parent.parent);
      }
      for (let edge = callEdges[state] as number; edge < (callEdges[state + 1] as number); edge++) {
        const to = callTo[edge] as number;
        // A call at the very end of a rule returns straight to whoever called that rule.
        const back = this.#isLast(to) ? parent : this.#stack(to, 0, parent);
        add(starts[callRule[edge] as number] as number, 0, back);
      }
    }
    this.#budget.spend(STEPS_PER_PARSER_STATE + seen.size * STEPS_PER_STACK);
    const stacks = [...seen].filter(({ state }) => this.#reads(state)).sort((a, b) => a.number - b.number);
    return this.#parserState(stacks, ends);
  }

  #reads(state: number): boolean {
    const { byteEdges } = this.#tables;
    return byteEdges[state] !== byteEdges[state + 1] || this.#readsTokens(state);
  }

  #isLast(state: number): boolean {
    const { accepts, callEdges } = this.#tables;
    return accepts[state] === 1 && callEdges[state] === callEdges[state + 1] && !this.#reads(state);
  }

  #stack(state: number, count: number, parent: Stack | undefined): Stack {
    const children = parent === undefined ? this.#bottom : parent.children;
    const key = state * 2 ** 24 + count;
    const known = children.get(key);
    if (known !== undefined) return known;
    const stack: Stack = {
      state,
      count,
      parent,
      children: new Map(),
      number: this.#stacks++,
      returned: undefined,
    };
    children.set(key, stack);
    return stack;
  }

  #parserState(stacks: readonly Stack[], complete: boolean): ParserState {
    const key = `${complete ? 'e' : ''}${stacks.map(({ number }) => number).join()}`;
    const known = this.#parserStates.get(key);
    if (known !== undefined) return known;
    const parserState: ParserState = { stacks, complete, next: undefined, mask: undefined };
    this.#parserStates.set(key, parserState);
    return parserState;
  }
}

function isDead({ stacks, complete }: ParserState): boolean {
  return stacks.length === 0 && !complete;
}

/** Of JSON. Ranges of bytes do not begin with one and end with another but 9 and 10. */
function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
}
