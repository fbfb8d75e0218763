// The tokens that may come next in a parser state. A token is allowed where any stack allows it, and what a stack
// allows depends on its state alone, except for tokens that go on beyond the end of its rule: so the tree of all
// tokens is walked once per state, and only the ends of those tokens are walked for each caller.

import type { ParserState, ParserStates, Stack } from './parser-states.ts';
import type { StepBudget } from './step-budget.ts';
import { type CountedRule, countAfter, countedRule, type GrammarTables } from './tables.ts';
import { type RestTree, restTree, type VocabularyTables } from './vocabulary.ts';

/** What a state allows, independent of the caller. */
interface StateMask {
  /** A list where they are few, else a mask. */
  readonly tokens: Int32Array | Uint32Array;
  /** Nodes of the vocabulary's tree where the rule may end and tokens go on. */
  readonly ended: readonly number[];
  /** The rests of tokens after those nodes in one tree; undefined where it would be too large. */
  readonly rests: () => RestTree | undefined;
}

/** Nodes of the vocabulary's tree; `base` is the depth of the topmost. */
interface NodeRange {
  readonly first: number;
  readonly end: number;
  readonly base: number;
}

const MAX_LISTED = 2048;

/** Larger rests are walked in place: mostly little of them fits. */
const MAX_REST_NODES = 30_000;

/** The cost of adding a stack to a mask; see step-budget.ts. */
const STEPS_PER_STACK = 10;

/** Masks take 16 KB each for 128,000 tokens. */
const MAX_KEPT_BYTES = 32 * 2 ** 20;

export class Masks {
  readonly #tables: GrammarTables;
  readonly #vocabulary: VocabularyTables;
  readonly #parserStates: ParserStates;
  readonly #shared: SharedMasks;
  readonly #rowOf: (state: number) => Int32Array;
  readonly #budget: StepBudget;
  readonly #byState = new Map<number, StateMask>();
  readonly #kept: ParserState[] = [];

  constructor(
    tables: GrammarTables,
    vocabulary: VocabularyTables,
    parserStates: ParserStates,
    shared: SharedMasks,
    budget: StepBudget,
  ) {
    this.#budget = budget;
    this.#tables = tables;
    this.#vocabulary = vocabulary;
    this.#parserStates = parserStates;
    this.#shared = shared;
    this.#rowOf = parserStates.rowOf;
  }

  /** The result is cached and must not be changed. */
  of(parserState: ParserState): Uint32Array {
    parserState.mask ??= this.#make(parserState);
    return parserState.mask;
  }

  #make(parserState: ParserState): Uint32Array {
    const mask = this.#empty();
    if (parserState.isOwn) this.#walk(parserState, mask);
    else for (const stack of parserState.stacks) this.#addFrame(stack, mask);
    if (parserState.complete) for (const token of this.#vocabulary.ends) allow(mask, token);
    this.#keep(parserState, mask);
    return mask;
  }

  #keep(parserState: ParserState, { byteLength }: Uint32Array): void {
    this.#kept.push(parserState);
    if (this.#kept.length * byteLength <= MAX_KEPT_BYTES) return;
    for (const one of this.#kept.splice(0, this.#kept.length >> 2)) one.mask = undefined;
  }

  #empty(): Uint32Array {
    return new Uint32Array((this.#vocabulary.size + 31) >>> 5);
  }

  #addFrame(stack: Stack, mask: Uint32Array): void {
    const { tokens, ended, rests } = this.#stateMask(stack);
    this.#budget.spend(STEPS_PER_STACK + tokens.length / 16);
    if (tokens instanceof Int32Array) for (const token of tokens) allow(mask, token);
    else for (let at = 0; at < tokens.length; at++) mask[at] = (mask[at] as number) | (tokens[at] as number);
    if (stack.parent !== undefined && ended.length > 0) {
      const returned = this.#parserStates.returned(stack.parent);
      const tree = rests();
      if (tree !== undefined) this.#addRests(tree, returned, mask);
      else for (const node of ended) this.#addBelow(node, returned, mask);
    }
    this.#addTokens(stack.state, mask);
  }

  #addTokens(state: number, mask: Uint32Array): void {
    const { tokenEdges, tokenId } = this.#tables;
    for (let edge = tokenEdges[state] as number; edge < (tokenEdges[state + 1] as number); edge++) {
      allow(mask, tokenId[edge] as number);
    }
    const { controls, ends } = this.#vocabulary;
    for (const { without } of this.#parserStates.controlsOf(state)) {
      for (const token of controls) if (!without.includes(token) && !ends.includes(token)) allow(mask, token);
    }
  }

  #addRests({ byte, depth, end, tokenStarts, tokens }: RestTree, from: ParserState, mask: Uint32Array): void {
    const path: ParserState[] = [from];
    for (let node = 0; node < byte.length; ) {
      this.#budget.spend(1);
      const at = depth[node] as number;
      const next = this.#parserStates.next(path[at] as ParserState, byte[node] as number);
      if (next === null) {
        node = end[node] as number;
        continue;
      }
      path[at + 1] = next;
      for (let i = tokenStarts[node] as number; i < (tokenStarts[node + 1] as number); i++) {
        allow(mask, tokens[i] as number);
      }
      node++;
    }
  }

  #addBelow(top: number, from: ParserState, mask: Uint32Array): void {
    const { nodeDepth, nodeEnd, nodeToken } = this.#vocabulary;
    const below = { first: top + 1, end: nodeEnd[top] as number, base: (nodeDepth[top] as number) + 1 };
    const start = (byte: number) => this.#parserStates.next(from, byte);
    this.#along(below, start, (node) => this.#allowAll(mask, nodeToken[node] as number));
  }

  /** Visits the nodes reached by parser states; `start` is where the first byte leads. */
  #along(
    { first, end, base }: NodeRange,
    start: (byte: number) => ParserState | null,
    visit: (node: number, parserState: ParserState) => void,
  ): void {
    const { nodeByte, nodeDepth, nodeEnd } = this.#vocabulary;
    const path: ParserState[] = [];
    for (let node = first; node < end; ) {
      this.#budget.spend(1);
      const depth = (nodeDepth[node] as number) - base;
      const byte = nodeByte[node] as number;
      const next = depth === 0 ? start(byte) : this.#parserStates.next(path[depth] as ParserState, byte);
      if (next === null) {
        node = nodeEnd[node] as number;
        continue;
      }
      path[depth + 1] = next;
      visit(node, next);
      node++;
    }
  }

  get #allNodes(): NodeRange {
    return { first: 0, end: this.#vocabulary.nodeByte.length, base: 0 };
  }

  #stateMask({ state, count }: Stack): StateMask {
    const rule = this.#tables.ruleOf[state] as number;
    const leaf = this.#tables.rules[rule]?.leaf;
    if (leaf === undefined) {
      const known = this.#byState.get(state);
      if (known !== undefined) return known;
      const made = this.#structure(state);
      this.#byState.set(state, made);
      return made;
    }
    // Limits matter only within the reach of one token.
    const counted = countedRule(this.#tables, state);
    const reach = this.#vocabulary.longestToken + 1;
    const limits =
      counted === undefined
        ? undefined
        : {
            ...counted,
            least: Math.min(Math.max(counted.least - count, 0), reach),
            most: Math.min(counted.most - count, reach + counted.longestNeed),
          };
    const parserState = state - (this.#tables.starts[rule] as number);
    const key = `${leaf} ${parserState} ${limits?.least ?? ''} ${limits?.most ?? ''}`;
    return this.#shared.get(key, () => this.#leaf(state, limits));
  }

  /** For a rule that calls no other: states suffice. */
  #leaf(state: number, counted: CountedRule | undefined): StateMask {
    const { nodeByte, nodeDepth, nodeEnd, nodeToken, longestToken } = this.#vocabulary;
    const { accepts } = this.#tables;
    const tokens: number[] = [];
    const ended: number[] = [];
    const states = new Int32Array(longestToken + 1);
    const counts = new Int32Array(longestToken + 1);
    states[0] = state;
    const rows: Int32Array[] = [this.#rowOf(state)];
    for (let node = 0; node < nodeByte.length; ) {
      this.#budget.spend(1);
      const depth = nodeDepth[node] as number;
      const to = (rows[depth] as Int32Array)[nodeByte[node] as number] as number;
      const count =
        to < 0 || counted === undefined
          ? to
          : countAfter(this.#tables, states[depth] as number, to, counts[depth] as number, counted);
      if (count < 0) {
        node = nodeEnd[node] as number;
        continue;
      }
      states[depth + 1] = to;
      counts[depth + 1] = count;
      rows[depth + 1] = this.#rowOf(to);
      this.#addAll(tokens, nodeToken[node] as number);
      if (accepts[to] === 1 && nodeEnd[node] !== node + 1) ended.push(node);
      node++;
    }
    return this.#stateMaskOf(tokens, ended);
  }

  /** For a rule that calls others, whose reading needs stacks. */
  #structure(state: number): StateMask {
    const { nodeEnd, nodeToken } = this.#vocabulary;
    const tokens: number[] = [];
    const ended: number[] = [];
    const row = this.#rowOf(state);
    const start = (byte: number) => {
      const to = row[byte] as number;
      return to < 0 ? null : this.#parserStates.at(to);
    };
    this.#along(this.#allNodes, start, (node, { complete }) => {
      this.#addAll(tokens, nodeToken[node] as number);
      if (complete && nodeEnd[node] !== node + 1) ended.push(node);
    });
    return this.#stateMaskOf(tokens, ended);
  }

  #walk(parserState: ParserState, mask: Uint32Array): void {
    const start = (byte: number) => this.#parserStates.next(parserState, byte);
    this.#along(this.#allNodes, start, (node) =>
      this.#allowAll(mask, this.#vocabulary.nodeToken[node] as number),
    );
    for (const { state } of parserState.stacks) this.#addTokens(state, mask);
  }

  #stateMaskOf(tokens: readonly number[], ended: readonly number[]): StateMask {
    const { nodeEnd } = this.#vocabulary;
    const size = ended.reduce((sum, node) => sum + (nodeEnd[node] as number) - node, 0);
    let tree: RestTree | undefined;
    const rests = () => {
      if (size <= MAX_REST_NODES) tree ??= restTree(this.#vocabulary, ended);
      return tree;
    };
    return { tokens: this.#packed(tokens), ended, rests };
  }

  #packed(tokens: readonly number[]): Int32Array | Uint32Array {
    if (tokens.length <= MAX_LISTED) return Int32Array.from(tokens);
    const mask = this.#empty();
    for (const token of tokens) allow(mask, token);
    return mask;
  }

  #addAll(tokens: number[], token: number): void {
    for (let one = token; one >= 0; one = this.#vocabulary.twin[one] as number) tokens.push(one);
  }

  /** With tokens of the same bytes. */
  #allowAll(mask: Uint32Array, token: number): void {
    for (let one = token; one >= 0; one = this.#vocabulary.twin[one] as number) allow(mask, one);
  }
}

function allow(mask: Uint32Array, token: number): void {
  mask[token >>> 5] = (mask[token >>> 5] as number) | (1 << (token & 31));
}

/** Masks shared by grammars: rules that call no other, such as the text of a string, are equal in many. */
export class SharedMasks {
  readonly #maxEntries: number;
  /** Least recently used first. */
  readonly #entries = new Map<string, StateMask>();

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: string, make: () => StateMask): StateMask {
    const entry = this.#entries.get(key) ?? make();
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#maxEntries && oldest !== undefined) this.#entries.delete(oldest);
    return entry;
  }
}
