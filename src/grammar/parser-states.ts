// Parser states: sets of stacks, with a state of each calling rule and on top the one that reads the next byte.
// Stacks and parser states are interned, so that equal ones are the same object and what is computed for them is
// reused.

import { BudgetExceeded, StepBudget } from './step-budget.ts';
import { type ControlTable, countAfter, denseRows, type GrammarTables } from './tables.ts';

/** A node of a stack: a state, and where to return when its rule ends. */
export interface Stack {
  readonly state: number;
  /** In a rule that counts. */
  readonly count: number;
  /** Where to return; undefined at the bottom, where the answer may then end. */
  readonly parent: Stack | undefined;
  readonly children: Map<number, Stack>;
  readonly number: number;
  returned: ParserState | undefined;
}

export interface ParserState {
  readonly stacks: readonly Stack[];
  readonly complete: boolean;
  /** By byte; undefined where not computed yet. */
  next: (ParserState | null | undefined)[] | undefined;
  mask: Uint32Array | undefined;
  /** Its edges are not those of its stacks. */
  readonly isOwn?: boolean;
}

/** Bounds the work for one byte. */
const MAX_STACKS = 4096;
/** Costs; see step-budget.ts. */
const STEPS_PER_PARSER_STATE = 20;
const STEPS_PER_STACK = 10;
/** Beyond this, forced bytes are not searched for. */
const MAX_FORCED_STACKS = 16;
const MAX_KEPT = 4000;

export class ParserStates {
  readonly #tables: GrammarTables;
  readonly #budget: StepBudget;
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

  controlsOf(state: number): readonly ControlTable[] {
    return this.#controls.get(state) ?? [];
  }

  /**
   * The one byte that may come next, or the one besides white space. Undefined where there are several, where a
   * control token may come, or where the search would be too large.
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

  #readsTokens(state: number): boolean {
    const { tokenEdges } = this.#tables;
    return tokenEdges[state] !== tokenEdges[state + 1] || this.#controls.has(state);
  }

  /** The cache is full: start again with an empty one. */
  get full(): boolean {
    return this.#stacks > MAX_KEPT || this.#parserStates.size > MAX_KEPT;
  }

  get start(): ParserState {
    return this.at(this.#tables.starts[0] as number);
  }

  /** Without a caller. */
  at(state: number): ParserState {
    return this.#closed((add) => add(state, 0, undefined));
  }

  returned(stack: Stack): ParserState {
    stack.returned ??= this.#closed((add) => add(stack.state, stack.count, stack.parent));
    return stack.returned;
  }

  /** Interns a parser state of another object of the same grammar. */
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

  /** Null where the byte is not allowed. */
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

  /** Null where the control token is not allowed. */
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
        // Tail calls return to the caller's caller.
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

/** In JSON. No range of bytes begins with one blank and ends with another, except 9 to 10. */
function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
}
