// Arrays: items by their place, how many of them `contains` finds, and that none comes twice.

import type { Node } from '../rules.ts';
import { all, itemAt, largest, type Plain, smallest } from './plain-schemas.ts';
import type { RuleMaker } from './rule-maker.ts';
import type { Schema } from './schema.ts';
import { type ArrayStates, arrayNode } from './shapes.ts';
import { fewValues, MAX_UNIQUE } from './unique-items.ts';

/** There is an alternative for each set of them that an item is found by. */
const MAX_SEARCHES = 3;

/** Items that are found by a schema: `least` to `most` from a place on. */
interface Search {
  readonly schema: Schema;
  readonly least: number;
  readonly most: number | undefined;
  readonly from: number;
}

export function arrayRule(plain: Plain, rules: RuleMaker): Node {
  const { document, book } = rules;
  if (all(plain, 'uniqueItems').includes(true)) return uniqueItems(plain, rules);
  const searches = searchesOf(plain, rules);
  const limited = document.enforced("'maxItems'", () => arrayNode(book, counted(plain, searches, rules)));
  if (limited !== undefined) return limited;
  const open = plain.map(({ minItems: _least, maxItems: _most, ...rest }) => rest);
  return arrayNode(book, counted(open, [], rules));
}

function searchesOf(plain: Plain, rules: RuleMaker): Search[] {
  const { document, negations } = rules;
  const found: Search[] = plain.flatMap(({ contains: schema, minContains: least = 1, maxContains: most }) =>
    schema === undefined || (least === 0 && most === undefined) ? [] : [{ schema, least, most, from: 0 }],
  );
  for (const { items, prefixItems = [] } of all(plain, 'fails')) {
    if (items === undefined) continue;
    found.push({ schema: negations.not(items), least: 1, most: undefined, from: prefixItems.length });
  }
  const distinct = [...new Map(found.map((one) => [keyOf(one, rules), one])).values()];
  if (distinct.length > MAX_SEARCHES)
    document.cannotEnforce('contains', `more than ${MAX_SEARCHES} times for one array`);
  return distinct.slice(0, MAX_SEARCHES);
}

function keyOf({ schema, least, most, from }: Search, { document }: RuleMaker): string {
  return [document.numberOf(schema), least, most, from].join();
}

interface Count {
  readonly items: number;
  /** By search. */
  readonly found: readonly number[];
}

function counted(plain: Plain, searches: readonly Search[], rules: RuleMaker): ArrayStates<Count> {
  const least = largest(plain, 'minItems');
  const most = smallest(plain, 'maxItems') ?? Number.POSITIVE_INFINITY;
  const prefix = Math.max(0, ...plain.map(({ prefixItems }) => prefixItems?.length ?? 0));
  // From here on all items are alike, unless their number has a limit.
  const last = Number.isFinite(most) ? most : Math.max(prefix, least, 1, ...searches.map(({ from }) => from));
  return {
    start: { items: 0, found: searches.map(() => 0) },
    nameOf: ({ items, found }) => [items, ...found].join(),
    isEnd: ({ items, found }) =>
      items >= least && searches.every((search, at) => (found[at] as number) >= search.least),
    next({ items, found }) {
      if (items >= most) return [];
      const at = Math.min(items, prefix);
      const own = itemAt(plain, at);
      return sightings(searches, items, found).map(({ isFound, after }) => {
        const more = searches.flatMap((search, index) => {
          if (isFound[index] === true) return [search.schema];
          return search.most === undefined || items < search.from ? [] : [rules.negations.not(search.schema)];
        });
        return [rules.node([...own, ...more]), { items: Math.min(items + 1, last), found: after }] as const;
      });
    },
  };
}

/** Which searches may find the next item. One that has found enough, and has no limit, looks no further. */
function sightings(searches: readonly Search[], items: number, found: readonly number[]) {
  const sets = Array.from({ length: 2 ** searches.length }, (_, set) =>
    searches.map((_, index) => ((set >> index) & 1) === 1),
  );
  const isPossible = ({ least, most, from }: Search, count: number) =>
    items >= from && (most === undefined ? count < least : count < most);
  return sets
    .filter((isFound) =>
      isFound.every((one, at) => !one || isPossible(searches[at] as Search, found[at] as number)),
    )
    .map((isFound) => ({ isFound, after: found.map((count, at) => count + (isFound[at] === true ? 1 : 0)) }));
}

/** Exact where the items have few values or there is one at most. */
function uniqueItems(plain: Plain, rules: RuleMaker): Node {
  const { document, book } = rules;
  const loose = plain.map(({ uniqueItems: _, ...rest }) => rest);
  const most = smallest(loose, 'maxItems') ?? Number.POSITIVE_INFINITY;
  if (most <= 1) return arrayRule(loose, rules);
  const prefix = Math.max(0, ...loose.map(({ prefixItems }) => prefixItems?.length ?? 0));
  if (prefix <= 1 && itemAt(loose, prefix).includes(false)) return arrayRule(loose, rules);
  const own = itemAt(loose, 0);
  const isPlain = prefix === 0 && searchesOf(loose, rules).length === 0;
  const values = isPlain
    ? fewValues(rules.alternatives(own), (value) => rules.isValid(value, own), 1000)
    : undefined;
  if (values !== undefined && values.length <= MAX_UNIQUE && rules.spendSets(2 ** values.length))
    return arrayNode(book, distinctValues(values, largest(loose, 'minItems'), most, rules));
  document.cannotEnforce('uniqueItems', 'where items have many values');
  return arrayRule(values === undefined ? loose : [...loose, { maxItems: values.length }], rules);
}

/** A state is the set of values that have been read. */
function distinctValues(
  values: readonly unknown[],
  least: number,
  most: number,
  rules: RuleMaker,
): ArrayStates<number> {
  const nodes = values.map((value) =>
    rules.book.named(`literal ${rules.strings.name} ${JSON.stringify(value)}`, () => rules.literal(value)),
  );
  const size = (set: number) => values.filter((_, at) => ((set >> at) & 1) === 1).length;
  return {
    start: 0,
    nameOf: String,
    isEnd: (set) => size(set) >= least,
    next: (set) =>
      size(set) >= most
        ? []
        : nodes.flatMap((node, at) => (((set >> at) & 1) === 1 ? [] : [[node, set | (1 << at)] as const])),
  };
}
