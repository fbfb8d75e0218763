// A compiled grammar: deterministic automata, one for each rule, all states in common arrays. Plain data, made in one
// thread and used in another process.

export interface GrammarTables {
  /** Of what it says: equal keys, equal grammars. */
  readonly key: string;
  /** The first state of each rule; rule 0 is where an answer begins. */
  readonly starts: Int32Array;
  readonly rules: readonly RuleTraits[];
  /** By state: its rule, and whether the rule may end there. */
  readonly ruleOf: Int32Array;
  readonly accepts: Uint8Array;
  /** By state, where its edges begin in the arrays that follow; one entry more than states. */
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
  /** States that any control token leads on from, but for some. */
  readonly controls: readonly ControlTable[];
}

export interface RuleTraits {
  /** It calls no other rule: what it allows depends on nothing else. Of equal keys, equal automata. */
  readonly leaf: string | undefined;
  readonly counted: CountedRule | undefined;
}

/**
 * A rule that counts: `body` is the state between two characters of a string. Coming back to it counts one; the rule
 * ends only from there, after `least` of them, and there are never more than `most`.
 */
export interface CountedRule {
  readonly body: number;
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

/** Characters read after going from one state to another; -1 where it must not be. */
export function countAfter(
  tables: GrammarTables,
  from: number,
  to: number,
  count: number,
  counted: CountedRule | undefined = countedRule(tables, from),
): number {
  if (counted === undefined) return 0;
  const { body, least, most } = counted;
  if (from === body) {
    if (tables.accepts[to] === 1) return count < least ? -1 : count;
    // No character may begin that could not end.
    if (count >= most) return -1;
  } else if (from === tables.starts[tables.ruleOf[from] as number]) return 0;
  return to === body ? count + 1 : count;
}

export function countedRule({ rules, ruleOf }: GrammarTables, state: number): CountedRule | undefined {
  return rules[ruleOf[state] as number]?.counted;
}

const MAX_KEPT = 16_384;

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
