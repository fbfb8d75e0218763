// A compiled grammar: a deterministic automaton for each rule, all states in common arrays. Plain data, passed
// between threads and processes.

export interface GrammarTables {
  /** Equal keys, equal grammars. */
  readonly key: string;
  /** The first state of each rule; rule 0 is the start. */
  readonly starts: Int32Array;
  readonly rules: readonly RuleTraits[];
  readonly ruleOf: Int32Array;
  readonly accepts: Uint8Array;
  /** By state, where its edges begin in the following arrays; one entry more than states. */
  readonly byteEdges: Int32Array;
  readonly byteFirst: Uint8Array;
  readonly byteLast: Uint8Array;
  readonly byteTo: Int32Array;
  readonly callEdges: Int32Array;
  readonly callRule: Int32Array;
  readonly callTo: Int32Array;
  readonly tokenEdges: Int32Array;
  readonly tokenId: Int32Array;
  readonly tokenTo: Int32Array;
  readonly controls: readonly ControlTable[];
}

export interface RuleTraits {
  /** Set where it calls no other rule. Equal keys, equal automata. */
  readonly leaf: string | undefined;
  readonly counted: CountedRule | undefined;
}

/** A rule that counts the characters of a string: it ends after `least` to `most` of them. By state, from its first on. */
export interface CountedRule {
  /** 1 between two characters: entering such a state counts one. */
  readonly between: readonly number[];
  /** How many characters more there must be. */
  readonly needs: readonly number[];
  /** The largest of those between two characters. */
  readonly longestNeed: number;
  readonly least: number;
  readonly most: number;
}

export interface ControlTable {
  readonly state: number;
  readonly without: readonly number[];
  readonly to: number;
}

export function tableBytes(tables: GrammarTables): number {
  const arrays = Object.values(tables).filter((value) => ArrayBuffer.isView(value));
  return arrays.reduce((sum, { byteLength }) => sum + byteLength, 0) + tables.rules.length * 100;
}

/** The count after an edge; -1 where it is not allowed. */
export function countAfter(
  tables: GrammarTables,
  from: number,
  to: number,
  count: number,
  counted: CountedRule | undefined = countedRule(tables, from),
): number {
  if (counted === undefined) return 0;
  const { between, needs, least, most } = counted;
  if (tables.accepts[to] === 1) return count < least ? -1 : count;
  const first = tables.starts[tables.ruleOf[from] as number] as number;
  const after = from === first ? 0 : count + (between[to - first] as number);
  return after + (needs[to - first] as number) > most ? -1 : after;
}

export function countedRule({ rules, ruleOf }: GrammarTables, state: number): CountedRule | undefined {
  return rules[ruleOf[state] as number]?.counted;
}

const MAX_KEPT = 16_384;

/** By state, a row of 256: where each byte leads, or -1. Made on demand. */
export function denseRows({
  byteEdges,
  byteFirst,
  byteLast,
  byteTo,
}: GrammarTables): (state: number) => Int32Array {
  const rows = new Map<number, Int32Array>();
  return (state) => {
    const known = rows.get(state);
    if (known !== undefined) return known;
    const row = new Int32Array(256).fill(-1);
    for (let edge = byteEdges[state] as number; edge < (byteEdges[state + 1] as number); edge++) {
      row.fill(byteTo[edge] as number, byteFirst[edge], (byteLast[edge] as number) + 1);
    }
    // A row takes a kilobyte, and a grammar may have hundreds of thousands of states.
    if (rows.size >= MAX_KEPT) rows.clear();
    rows.set(state, row);
    return row;
  };
}
