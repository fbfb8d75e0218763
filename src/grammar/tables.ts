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
