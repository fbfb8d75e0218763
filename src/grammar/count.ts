// How rules that count do so: see CountedRule.

import type { CountedRule, GrammarTables } from './tables.ts';

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
